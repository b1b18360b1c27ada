"""Sums between sites of which none learns another's part, one after the other; see `gaussip.exchange.sums`.

First every site's public key reaches every other, so that each two share a secret; then, sum by sum, the masked parts
do. Both are flooded. This hides parts from sites that follow the protocol; not from a neighbour that passes on
another key than it received.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gaussip.arrays import NDArray
from gaussip.errors import FederationError
from gaussip.exchange import Message, sums
from gaussip.phases.base import Context, Phase
from gaussip.phases.flooding import Flood

SECRET = 32  # bytes


class Memory(NamedTuple):
    """What is to be kept of the sums."""

    keys: NDArray  #: (M, 8), of all sites as far as known
    flood: Flood  #: of the keys, then of the parts of the present sum
    number: int  #: sums so far
    summing: int  #: zero while keys are flooded, then one


class SumsPhase(Phase):
    """A phase of sums of which each depends on those before."""

    memory: Memory

    def __init__(self, context: Context) -> None:
        task = context.task
        self._private = X25519PrivateKey.from_private_bytes(context.secret)
        self._index, self._diameter, self._n_sites = context.index, task.diameter, len(task.sites)
        self._secrets: dict[int, bytes] = {}
        self.room = 4 * task.longest_message
        public = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        own_key = np.frombuffer(public, dtype="<u4").astype(float)
        keys = Flood.of_site(own_key, context.index, self._n_sites)
        self.memory = Memory(keys.table, keys, 0, 0)

    @abstractmethod
    def _part(self) -> NDArray:
        """The site's part of the next sum."""

    @abstractmethod
    def _take(self, total: NDArray) -> None:
        """Take in a sum that all sites agreed on."""

    def resume(self, memory: Memory, totals: Sequence[NDArray]) -> None:
        """Continue after so many sums."""
        if not np.array_equal(memory.keys[self._index], self.memory.keys[self._index]):
            raise FederationError(
                "the run's file `secret` is not the one it began with, without which sums would be wrong: restore "
                "it, or agree with the other sites to start over (gaussip site go-on DIR --from 0, at every site)"
            )
        for total in totals:
            self._take(total)
        self.memory = memory

    def n_totals(self, memory: Memory) -> int:
        """The sums so far."""
        return memory.number

    def message(self) -> Message:
        """The keys, or the masked parts, as far as they are known."""
        return self.memory.flood.message()

    def check(self, message: Message) -> bool:
        """Whether a neighbour can have sent this: whole numbers, the same as known where both are known."""
        table, limit = message["max"], sums.MODULUS if self.memory.summing else 2**32
        known = table[np.isfinite(table)]
        whole = ((known >= 0) & (known < limit) & (known == np.floor(known))).all()
        if not whole or not self.memory.flood.agrees(message):
            return False
        return bool(self.memory.summing) or all(self._usable(row) for row in table if np.isfinite(row).all())

    def _usable(self, row: NDArray) -> bool:
        """Whether a key is one with which a secret can be made."""
        try:
            self._private.exchange(X25519PublicKey.from_public_bytes(row.astype("<u4").tobytes()))
        except ValueError:
            return False
        return True

    def absorb(self, heard: Message) -> None:
        """One exchange; at the last of a flood the next sum begins."""
        flood, self.new_total = self.memory.flood.after(heard), None
        self.memory = self.memory._replace(flood=flood)
        if flood.stage < self._diameter:
            return
        if self.memory.summing:
            self.memory = self.memory._replace(number=self.memory.number + 1)
            self.new_total = sums.total(flood.table)
            self._take(self.new_total)
        else:
            self.memory = self.memory._replace(keys=flood.table, summing=1)
        if not self.over:
            part = sums.masked(self._part(), self._index, self._shared(), f"{self.name} {self.memory.number}")
            self.memory = self.memory._replace(flood=Flood.of_site(part, self._index, self._n_sites))

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
