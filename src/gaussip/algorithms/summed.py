"""Moments at a mixture that all sites hold, as parts of a sum over all sites, and back.

Every site knows the mixture, so all count in its units: moments about each component's mean, in its standard
deviations, over the rows it is expected to have. The totals are then numbers near one, whatever the units of the data
and however small or narrow a component is, and are summed as whole multiples of 2^-45. Where those cannot hold them,
limbs do. Before the number of all rows is known, and where a component may have too few of them, sites first sum how
many rows of each component have each feature: the moments of fewer than min_count are not asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import Array, NDArray, namespace, to_numpy
from gaussip.exchange.codes import Fixed, Veiled, Wide
from gaussip.exchange.questions import Ask
from gaussip.mixture.theta import Psi, Theta, in_bytes, n_features, vech, width
from gaussip.rows.checks import ROUNDED, enough
from gaussip.rows.held import Held
from gaussip.rows.moments import Moments

BITS = 45  # of the moments' fractions
FINE = 40  # of the fraction of a log-likelihood, whose whole part is summed by itself
LIMBS = Wide(60, 5)  # multiples of 2^-60 below 2^100
WORDS = 3  # beside the moments: the log-likelihood's two parts, and how many sites have none
CLOSE = 4  # times min_count: where a component is expected to have fewer rows, rows are counted first


class Pooled(NamedTuple):
    """The moments of all rows; the site axis of arrays (..., 1) has a length of one."""

    psi: Psi  #: (..., 1, K, f), of total mass one, about a point
    mass: Array  #: (..., 1), of all rows
    log_likelihood: Array  #: (..., 1), per row; NaN where the moments of some site are not finite, or too large
    seen: Array | None = None  #: (..., 1, K, p), in how many rows of a component a feature is observed; None: all


class Counted(NamedTuple):
    """How many rows there are."""

    support: Array  #: (..., K, p), by component and feature; NaN where the moments of some site cannot be summed
    mass: Array  #: (...), all

    @classmethod
    def part(cls, moments: Moments) -> Array:
        """The numbers that each site adds, (..., M, K p + 2), summed in limbs."""
        xp, seen = namespace(moments.sums), seen_by(moments)
        support = xp.reshape(seen, (*seen.shape[:-2], -1))
        fits = xp.all(xp.abs(support) < LIMBS.limit, axis=-1)  # False for NaN
        support = xp.where(fits[..., None], support, xp.zeros_like(support))
        last = xp.stack([moments.mass, xp.astype(~fits, support.dtype)], axis=-1)
        return xp.concat([support, last], axis=-1)

    @classmethod
    def ask(cls, theta: Theta, found: Callable[[Held], Moments]) -> Ask:
        """The question about a mixture, at which the sites find moments."""
        return Ask(lambda held: to_numpy(cls.part(found(held))), Veiled(LIMBS), in_bytes(theta))

    @classmethod
    def of(cls, total: NDArray, n_features: int) -> Counted:
        """From the total of these numbers."""
        support = np.where(total[..., -1:] > 0, np.nan, total[..., :-2])
        return cls(support.reshape(*support.shape[:-1], -1, n_features), total[..., -2])

    @property
    def incomplete(self) -> bool:
        """Whether cells are missing."""
        return bool((self.mass - self.support.sum(axis=-2).min(axis=-1) > ROUNDED).any())

    def short(self, min_count: int) -> bool:
        """Whether some component has too few."""
        return not bool(enough(self.support, min_count).all())


def seen_by(moments: Moments) -> Array:
    """In how many of the rows of a component a feature is observed, (..., K, p)."""
    if moments.observed is not None:
        return moments.observed
    xp, p = namespace(moments.sums), n_features(moments.sums.shape[-1])
    return xp.broadcast_to(moments.sums[..., :1], (*moments.sums.shape[:-1], p))


def scarce(weights: Array, mass: Any, min_count: int, support: Array | None = None) -> bool:
    """Whether some component of a mixture is expected to have so few rows that they are counted first.

    ``support`` (..., K, p) says how many have each feature at a mixture close by.
    """
    few = (to_numpy(weights) * to_numpy(mass) < CLOSE * min_count).any()
    return bool(few or (support is not None and (to_numpy(support) < CLOSE * min_count).any()))


class Summed(NamedTuple):
    """How moments at a mixture are summed."""

    theta: Theta  #: with a site axis of length one
    mass: Array | float  #: of all rows, (...)
    incomplete: bool = False  #: whether some site's rows have missing cells
    in_limbs: bool = False  #: where other words could not hold the numbers

    def code(self) -> Fixed | Wide:
        """How the numbers of a part become words."""
        if self.in_limbs:
            return LIMBS
        K, p = self.theta.means.shape[-2:]
        return Fixed(np.array([BITS] * (size_of(K, p, self.incomplete) - WORDS) + [0, FINE, 0]))

    def ask(self, found: Callable[[Held], Moments]) -> Ask:
        """The question about the mixture, at which the sites find moments."""
        return Ask(
            lambda held: to_numpy(self.part(found(held), held.n_sites)), Veiled(self.code()), in_bytes(self.theta)
        )

    def part(self, moments: Moments, n_sites: int) -> Array:
        """The numbers that each site adds, (..., M, size), for moments with leading axes (..., M)."""
        xp = namespace(moments.sums)
        sums, size = self._about(moments.sums), self._size()
        if self.incomplete:
            sums = xp.concat([sums, seen_by(moments)], axis=-1)
        sums = sums / size
        height = moments.log_likelihood
        limit, highest = LIMBS.limit, LIMBS.limit
        if not self.in_limbs:
            limit, highest = float(Fixed(BITS).limit(n_sites)), float(Fixed(0).limit(n_sites))
        fits = xp.all(xp.abs(sums) < limit, axis=(-2, -1)) & (xp.abs(height) < highest)  # False for NaN
        sums = xp.where(fits[..., None, None], sums, xp.zeros_like(sums))
        height = xp.where(fits, height, xp.zeros_like(height))
        whole = xp.floor(height)
        last = xp.stack([whole, height - whole, xp.astype(~fits, height.dtype)], axis=-1)
        return xp.concat([xp.reshape(sums, (*height.shape, -1)), last], axis=-1)

    def pooled(self, total: Array) -> Pooled:
        """The moments of all rows, about each component's mean, of the total's numbers (..., size)."""
        xp = namespace(total)
        total, size = total[..., None, :], self._size()
        sums = xp.reshape(total[..., :-WORDS], (*total.shape[:-1], *size.shape[-2:])) * size
        seen = None
        if self.incomplete:
            f = width(self.theta.means.shape[-1])
            sums, seen = sums[..., :f], sums[..., f:]
        first, second, lost = (total[..., n] for n in range(-WORDS, 0))
        mass, height = self._mass(first), first + second
        psi = sums / mass[..., None, None]
        return Pooled(psi, mass, xp.where(lost > 0, xp.full_like(height, xp.nan), height / mass), seen)

    def _about(self, sums: Array) -> Array:
        """Sums (..., M, K, f) with the first moments about the means too."""
        xp, means = namespace(sums), self.theta.means
        p = means.shape[-1]
        first = sums[..., 1 : 1 + p] - sums[..., :1] * means
        return xp.concat([sums[..., :1], first, sums[..., 1 + p :]], axis=-1)

    def _size(self) -> Array:
        """What each number is counted in, (..., 1, K, f); where rows are incomplete, (..., 1, K, f + p)."""
        xp = namespace(self.theta.means)
        spread = xp.sqrt(xp.linalg.diagonal(self.theta.covariances))
        one = xp.ones_like(spread[..., :1])
        counts = [xp.ones_like(spread)] * self.incomplete
        units = xp.concat([one, spread, vech(spread[..., :, None] * spread[..., None, :]), *counts], axis=-1)
        expected = self.theta.weights * self._mass(self.theta.weights[..., 0])[..., None]
        return units * expected[..., None]

    def _mass(self, like: Array) -> Array:
        """The mass of all rows with a site axis of length one, (..., 1)."""
        xp = namespace(like)
        return xp.asarray(self.mass, dtype=like.dtype, device=like.device)[..., None]


def size_of(n_components: int, n_features: int, incomplete: bool = False) -> int:
    """The numbers of a part."""
    return n_components * (width(n_features) + incomplete * n_features) + WORDS


def total_of(parts: Array, code: Fixed | Wide) -> Array:
    """The total of parts (..., M, size) as sites that add words get it, all sites being in this process."""
    xp = namespace(parts)
    if isinstance(code, Wide):
        total = code.total(np.moveaxis(to_numpy(parts), -2, -1))
        return xp.asarray(total, dtype=parts.dtype, device=parts.device)
    return code.decode(xp.sum(code.rounded(parts), axis=-2))


def together(summed: Summed, moments: Moments) -> Pooled:
    """The moments of all rows, all sites being in this process: in limbs where other words could not hold them."""
    xp, n_sites = namespace(moments.sums), moments.mass.shape[-1]

    def by(way: Summed) -> Pooled:
        return way.pooled(total_of(way.part(moments, n_sites), way.code()))

    pooled = by(summed)
    lost = ~xp.isfinite(pooled.log_likelihood)
    if not bool(xp.any(lost)):
        return pooled
    other = by(summed._replace(in_limbs=True))
    return Pooled(
        xp.where(lost[..., None, None], other.psi, pooled.psi), pooled.mass,
        xp.where(lost, other.log_likelihood, pooled.log_likelihood),
        None if pooled.seen is None else xp.where(lost[..., None, None], other.seen, pooled.seen),
    )  # fmt: skip
