"""Sums between sites of which none learns another's part, one after the other; see `gaussip.exchange.sums`.

First every site's public key reaches every other, so that each two share a secret; then, sum by sum, the masked parts
do. All travel as in the survey: each exchange takes the largest of what the neighbours know. This keeps parts from
those who listen and compute; not from a neighbour that passes on another key than it heard.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gaussip.arrays import NDArray
from gaussip.errors import FederationError
from gaussip.exchange import Message, sums
from gaussip.phases.survey import can_be_told, table_of

SECRET = 32  # bytes


class Memory(NamedTuple):
    """What is to be kept of the sums."""

    keys: NDArray  #: (M, 8), of all sites as far as heard
    table: NDArray  #: (M, size), the parts of the present sum as far as heard; empty before the first
    stage: int  #: exchanges of this sum so far
    number: int  #: sums so far


NO_SUMS = Memory(np.empty(0), np.empty(0), 0, 0)  # of no sites


class Summing:
    """One site's machine.

    Parameters
    ----------
    secret : (32 bytes) that nobody else knows, the same whenever a run goes on
    name : of these sums; no other sums of the run have it, so that no mask is used twice
    across : exchanges in which all hear from all
    """

    def __init__(self, secret: bytes, name: str, index: int, n_sites: int, across: int) -> None:
        self._private = X25519PrivateKey.from_private_bytes(secret)
        self._name, self._index, self._across = name, index, across
        public = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        own = np.frombuffer(public, dtype="<u4").astype(float)
        self._secrets: dict[int, bytes] = {}
        self.memory = Memory(table_of(own, index, n_sites), np.empty((n_sites, 0)), 0, 0)

    def resume(self, memory: Memory) -> None:
        """Go on from a memory that was kept."""
        if not np.array_equal(memory.keys[self._index], self.memory.keys[self._index]):
            raise FederationError(
                "the run's file `secret` is not the one it began with, without which sums would be wrong: bring it "
                "back, or agree with the other sites to begin anew (gaussip site go-on DIR --from 0, at every site)"
            )
        self.memory = memory

    def begin(self, values: NDArray) -> None:
        """The site's part of the next sum."""
        part = sums.masked(values, self._index, self._shared(), f"{self._name} {self.memory.number}")
        table = table_of(part, self._index, len(self.memory.keys))
        self.memory = self.memory._replace(table=table, stage=0)

    def message(self) -> Message:
        """What the neighbours get."""
        return {"max": self.memory.table if self.memory.table.size else self.memory.keys}

    def check(self, message: Message) -> bool:
        """Whether a neighbour can have sent this: whole numbers, the same as known where both know."""
        told, limit = message["max"], sums.MODULUS if self.memory.table.size else 2**32
        known = told[np.isfinite(told)]
        whole = ((known >= 0) & (known < limit) & (known == np.floor(known))).all()
        if not whole or not can_be_told(told, self.message()["max"]):
            return False
        return bool(self.memory.table.size) or all(self._usable(row) for row in told if np.isfinite(row).all())

    def _usable(self, row: NDArray) -> bool:
        """Whether a key is one with which a secret can be made."""
        try:
            self._private.exchange(X25519PublicKey.from_public_bytes(row.astype("<u4").tobytes()))
        except ValueError:
            return False
        return True

    def absorb(self, heard: Message) -> NDArray | None:
        """One exchange; at the last of a sum, the sum, and an empty one when all keys are known."""
        memory = self.memory._replace(stage=self.memory.stage + 1)
        over = memory.stage == self._across
        if not memory.table.size:
            self.memory = memory._replace(keys=np.maximum(memory.keys, heard["max"]))
            return np.empty(0) if over else None
        table = np.maximum(memory.table, heard["max"])
        self.memory = memory._replace(table=table, number=memory.number + over)
        return sums.total(table) if over else None

    def _shared(self) -> dict[int, bytes]:
        """What this site and each other alone know."""
        if not self._secrets:
            keys = [row.astype("<u4").tobytes() for row in self.memory.keys]
            for other, key in enumerate(keys):
                if other != self._index:
                    both = b"".join(sorted([key, keys[self._index]]))
                    common = self._private.exchange(X25519PublicKey.from_public_bytes(key))
                    self._secrets[other] = hashlib.sha256(common + both).digest()
        return self._secrets


class Series(ABC):
    """A site's part in sums of which each depends on those before; a machine as the others of a site's run."""

    def __init__(self, summing: Summing) -> None:
        self._summing = summing
        self.new_sum: NDArray | None = None  #: of the last exchange, if it ended a sum

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether no further sum is wanted."""

    @abstractmethod
    def _part(self) -> NDArray:
        """The site's part of the next sum."""

    @abstractmethod
    def _take(self, total: NDArray) -> None:
        """Take in a sum that all sites agreed on."""

    @property
    def memory(self) -> Memory:
        """What is to be kept; the sums so far are kept beside it."""
        return self._summing.memory

    def resume(self, memory: Memory, totals: Sequence[NDArray]) -> None:
        """Go on from a memory that was kept, after so many sums."""
        for total in totals:
            self._take(total)
        self._summing.resume(memory)

    def message(self) -> Message:
        """What the neighbours get."""
        return self._summing.message()

    def check(self, message: Message) -> bool:
        """Whether a neighbour can have sent this."""
        return self._summing.check(message)

    def absorb(self, heard: Message) -> None:
        """One exchange."""
        total, self.new_sum = self._summing.absorb(heard), None
        if total is None:
            return
        if total.size:
            self.new_sum = total
            self._take(total)
        if not self.over:
            self._summing.begin(self._part())
