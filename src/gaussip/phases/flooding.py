"""Flooding: what one or several sites know reaches all, by exchanges with neighbours alone.

Each site begins with its own rows of a table, minus infinity elsewhere. Every exchange takes the largest of what the
neighbours know. After as many exchanges as the network is wide, all sites have the same table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.exchange import Message


class Flood(NamedTuple):
    """A table on its way to all sites."""

    table: NDArray  #: (rows, size)
    stage: int  #: exchanges so far

    @classmethod
    def of_site(cls, piece: NDArray, index: int, n_sites: int) -> Flood:
        """A table with a row for each site, of which this site knows its own."""
        table = np.full((n_sites, len(piece)), -np.inf)
        table[index] = piece
        return cls(table, 0)

    def message(self) -> Message:
        """What the neighbours get."""
        return {"max": self.table}

    def after(self, heard: Message) -> Flood:
        """The table after one exchange."""
        return Flood(np.maximum(self.table, heard["max"]), self.stage + 1)

    def agrees(self, message: Message) -> bool:
        """Whether a neighbour's table can be right: whole rows, the same where both are known."""
        table = message["max"]
        rows = np.isfinite(table).all(axis=1)
        if not (rows | (table == -np.inf).all(axis=1)).all():
            return False
        both = rows & np.isfinite(self.table).all(axis=1)
        return bool((table[both] == self.table[both]).all())
