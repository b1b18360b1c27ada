"""Rows within their bounds, as a private fit sums over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError, Text
from gaussip.inspection.concerns import emptied
from gaussip.mixture.units import Unit
from gaussip.rows.groups import Allowed

MOST_CUT = 0.02  # of a site's cells of a feature: beyond, bounds are refused
COMMON = 5  # patients with a value that may be shown: it is no single one's


@dataclass(frozen=True, eq=False)
class BoundedRows:
    """The rows of the sites that this process holds.

    Attributes
    ----------
    values : of each site, (n, p), none beyond the limits; NaN where a cell is missing
    labels : of each site, (n,), the numbers of labels, -1 where there is none
    weights : of each site, (n,), at most one
    allowed : the components of each label; None where label k is component k
    indices : the sites' places among all
    """

    values: Sequence[NDArray]
    labels: Sequence[NDArray]
    weights: Sequence[NDArray]
    allowed: Allowed | None
    indices: NDArray

    @classmethod
    def within(
        cls,
        limits: NDArray,
        values: Sequence[NDArray],
        labels: Sequence[NDArray] | None,
        weights: Sequence[NDArray] | None,
        allowed: Allowed | None,
        unlabelled_weight: float = 1.0,
        indices: NDArray | None = None,
    ) -> BoundedRows:
        """Rows cut to the limits (p, 2); an unlabelled row counts as much as asked for.

        Whatever is given, no row adds more than the noise is made for.
        """
        low, high = limits.T
        known = [np.full(len(x), -1) for x in values] if labels is None else labels
        own = [np.ones(len(x)) for x in values] if weights is None else weights
        own = [np.where(y >= 0, v, unlabelled_weight * v) for y, v in zip(known, own, strict=True)]
        own = [np.clip(np.nan_to_num(v), 0.0, 1.0) for v in own]
        places = np.arange(len(values)) if indices is None else indices
        return cls([np.clip(x, low, high) for x in values], known, own, allowed, places)

    def summed(self, of_site: Callable[[NDArray, NDArray, NDArray], Sequence[NDArray]]) -> list[NDArray]:
        """What a function gives of each site's rows, labels and weights, stacked: (M, ...) each."""
        parts = [of_site(*site) for site in zip(self.values, self.labels, self.weights, strict=True)]
        return [np.stack(each) for each in zip(*parts, strict=True)]

    def components(self, n_components: int) -> NDArray:
        """Which components rows of each label can be of, booleans (labels + 1, K); the last are rows without one."""
        labels = [(k,) for k in range(n_components)] if self.allowed is None else list(self.allowed)
        table = np.zeros((len(labels) + 1, n_components), dtype=bool)
        for number, few in enumerate(labels):
            table[number, list(few)] = True
        table[-1] = True
        return table


def refuse_narrow(
    limits: NDArray, values: NDArray, weights: NDArray | None, features: Sequence[str], site: str, *, own: bool
) -> None:
    """Refuse bounds beyond which a site has more than a few of its cells, or a number that looks like a code.

    ``own`` where it is a real site.
    """
    wider = "give wider bounds, in the unit of the table, or correct the rows"
    shares = np.zeros(len(features))
    for j, ((low, high), x) in enumerate(zip(limits, values.T, strict=True)):
        beyond = (x < low) | (x > high)  # no missing cell is
        if not beyond.any():
            continue
        shares[j] = beyond.sum() / (~np.isnan(x)).sum()
        found, place = np.unique(x[beyond], return_inverse=True)
        patients = np.bincount(place, None if weights is None else weights[beyond])
        if patients.max() >= max(COMMON, patients.sum() / 2):
            code = float(found[patients.argmax()])
            raise DataError(
                f"{100 * shares[j]:.3g}% of the values of {features[j]!r} at site {site!r} lie beyond its bounds, "
                f"{low:g} to {high:g}, and most of them are {code:.10g}",
                column=features[j], site=site,
                remedy=f"if that stands for a missing cell, {emptied(features[j], [code], own)}; else {wider}",
            )  # fmt: skip
    j = int(shares.argmax())
    if shares[j] > MOST_CUT:
        low, high = limits[j]
        raise DataError(
            f"{100 * shares[j]:.3g}% of the values of {features[j]!r} at site {site!r} lie beyond its bounds, "
            f"{low:g} to {high:g}, where they would be cut off; at most {100 * MOST_CUT:g}% may",
            column=features[j], site=site, remedy=wider,
        )  # fmt: skip


def refuse_heavy(weights: Sequence[NDArray]) -> None:
    """Refuse rows of weights above one: they would add more than the noise hides."""
    most = max(float(v.max()) for v in weights)
    if most > 1:
        raise DataError(
            Text("{sample_weight} goes up to {most:g}, and a row of a private fit weighs at most one", most=most),
            remedy="divide the weights by the largest that is possible",
        )


def standard(x: NDArray, unit: Unit) -> NDArray:
    """Rows in standard units."""
    return np.asarray(unit.standard_rows(x))


def cut(z: NDArray, radius: float) -> NDArray:
    """Vectors (n, p), none longer than a radius."""
    norm = np.sqrt((z * z).sum(axis=1))
    factor = radius / np.maximum(norm, radius)
    return np.asarray(z * factor[:, None])
