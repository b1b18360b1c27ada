"""The first two releases: how many rows there are, where they lie, and how features go together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError
from gaussip.exchange.questions import Replicated
from gaussip.mixture.units import Unit
from gaussip.privacy.noised import Block, Releases
from gaussip.privacy.rows import BoundedRows, cut, standard

LABELLED = 0.2  # of the first release's mu^2, for the number of labelled rows
NAMES = ("features", "products", "labelled rows", "k-means", "moments")  #: of all releases
LOST = 3.0  # standard deviations of noise: what is below may be nothing
NARROWEST = 0.02  # of a correlation matrix's eigenvalues: others are noise


class Look(NamedTuple):
    """What all sites know of their rows, with noise."""

    rows: float
    labelled: NDArray  #: (C,), by class; (0,) where there are none
    seen: NDArray  #: (p,), the share of rows in which a feature is observed
    unit: Unit  #: in which features have mean zero and variance one
    correlations: NDArray  #: (p, p), positive definite

    @property
    def labels(self) -> bool:
        """Whether enough rows are labelled to begin from them."""
        return bool(self.labelled.size)


def ask_look(
    releases: Releases,
    mus: tuple[float, float],
    limits: NDArray,
    names: Sequence[str],
    classes: Sequence[Any] = (),
    needed: int = 0,
    counted: str = "rows",
) -> Replicated[Look]:
    """Two releases: features one by one within their bounds, then their products in standard units.

    ``needed`` is how many rows the rounds after them need, ``counted`` what people call them.
    """
    p, n_classes = len(limits), len(classes)
    middle, half = limits.mean(axis=1), np.ptp(limits, axis=1) / 2

    def one_by_one(held: BoundedRows) -> list[NDArray]:
        def of_site(x: NDArray, y: NDArray, v: NDArray) -> tuple[NDArray, ...]:
            there = ~np.isnan(x)
            z = np.where(there, np.clip((x - middle) / half, -1, 1), 0.0)
            sums = (np.array([v.sum()]), v @ there, v @ z, v @ (z * z))
            known = (y >= 0) & (y < n_classes)
            return (*sums, np.bincount(y[known], v[known], n_classes)) if n_classes else sums

        return held.summed(of_site)

    root = math.sqrt(p)
    of_labels = LABELLED if n_classes else 0.0
    left = 1 - 0.1 - of_labels
    blocks = [
        Block((1,), 1.0, 0.05), Block((p,), root, 0.05), Block((p,), root, left / 2), Block((p,), root, left / 2),
    ]  # fmt: skip
    if n_classes:
        blocks.append(Block((n_classes,), 1.0, of_labels))
    rows, seen, sums, squares, *more = yield from releases.ask("features", mus[0], blocks, one_by_one)
    labelled = more[0] if more else np.zeros(0)
    noise = [releases.excess * block.deviation(mus[0]) for block in blocks]
    if not rows[0] > LOST * noise[0]:
        raise DataError(
            f"there are about {max(rows[0], 0):.0f} {counted} at all sites, give or take {noise[0]:.0f} of noise: "
            "too few for a private fit",
            remedy=f"find at least {max(needed, _enough(noise[0]))} {counted}, or allow a larger epsilon",
        )
    for c in range(n_classes):
        if not labelled[c] > LOST * noise[4]:
            raise DataError(
                f"about {max(labelled[c], 0):.0f} {counted} are labelled {classes[c]!r}, give or take "
                f"{noise[4]:.0f} of noise: too few for a private fit",
                remedy=f"label some {_enough(noise[4])} of them, leave the class out, or allow a larger epsilon",
                label=classes[c],
            )
    there = np.minimum(seen, rows[0])
    for j in np.flatnonzero(~(there > LOST * noise[1])).tolist():
        raise DataError(
            f"feature {names[j]!r} is observed in about {max(seen[j], 0):.0f} {counted}, give or take {noise[1]:.0f} "
            "of noise: too few for a private fit",
            column=names[j],
            remedy=f"leave it out, observe it in some {_enough(noise[1])} {counted}, or allow a larger epsilon",
        )  # fmt: skip
    mean = np.clip(sums / there, -1, 1)
    variance = np.maximum(squares / there - mean**2, noise[3] / there)
    unit = Unit.of(middle + half * mean, half * np.sqrt(variance))
    moved, covariance, faint = yield from _ask_products(releases, mus[1], unit, float(rows[0]), there / rows[0])
    ratio = np.diagonal(covariance)
    for j in np.flatnonzero(~(ratio > LOST * faint)).tolist():
        raise DataError(
            f"the bounds of {names[j]!r}, {limits[j, 0]:g} to {limits[j, 1]:g}, are too wide, or it is constant: how "
            "its values spread is lost in the noise",
            column=names[j], remedy="give narrower bounds, leave the feature out, or allow a larger epsilon",
        )  # fmt: skip
    unit = Unit.of(unit.location + unit.spread * moved, unit.spread * np.sqrt(ratio))
    correlations = at_least(covariance / np.sqrt(ratio[:, None] * ratio), NARROWEST)
    return Look(float(rows[0]), labelled, there / rows[0], unit, correlations)


def _ask_products(
    releases: Releases, mu: float, unit: Unit, rows: float, seen: NDArray
) -> Replicated[tuple[NDArray, NDArray, float]]:
    """How far the features' mean is from zero, their covariance, and the noise in it, in standard units."""
    p = len(seen)
    radius = math.sqrt(2.0 * p)

    def products(held: BoundedRows) -> list[NDArray]:
        def of_site(x: NDArray, y: NDArray, v: NDArray) -> tuple[NDArray, ...]:
            z = cut(np.nan_to_num(standard(x, unit)), radius)
            return v @ z, halved((v[:, None] * z).T @ z)

        return held.summed(of_site)

    blocks = [Block((p,), radius, 0.3), Block((p * (p + 1) // 2,), radius**2, 0.7)]
    sums, squares = yield from releases.ask("products", mu, blocks, products)
    mean = np.clip(sums / (rows * seen), -1, 1)
    both = np.where(np.eye(p, dtype=bool), seen[:, None], seen[:, None] * seen[None, :])
    covariance = doubled(squares, p) / (rows * both) - np.outer(mean, mean)
    return mean, covariance, releases.excess * blocks[1].deviation(mu) / rows


def halved(matrix: NDArray) -> NDArray:
    """The upper triangle (..., p(p+1)/2) of symmetric matrices, in which the Frobenius norm is the Euclidean one."""
    i, j = np.triu_indices(matrix.shape[-1])
    return np.asarray(matrix[..., i, j] * np.where(i == j, 1.0, math.sqrt(2)))


def doubled(triangle: NDArray, p: int) -> NDArray:
    """The inverse of `halved`."""
    i, j = np.triu_indices(p)
    full = np.empty((*triangle.shape[:-1], p, p))
    full[..., i, j] = full[..., j, i] = triangle / np.where(i == j, 1.0, math.sqrt(2))
    return full


def at_least(matrix: NDArray, least: float, most: float = math.inf) -> NDArray:
    """Symmetric matrices with eigenvalues within limits."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.clip(values, least, most)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def labels_needed(mu: float, excess: float) -> int:
    """How many rows of each class should have a label, where the first release has this mu."""
    return _enough(excess * Block((1,), 1.0, LABELLED).deviation(mu))


def _enough(noise: float) -> int:
    """A number that almost never looks too small under noise of this deviation."""
    return math.ceil(2 * LOST * noise / 10) * 10
