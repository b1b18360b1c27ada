"""One sum over all sites, as one site takes part in it: a message in each exchange, until the total is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.exchange.base import Message, Outgoing
from gaussip.exchange.plan import RECEIPT, Flood, Network, Plan, Stage


class Memory(NamedTuple):
    """What a site holds of a sum; words in int64, which wraps."""

    values: NDArray  #: (rows, words), the parts of a flood, or the sum so far of a tree
    receipts: NDArray  #: (M, 12), as far as received; (0, 12) where there are none
    stage: int  #: exchanges so far


class Contradiction(NamedTuple):
    """A site that sent two different parts of one sum."""

    origin: int
    senders: tuple[int, int]  #: who passed them on; the site itself where it had one before


class Sum:
    """One site's side of a sum of so many words.

    Parameters
    ----------
    senders : the sites from which this site receives
    receipts : whether parts go with receipts
    """

    def __init__(self, network: Network, index: int, senders: list[int], words: int, *, receipts: bool) -> None:
        self.plan: Plan = self._plan(network, words)
        self._index, self._senders, self._words = index, senders, words
        self._n_sites, self._with_receipts = network.n_sites, receipts

    def _plan(self, network: Network, words: int) -> Plan:
        return network.plan(words)

    def begun(self, part: NDArray, receipt: NDArray | None = None) -> Memory:
        """Before the first exchange, with this site's part."""
        values = np.zeros((self.plan.rows, self._words), dtype=np.int64)
        values[self._index if self.plan.rows > 1 else 0] = part
        known = np.zeros((self._n_sites if self._with_receipts else 0, RECEIPT), dtype=np.int64)
        if receipt is not None:
            known[self._index] = receipt
        return Memory(values, known, 0)

    def sends(self, site: int, memory: Memory) -> Stage:
        """What a site sends in the exchange that comes next."""
        return self.plan.stage(site, memory.stage)

    def outgoing(self, memory: Memory) -> Outgoing:
        """This site's side of the next exchange."""
        stage = self.sends(self._index, memory)
        message = self._message(memory.values[list(stage.parts)], memory.receipts, stage) if stage.to else {}
        due = {}
        for sender in self._senders:
            theirs = self.sends(sender, memory)
            if self._index in theirs.to:
                shape = np.empty((len(theirs.parts), self._words), dtype=np.int64)
                due[sender] = self._message(shape, memory.receipts, theirs)
        return Outgoing(message, stage.to, due)

    def _message(self, values: NDArray, receipts: NDArray, stage: Stage) -> Message:
        message = {"sum": values}
        if self._with_receipts:
            message["receipts"] = receipts[list(stage.receipts)]
        return message

    def absorbed(self, memory: Memory, received: Mapping[int, Message]) -> Memory | Contradiction:
        """After an exchange; or the site of which two different parts arrived."""
        values, receipts = memory.values.copy(), memory.receipts.copy()
        known = self.plan.known(self._index, memory.stage)
        first = dict.fromkeys(known, self._index)  # from whom the part of a site came
        for sender in sorted(received):
            stage, message = self.sends(sender, memory), received[sender]
            if self._with_receipts:
                receipts[list(stage.receipts)] = message["receipts"]
            if self.plan.adds(memory.stage):
                values[0] += message["sum"][0]
                continue
            for row, part in zip(stage.parts, message["sum"], strict=True):
                if row in first and not np.array_equal(values[row], part):
                    return Contradiction(row, (first[row], sender))
                first.setdefault(row, sender)
                values[row] = part
        return Memory(values, receipts, memory.stage + 1)

    def over(self, memory: Memory) -> bool:
        """Whether the total is known."""
        return memory.stage == self.plan.exchanges

    def total(self, memory: Memory) -> NDArray:
        """The sum of all parts, (words,)."""
        return np.asarray(memory.values.sum(axis=0))


class Gathering(Sum):
    """All sites' parts, side by side, at every site."""

    def _plan(self, network: Network, words: int) -> Plan:
        return Flood(network)
