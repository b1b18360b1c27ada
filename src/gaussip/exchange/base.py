"""The one verb between sites.

In one exchange a site sends a message to some of its neighbours and receives those that are due from others. A
message maps channels to arrays; what a site makes of them is up to it. An algorithm of gossip combines each channel
over the neighbours: ``"mean"`` is the average with the weights w_mq of the site's row of W (which may give some
weight to the site itself), ``"max"`` the largest entry among those with weight. Neighbours are always taken in the
sorted order of their names, one after the other, so that every implementation gives the same bits.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeAlias

from gaussip.arrays import Array

Message: TypeAlias = dict[str, Array]


class Outgoing(NamedTuple):
    """One site's side of an exchange; sites by their indices."""

    message: Message
    to: tuple[int, ...]  #: who gets it; nobody, where the site has nothing to send
    due: Mapping[int, Message]  #: from whom messages are due, and arrays of their shapes and types


class Exchange(Protocol):
    """Sends what one site has to send, and returns what is due to it."""

    bytes_sent: int  #: so far: every message counts once for each neighbour it goes to

    def __call__(self, outgoing: Outgoing) -> Mapping[int, Message]:
        """Send and receive; the messages by their senders."""
        ...
