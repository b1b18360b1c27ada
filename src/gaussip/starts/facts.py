"""What all sites know of their rows before a fit, from sums alone: how many there are, and where the features lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import DataError, LabelError
from gaussip.exchange.codes import Wide
from gaussip.exchange.questions import Ask, Replicated
from gaussip.mixture.theta import unvech, vech, width
from gaussip.mixture.units import Unit
from gaussip.rows.basis import scale_of
from gaussip.rows.cells import never_together, refuse_unobserved, together
from gaussip.rows.checks import ROUNDED, enough
from gaussip.rows.held import Held

PRECISE = Wide(60, 4)  # for numbers in standard units, divided by the number of rows
COUNTS = Wide()
NO_PAIRS = np.zeros((0, 2), dtype=np.int64)


class Facts(NamedTuple):
    """Totals over all sites."""

    mass: NDArray  #: (), of the rows as they count in the fit
    rows: NDArray  #: (), by weight
    class_counts: NDArray  #: (C,), labelled rows by class; (0,) where there are no labels
    seen: NDArray  #: (p,), the rows in which each feature is observed; (0,) where nobody needs to know
    mean: NDArray  #: (p,); NaN where nobody needs to know
    variance: NDArray  #: (p,), the same
    apart: NDArray = NO_PAIRS  #: (n, 2), features that no row has both of

    @property
    def incomplete(self) -> bool:
        """Whether cells are missing."""
        return bool((self.seen < self.rows - ROUNDED).any())

    @property
    def spread(self) -> NDArray:
        """The standard deviation of each feature; one where it is constant."""
        return scale_of(self.variance, self.mean, float(self.rows))

    @property
    def unit(self) -> Unit:
        """The unit in which every feature has mean zero and variance one."""
        return Unit.of(self.mean, self.spread)


class Classes(NamedTuple):
    """The labelled rows of all sites by class."""

    counts: NDArray  #: (C,)
    means: NDArray  #: (C, p); of a class without rows, zero
    scatters: NDArray  #: (C, p, p), sums of squares and products about the class's mean


def ask_facts(
    n_features: int, n_classes: int, located: bool = True, min_count: int = 1, names: Sequence[str] | None = None
) -> Replicated[Facts]:
    """How many rows there are, and where the features lie if that is to be known.

    Three sums: counts; the features' sums; then the squares about the mean of all. Of features that too few rows have
    no sums are asked for: they are refused, by ``names``.
    """
    p = n_features if located else 0

    def counted(held: Held) -> NDArray:
        columns = [to_numpy(held.rows.mass)[:, None], held.counts[:, None]]
        if n_classes:
            columns.append(held.class_counts)
        if located:
            columns.append(held.seen)
        return np.concatenate(columns, axis=1)

    total = yield Ask(counted, COUNTS)
    mass, rows, class_counts, seen = np.split(total, [1, 2, len(total) - p])
    refuse_impossible(mass >= 0, "their mass is negative")
    refuse_impossible(rows > 0, "their number is not positive")
    refuse_impossible(class_counts >= 0, "some class has a negative number of rows")
    refuse_impossible(seen <= rows + ROUNDED, "a feature is observed in more rows than there are")
    facts = Facts(mass[0, ...], rows[0, ...], class_counts, seen, *np.full((2, n_features), np.nan))
    if not located:
        return facts
    refuse_unobserved(seen, float(facts.rows), min_count, names)
    sums = yield Ask(lambda held: np.stack([held.weighted(m, x) for m, x in enumerate(held.values)]), Wide())
    mean = sums / seen

    def squared(held: Held) -> NDArray:
        return np.stack([held.weighted(m, (x - mean) ** 2) for m, x in enumerate(held.values)])

    variance = yield Ask(squared, Wide())
    refuse_impossible(variance >= 0, "some feature has a negative variance")
    return facts._replace(mean=mean, variance=variance / seen)


def ask_pairs(facts: Facts) -> Replicated[Facts]:
    """The same facts, with the features that no row has both of."""
    if not facts.incomplete:
        return facts

    def counted(held: Held) -> NDArray:
        weights: Sequence[NDArray | None] = [None] * len(held.values) if held.weights is None else held.weights
        return np.stack([vech(together(x, v)) for x, v in zip(held.values, weights, strict=True)])

    return facts._replace(apart=never_together(unvech((yield Ask(counted, COUNTS)))))


def refuse_impossible(sound: NDArray, what: str) -> None:
    """Refuse totals that no rows have: some site sent a part that is not of its rows."""
    if not sound.all():
        raise DataError(
            f"the sum over all sites cannot be that of rows: {what}. Some site sent a wrong part, and sums hide "
            "which: each site should check its table and its version of gaussip"
        )


def refuse_few_labelled(facts: Facts, min_count: int, names: Sequence[Any] = ()) -> None:
    """Refuse classes whose labelled rows, of all sites together, are too few to be summed."""
    for k, n in enumerate(facts.class_counts.tolist()):
        if n > 0 and not enough(n, min_count):
            name = repr(names[k]) if k < len(names) else f"number {k + 1}"
            raise LabelError(
                f"class {name} has {n:g} labelled row{'s' * (n > 1)} at all sites together, fewer than "
                f"min_count={min_count}: their sums would reveal too much of them",
                remedy="label more of its rows, or leave their labels out",
                label=names[k] if k < len(names) else None,
            )


def refuse_few_unlabelled(facts: Facts, min_count: int) -> None:
    """Refuse a few unlabelled rows: they are what is left of the sum of all rows without those of each class."""
    unlabelled = float(facts.rows - facts.class_counts.sum())
    if facts.class_counts.any() and unlabelled > ROUNDED and not enough(unlabelled, min_count):
        raise LabelError(
            f"{unlabelled:g} row{'s have' if unlabelled > 1 else ' has'} no label at all sites together, fewer than "
            f"min_count={min_count}: the sums of all rows and of each class would reveal too much of them",
            remedy="label them, or leave these rows out",
        )


def ask_classes(facts: Facts, min_count: int) -> Replicated[Classes]:
    """The labelled rows by class, in standard units; refused where a few unlabelled rows would be what is left."""
    refuse_few_unlabelled(facts, min_count)
    unit, rows, counts = facts.unit, float(facts.rows), facts.class_counts
    p = len(facts.mean)
    if facts.incomplete:
        return (yield from _ask_incomplete(facts, min_count))

    def summed(held: Held) -> NDArray:
        sums = unit.standard(held.by_class(np.broadcast_to(facts.mean, (len(counts), p)))[0]) / rows
        return np.asarray(sums[..., 1:].reshape(len(sums), -1))

    total = (yield Ask(summed, PRECISE)).reshape(len(counts), width(p) - 1)
    here = np.where(counts > 0, counts / rows, 1.0)[:, None]
    means = total[:, :p] / here
    scatters = unvech(total[:, p:]) - here[..., None] * means[:, :, None] * means[:, None, :]
    return Classes(counts, means, rows * np.where(counts[:, None, None] > 0, scatters, 0.0))


def _ask_incomplete(facts: Facts, min_count: int) -> Replicated[Classes]:
    """The same where cells are missing, in three sums: counts; sums; squares and products about the classes' means.

    Where too few rows of a class have a feature, its class's mean is taken to be that of all rows.
    """
    unit, rows, counts = facts.unit, float(facts.rows), facts.class_counts
    C, p = len(counts), len(facts.mean)
    overall = np.broadcast_to(facts.mean, (C, p))
    seen = (yield Ask(lambda held: held.by_class(overall)[1].reshape(-1, C * p), PRECISE)).reshape(C, p)
    asked = asked_for(seen.T[..., None], min_count, facts.seen[:, None] - seen.sum(axis=0)[:, None]).T

    def summed(held: Held) -> NDArray:
        sums = unit.standard(held.by_class(overall)[0])[..., 1 : 1 + p] / rows
        return np.asarray(np.where(asked, sums, 0.0).reshape(-1, C * p))

    means = (yield Ask(summed, PRECISE)).reshape(C, p) * rows / np.where(asked, seen, 1.0)
    points = means * unit.spread + unit.location

    both = asked[:, :, None] & asked[:, None, :]

    def multiplied(held: Held) -> NDArray:
        squares = unvech((held.by_class(points)[0] / unit.factor)[..., 1 + p :]) / rows
        return np.asarray(np.where(both, squares, 0.0).reshape(-1, C * p * p))

    scatters = (yield Ask(multiplied, PRECISE)).reshape(C, p, p) * rows
    return Classes(counts, means, spread_out(scatters, counts, np.where(asked, seen, 0.0)))


def spread_out(scatters: NDArray, counts: NDArray, seen: NDArray) -> NDArray:
    """Scatters (..., p, p) of counts (...) rows, of the same variances as those of the rows (..., p) observed."""
    factor = np.sqrt(counts[..., None] / np.where(seen > 0, seen, np.inf))
    return np.asarray(scatters * factor[..., :, None] * factor[..., None, :])


def asked_for(counts: NDArray, min_count: int, others: NDArray | float = 0.0, *, none_too: bool = False) -> NDArray:
    """Which groups (R, K) of each run have sums that may be asked for; counts (R, K, p) by feature, or by pair.

    All know the sum of all rows, so what is left of it is that of the groups left out, with other rows (R, p): these
    must have enough rows together, or none. With ``none_too`` a group without any row of a pair is asked for.
    """
    asked = (enough(counts, min_count) | (none_too & (counts <= ROUNDED))).all(axis=-1)
    rest_of = np.broadcast_to(others, (len(counts), counts.shape[-1]))
    for mine, here, other in zip(asked, counts, rest_of, strict=True):
        while mine.any():
            rest = here[~mine].sum(axis=0) + other
            if not ((rest > ROUNDED) & ~enough(rest, min_count)).any():
                break
            mine[np.where(mine, here.min(axis=-1), np.inf).argmin()] = False
    return np.asarray(asked)
