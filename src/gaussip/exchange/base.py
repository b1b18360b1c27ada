"""The one verb between sites.

A message maps channels to vectors; each channel is combined over the neighbours in its own way: ``"mean"`` is the
average with the weights w_mq of the site's row of W (which may give some weight to the site itself), ``"max"`` the
largest entry among those with weight. Neighbours are always taken in the sorted order of their names, one after the
other, so that every implementation gives the same bits.
"""

from typing import Protocol, TypeAlias

from gaussip.arrays import Array

Message: TypeAlias = dict[str, Array]


class Exchange(Protocol):
    """Gives this round's message to the neighbours and returns theirs, combined channel by channel."""

    bytes_sent: int  #: so far: every message counts once for each neighbour it goes to

    def __call__(self, message: Message) -> Message:
        """Send, receive, combine: arrays in, arrays of the same shapes out."""
        ...
