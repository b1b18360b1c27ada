"""The values of one feature: their quantiles, and those that do not look measured."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.special import bdtrc

from gaussip.arrays import NDArray

FEW_VALUES = 8  # of a feature that is rather a scale or a class
ROWS_PER_VALUE = 10  # before that can be said
BULK = 10  # rows that say where the values of a feature lie
REPEATED = 3  # times that a code stands in a table
NEAR = 1.0  # standard deviations between a repeated code and other values
FROM_MIDDLE = 3.5  # standard deviations between a repeated code and the median
FAR = 1.0  # ranges of the other values between them and a code that is not repeated, which has two digits
FAR_ALONE = 0.3  # the same for a negative code, of whatever digits, where no other number is negative
STEPS = 3  # of a grid between a code and other values; within as many around a heap others are counted
HEAP = 0.15  # of the rows
LEAST_HEAP = 20  # rows: fewer may be as many by chance
ABOVE_OTHERS = 2.5  # times as many rows in a heap as within a few steps around it
CHANCE = 0.01
TAILS = 2 * 1.6448536  # standard deviations of a Gaussian between its quantiles at 0.05 and 0.95


def _known_codes() -> NDArray:
    """What people write where nothing was measured: 9, 99, 999, ..., the same with 7 and 8, 99.9, and negatives."""
    same = [float(digit * length) for digit in "789" for length in range(1, 6)]
    tenths = [float(f"{'9' * length}.9") for length in range(1, 5)]
    return np.array([0.0, -1.0, *same, *tenths, *(-code for code in (*same, *tenths))])


KNOWN_CODES = _known_codes()


class Values:
    """The different values of a feature, at one site or at several.

    Attributes
    ----------
    distinct : (D,), sorted
    counts : (D,), the rows that have each
    """

    def __init__(self, distinct: NDArray, counts: NDArray) -> None:
        self.distinct, self.counts = distinct, counts

    @classmethod
    def of(cls, cells: NDArray) -> Values:
        """Those of a column; missing cells are left out."""
        return cls(*np.unique(cells[~np.isnan(cells)], return_counts=True))

    @classmethod
    def joined(cls, parts: Sequence[Values]) -> Values:
        """Those of several sites together."""
        distinct, places = np.unique(np.concatenate([part.distinct for part in parts]), return_inverse=True)
        counts = np.bincount(places, np.concatenate([part.counts for part in parts]), len(distinct))
        return cls(distinct, counts.astype(int))

    def __len__(self) -> int:
        return len(self.distinct)

    @cached_property
    def n(self) -> int:
        """Rows."""
        return int(self.counts.sum())

    def where(self, kept: NDArray) -> Values:
        """Some of the values."""
        return Values(self.distinct[kept], self.counts[kept])

    def without(self, values: Sequence[float]) -> Values:
        """All but some values."""
        return self.where(~np.isin(self.distinct, values)) if len(values) else self

    def count(self, value: float) -> int:
        """The rows that have one value."""
        return int(self.counts[self.distinct == value].sum())

    def quantile(self, level: float) -> float:
        """As `numpy.quantile` of the column; NaN where it is empty."""
        if not self.n:
            return float("nan")
        rank = level * (self.n - 1)
        below, above = np.searchsorted(self.counts.cumsum(), [np.floor(rank), np.ceil(rank)], side="right")
        low, high = self.distinct[below], self.distinct[above]
        return float(low + (rank - np.floor(rank)) * (high - low))

    @cached_property
    def spread(self) -> float:
        """A standard deviation that a few values far off do not change."""
        return (self.quantile(0.95) - self.quantile(0.05)) / TAILS


def has_few(values: Values) -> bool:
    """Whether a feature has so few different values that they are rather classes, or steps of a scale."""
    return 2 <= len(values) <= FEW_VALUES and values.n >= ROWS_PER_VALUE * len(values)


def codes_in(values: Values, least: int = 1) -> list[float]:
    """The known codes for missing cells that lie apart from all other values, below or above them.

    ``least`` is how often they stand there at least.
    """
    known = np.isin(values.distinct, KNOWN_CODES)
    first, last = 0, len(values)
    while True:  # a code above widens what one below is held against, until it is found
        inner = slice(first, last)
        rest = Values(values.distinct[inner], values.counts[inner])
        below = _codes_below(rest, known[inner], least)
        above = _codes_below(Values(-rest.distinct[::-1], rest.counts[::-1]), known[inner][::-1], least)
        if not below + above:
            break
        first, last = first + below, last - above
    return [*values.distinct[:first].tolist(), *values.distinct[last:].tolist()]


def _codes_below(values: Values, known: NDArray, least: int) -> int:
    """How many of the least values are codes that lie apart from the rest; of -9 and -8 both do, or neither."""
    leading = len(known) if known.all() else int(known.argmin())
    for k in range(leading, 0, -1):
        rest = Values(values.distinct[k:], values.counts[k:])
        n = int(values.counts[:k].sum())
        if rest.n >= BULK and len(rest) > 1 and n >= least and _apart(values.distinct[k - 1], n, rest):
            return k
    return 0


def _apart(code: float, n: int, above: Values) -> bool:
    """Whether a code that stands n times lies too far below other values to be one of them."""
    least, median, reach = above.distinct[0], above.quantile(0.5), above.distinct[-1] - above.distinct[0]
    gap, steps, sd = least - code, np.diff(above.distinct), above.spread or reach / TAILS
    widest = steps[above.distinct[1:] <= median].max(initial=0.0)
    if gap < max(STEPS * steps.min(), 2 * widest):
        return False
    alone = code < 0 <= least  # the only negative numbers
    if n < REPEATED:
        return bool(gap >= FAR_ALONE * reach) if alone else bool(abs(code) >= 10 and gap >= FAR * reach)
    return bool(alone or (gap >= NEAR * sd and median - code >= FROM_MIDDLE * sd))


def heaps_in(values: Values) -> list[float]:
    """The values that many rows have, though few rows lie near them."""
    if len(values) < 2:
        return []
    reach = (STEPS + 0.5) * np.diff(values.distinct).min()
    found = []
    for i in np.flatnonzero(values.counts >= max(HEAP * values.n, LEAST_HEAP)).tolist():
        value, own = float(values.distinct[i]), int(values.counts[i])
        around = int(values.counts[np.abs(values.distinct - value) <= reach].sum())
        if bdtrc(own - 1, around, ABOVE_OTHERS / (1 + ABOVE_OTHERS)) < CHANCE:
            found.append(value)
    return found
