"""Every site's public keys reach all sites, before the first sum: each signed with the key of the site's certificate.

A key that was swapped on its way, or is not by the site whose name it has, is rejected by everyone it reaches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import CertificateError, FederationError, TamperingError
from gaussip.exchange import Message, Outgoing
from gaussip.exchange.masks import Keys
from gaussip.exchange.questions import ANNOUNCEMENT
from gaussip.exchange.receipts import CHAIN, chained
from gaussip.exchange.sums import Contradiction, Gathering, Memory
from gaussip.phases.base import Context, Phase

LOST = (
    "the run's file `secret` is not the one it began with, without which sums would be wrong: restore it, or agree "
    "with the other sites to start over (gaussip site go-on DIR --from 0, at every site)"
)


class Announced(NamedTuple):
    """What all sites announced."""

    agreement: NDArray  #: (M, 32), keys by which two sites share a mask
    signing: NDArray  #: (M, 32), keys that check receipts
    rows: NDArray  #: (M,), number of rows; NaN where it is not to be known
    chain: NDArray  #: (32,), a digest of all of it

    def keys(self, what: str) -> list[bytes]:
        """The keys of all sites."""
        return [row.tobytes() for row in getattr(self, what).astype(np.uint8)]


class KeysPhase(Phase):
    """One site's part."""

    name = "keys"
    doing = "exchanging keys"

    def __init__(self, context: Context) -> None:
        assert context.identity is not None
        task, self._identity = context.task, context.identity
        self._names, self._index = task.sites, context.index
        self._public = Keys(context.secret).public
        self._checked: dict[int, bytes] = {}  # announcements that are known to be genuine
        rows = float(len(context.local.X)) if task.reveals != "nothing" else float("nan")
        own = self._identity.announcement(self._public, rows)
        words = ANNOUNCEMENT // 8
        self._sum = Gathering(task.network, context.index, context.near.senders, words, receipts=False)
        self.longest = ANNOUNCEMENT * len(task.sites) + 1024
        self.memory = self._sum.begun(_slot(own))

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> KeysPhase | None:
        """At real sites, which have an identity."""
        return None if context.identity is None else cls(context)

    @property
    def over(self) -> bool:
        """Whether all keys are known."""
        return self._sum.over(self.memory)

    @property
    def result(self) -> Announced:
        """The keys of all sites."""
        agreement, signing, rows = [], [], []
        chain = chained(bytes(CHAIN), self._identity.run)
        for origin, slot in enumerate(self.memory.values):
            public, count = self._identity.checked(self._names[origin], _content(slot))
            agreement.append(np.frombuffer(public[:32], np.uint8))
            signing.append(np.frombuffer(public[32:], np.uint8))
            rows.append(count)
            chain = chained(chain, self._names[origin].encode(), public)
        return Announced(np.stack(agreement), np.stack(signing), np.array(rows), np.frombuffer(chain, np.uint8))

    def outgoing(self) -> Outgoing:
        """The announcements that arrived last."""
        return self._sum.outgoing(self.memory)

    def fault(self, sender: int, message: Message) -> str:
        """An announcement that its site did not sign."""
        for origin, slot in zip(self._sum.sends(sender, self.memory).parts, message["sum"], strict=True):
            content = _content(slot)
            if self._checked.get(origin) != content:
                try:
                    self._identity.checked(self._names[origin], content)
                except CertificateError as error:
                    return f"the key that it passed on as that of {self._names[origin]} is not: {error}"
                self._checked[origin] = content
        return ""

    def absorb(self, received: Mapping[int, Message]) -> None:
        """One exchange."""
        memory = self._sum.absorbed(self.memory, received)
        if isinstance(memory, Contradiction):
            first, second = (self._names[q] for q in memory.senders)
            raise TamperingError(
                f"{self._names[memory.origin]} announced one key to {first} and another to {second}: find out why, "
                "then start over at all sites"
            )
        self.memory = memory

    def resume(self, memory: Memory) -> None:
        """Continue; the site's secret must be the one it began with."""
        public, _ = self._identity.checked(self._names[self._index], _content(memory.values[self._index]))
        if public != self._public:
            raise FederationError(LOST)
        self.memory = memory


def _slot(content: bytes) -> NDArray:
    """An announcement in words, after its length."""
    room = ANNOUNCEMENT - 8
    if len(content) > room:
        raise CertificateError(
            f"the site's certificate is too large to be announced: {len(content)} bytes with its keys, more than "
            f"{room}; have a smaller one made, for instance with an elliptic-curve key"
        )
    return np.frombuffer(len(content).to_bytes(8, "little") + content.ljust(room, b"\0"), "<i8").astype(np.int64)


def _content(slot: NDArray) -> bytes:
    data = slot.astype("<i8").tobytes()
    return data[8 : 8 + int.from_bytes(data[:8], "little")]
