"""What a real site sees in its own rows, and how they lie to the totals of all sites. Nothing of it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.inspection import concerns
from gaussip.inspection.concerns import Concern, in_order
from gaussip.inspection.features import concerns_of
from gaussip.inspection.units import ROWS, Place, ratio_of_units
from gaussip.inspection.values import Values, codes_in, has_few


def own_concerns(X: NDArray, weights: NDArray | None, features: Sequence[str], site: Any) -> list[Concern]:
    """What may spoil a fit in a site's rows (n, p); those of weight zero are left out."""
    rows = X if weights is None else X[weights > 0]
    found = [concerns_of(name, [Values.of(rows[:, j])], [site], own=True) for j, name in enumerate(features)]
    return in_order([concern for few in found for concern in few])


def own_units(
    X: NDArray, weights: NDArray | None, features: Sequence[str], seen: NDArray, mean: NDArray, variance: NDArray
) -> list[Concern]:
    """The features of which a site's rows (n, p) seem to be in other units than those of the other sites.

    Parameters
    ----------
    seen, mean, variance : (p,), of the rows of all sites, by weight
    """
    found = []
    for j, name in enumerate(features):
        there = ~np.isnan(X[:, j]) if weights is None else ~np.isnan(X[:, j]) & (weights > 0)
        x, v = X[there, j], np.ones(int(there.sum())) if weights is None else weights[there]
        values, rest = Values.of(x), _rest(x, v, seen[j], mean[j], variance[j])
        if values.n < ROWS or len(values) < 2 or has_few(values) or rest is None:
            continue
        codes = codes_in(values)  # they are in the totals, but say nothing of units
        kept, values = ~np.isin(x, codes), values.without(codes)
        own_mean = np.average(x[kept], weights=v[kept])
        own_sd = np.sqrt(np.average((x[kept] - own_mean) ** 2, weights=v[kept]))
        one_sign = values.quantile(0.05) >= 0 or values.quantile(0.95) <= 0
        here, others = Place.of_moments(own_mean, own_sd, one_sign), Place.of_moments(*rest, one_sign)
        if (ratio := ratio_of_units(here, others)) is not None:
            found.append(concerns.own_units(name, ratio, here, others))
    return found


def _rest(x: NDArray, v: NDArray, seen: float, mean: float, variance: float) -> tuple[float, float] | None:
    """The mean and standard deviation of the other sites' rows; None where they are few, or all alike."""
    n = seen - v.sum()
    if n < ROWS:
        return None
    rest_mean = (seen * mean - v @ x) / n
    rest_variance = (seen * variance - v @ (x - mean) ** 2) / n - (rest_mean - mean) ** 2
    return (rest_mean, rest_variance**0.5) if rest_variance > 0 else None
