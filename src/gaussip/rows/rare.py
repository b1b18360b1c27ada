"""Rows of which there are few: with the same cells missing, and the same label.

What a fit puts in place of missing cells changes with the mixture, and so do the sums. From the sums of a few rounds
those of the rows that lack the same cells can be computed, and of too few rows they must not be known. The same is
true of rows that may be of the same classes. So where some cells are missing, or some labels are of several classes,
rows that are alike in both are a group, and a group with too few rows at all sites together is left out.

No site knows which groups the others have. All count their rows in bins, to which several hashes assign the groups
(a count-min sketch): a group has no more rows than any of its bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.rows.labels import Sets

HASHES, BINS = 6, 2048


class Rare(NamedTuple):
    """Which rows all sites leave out."""

    few: NDArray  #: (HASHES, BINS), whether a bin has too few rows
    rows: NDArray  #: (), how many are left out at all sites

    @classmethod
    def nothing(cls) -> Rare:
        """All groups have enough rows."""
        return cls(np.zeros((HASHES, BINS), dtype=bool), np.zeros(()))


@dataclass(frozen=True, eq=False)
class Grouped:
    """The rows of a site in groups."""

    missing: NDArray  #: (n, p), whether a cell is missing
    labels: NDArray | None  #: (n,), the numbers of labels, -1 where there is none
    sets: Sets  #: of classes, which the last of these numbers stand for
    n_classes: int  #: for which the first stand
    counts: NDArray  #: (n,), each row's weight, but at most one

    @classmethod
    def of(cls, X: NDArray, labels: NDArray | None, sets: Sets, n_classes: int, weights: NDArray | None) -> Grouped:
        """Of rows (n, p)."""
        counts = np.ones(len(X)) if weights is None else np.minimum(weights, 1.0)
        return cls(np.isnan(X), labels, sets, n_classes, counts)

    @property
    def unlike(self) -> float:
        """How many rows, by these weights, have a missing cell, or a label of several classes."""
        unlike = self.missing.any(axis=1)
        if self.sets and self.labels is not None:
            unlike = unlike | (self.labels >= self.n_classes)
        return float(self.counts @ unlike)

    @cached_property
    def bins(self) -> NDArray:
        """The bins of each row, (n, HASHES)."""
        names, of_row = np.unique(self._classes, return_inverse=True)
        cells, number = np.packbits(self.missing, axis=1), of_row.astype(">u4")[:, None].view(np.uint8)
        distinct, which = np.unique(np.column_stack([cells, number]), axis=0, return_inverse=True)
        keys = [
            row[:-4].tobytes() + str(names[int.from_bytes(row[-4:].tobytes(), "big")]).encode() for row in distinct
        ]
        hashed = b"".join(blake2b(key, digest_size=8 * HASHES).digest() for key in keys)
        bins = np.frombuffer(hashed, "<u8").reshape(-1, HASHES) % BINS
        return np.asarray(bins.astype(int)[which.ravel()])

    def in_bins(self) -> NDArray:
        """How many rows, by these weights, are in each bin of each hash, (HASHES, BINS)."""
        return np.stack([np.bincount(self.bins[:, h], self.counts, BINS) for h in range(HASHES)])

    def kept(self, few: NDArray) -> NDArray:
        """Which rows stay, (n,)."""
        return np.asarray(~few[np.arange(HASHES), self.bins].any(axis=1))

    @property
    def _classes(self) -> NDArray:
        """The numbers of the classes that each row may be of, joined, (n,); empty where it has no label."""
        if self.labels is None:
            return np.full(len(self.counts), "")
        known = [*map(str, range(self.n_classes)), *("|".join(map(str, few)) for few in self.sets), ""]
        return np.array(known)[self.labels]
