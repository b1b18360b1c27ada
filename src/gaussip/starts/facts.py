"""What all sites know of their rows before a fit, from sums alone: how many there are, and where the features lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import DataError, LabelError
from gaussip.exchange.codes import Wide
from gaussip.exchange.questions import Ask, Replicated
from gaussip.mixture.theta import unvech, width
from gaussip.mixture.units import Unit
from gaussip.rows.basis import scale_of
from gaussip.rows.checks import ROUNDED, enough
from gaussip.rows.held import Held

PRECISE = Wide(60, 4)  # for numbers in standard units, divided by the number of rows


class Facts(NamedTuple):
    """Totals over all sites."""

    mass: NDArray  #: (), of the rows as they count in the fit
    rows: NDArray  #: (), by weight
    class_counts: NDArray  #: (K,), labelled rows by class; (0,) where there are no labels
    mean: NDArray  #: (p,); NaN where nobody needs to know
    variance: NDArray  #: (p,), the same

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

    counts: NDArray  #: (K,)
    means: NDArray  #: (K, p); of a class without rows, zero
    scatters: NDArray  #: (K, p, p), sums of squares and products about the class's mean


def ask_facts(n_features: int, labelled: bool, located: bool = True) -> Replicated[Facts]:
    """How many rows there are, and where the features lie if that is to be known.

    Two sums: counts and sums; then the squares about the mean of all.
    """
    p = n_features if located else 0

    def counted(held: Held) -> NDArray:
        columns = [to_numpy(held.rows.mass)[:, None], held.counts[:, None]]
        if labelled:
            columns.append(held.labelled(np.zeros(n_features))[..., 0])
        if located:
            columns.append(np.stack([held.weighted(m, x) for m, x in enumerate(held.values)]))
        return np.concatenate(columns, axis=1)

    total = yield Ask(counted, Wide())
    mass, rows, class_counts, sums = np.split(total, [1, 2, len(total) - p])
    refuse_impossible(mass >= 0, "their mass is negative")
    refuse_impossible(rows > 0, "their number is not positive")
    refuse_impossible(class_counts >= 0, "some class has a negative number of rows")
    facts = Facts(mass[0, ...], rows[0, ...], class_counts, *np.full((2, n_features), np.nan))
    if not located:
        return facts
    mean = sums / rows

    def squared(held: Held) -> NDArray:
        return np.stack([held.weighted(m, (x - mean) ** 2) for m, x in enumerate(held.values)])

    variance = yield Ask(squared, Wide())
    refuse_impossible(variance >= 0, "some feature has a negative variance")
    return facts._replace(mean=mean, variance=variance / rows)


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


def ask_classes(facts: Facts, min_count: int) -> Replicated[Classes]:
    """The labelled rows by class, in standard units; refused where a few unlabelled rows would be what is left."""
    unlabelled = float(facts.rows - facts.class_counts.sum())
    if unlabelled > ROUNDED and not enough(unlabelled, min_count):
        raise LabelError(
            f"{unlabelled:g} row{'s have' if unlabelled > 1 else ' has'} no label at all sites together, fewer than "
            f"min_count={min_count}: the sums of all rows and of each class would reveal too much of them",
            remedy="label them, or leave these rows out",
        )
    unit, rows, counts = facts.unit, float(facts.rows), facts.class_counts
    p = len(facts.mean)

    def summed(held: Held) -> NDArray:
        sums = unit.standard(held.labelled(facts.mean)) / rows
        return np.asarray(sums[..., 1:].reshape(len(sums), -1))

    total = (yield Ask(summed, PRECISE)).reshape(len(counts), width(p) - 1)
    here = np.where(counts > 0, counts / rows, 1.0)[:, None]
    means = total[:, :p] / here
    scatters = unvech(total[:, p:]) - here[..., None] * means[:, :, None] * means[:, None, :]
    return Classes(counts, means, rows * np.where(counts[:, None, None] > 0, scatters, 0.0))
