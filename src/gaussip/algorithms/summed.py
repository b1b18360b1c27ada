"""Moments as parts of a sum over all sites, and back.

Parts are in standard units, of which all sites know the location and spread, so that the total's numbers are near
one. Once the number of all rows is known, parts are divided by it and rounded to whole multiples of 2^-45; before,
they are summed to multiples of 2^-60, whatever their size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaussip.arrays import Array, namespace, to_numpy
from gaussip.exchange.codes import Fixed, Wide
from gaussip.mixture.theta import Psi
from gaussip.mixture.units import Unit
from gaussip.rows.moments import Moments

BITS = 45  # of the moments' fractions
FIRST = Wide(60, 4)  # before the number of rows is known: multiples of 2^-60 below 2^100
FINE = 40  # of the fraction of a log-likelihood, whose whole part is summed by itself
WORDS = 3  # beside the moments: the log-likelihood's two parts, and how many sites have none


class Pooled(NamedTuple):
    """The moments of all rows; the site axis of arrays (..., 1) has a length of one."""

    psi: Psi  #: (..., 1, K, f), of total mass one
    mass: Array  #: (..., 1), of all rows
    log_likelihood: Array  #: (..., 1), per row; NaN where the moments of some site are not finite, or too large


class Summed(NamedTuple):
    """How moments are summed."""

    unit: Unit
    mass: Array | float | None  #: of all rows; None before it is known

    def code(self, n_components: int, width: int) -> Fixed | Wide:
        """How the numbers of a part become words."""
        if self.mass is None:
            return FIRST
        return Fixed(np.array([BITS] * (n_components * width) + [0, FINE, 0]))

    def part(self, moments: Moments, n_sites: int) -> Array:
        """The numbers that each site adds, (..., K f + 3), for moments with leading axes ``...``."""
        xp = namespace(moments.sums)
        sums = self.unit.standard(moments.sums)
        height, mass = moments.log_likelihood, moments.mass
        if self.mass is not None:
            sums = sums / xp.reshape(self._mass_like(mass), (*mass.shape, 1, 1))
        limit, highest = FIRST.limit, FIRST.limit
        if self.mass is not None:
            limit, highest = Fixed(BITS).limit(n_sites), Fixed(0).limit(n_sites)
        fits = xp.all(xp.abs(sums) < limit, axis=(-2, -1)) & (xp.abs(height) < highest)  # False for NaN
        sums = xp.where(fits[..., None, None], sums, xp.zeros_like(sums))
        height = xp.where(fits, height, xp.zeros_like(height))
        lost = xp.astype(~fits, height.dtype)
        whole = xp.floor(height)
        last = [height, mass, lost] if self.mass is None else [whole, height - whole, lost]
        flat = xp.reshape(sums, (*mass.shape, -1))
        return xp.concat([flat, xp.stack(last, axis=-1)], axis=-1)

    def pooled(self, total: Array, shape: tuple[int, int]) -> Pooled:
        """The pooled moments, in the unit, of the total's numbers (..., K f + 3); ``shape`` is (K, f)."""
        xp = namespace(total)
        total = total[..., None, :]
        sums = xp.reshape(total[..., :-WORDS], (*total.shape[:-1], *shape))
        first, second, lost = (total[..., n] for n in range(-WORDS, 0))
        mass, height = (second, first) if self.mass is None else (self._mass_like(first), first + second)
        psi = sums / mass[..., None, None] if self.mass is None else sums
        return Pooled(psi, mass, xp.where(lost > 0, xp.full_like(height, xp.nan), height / mass))

    def _mass_like(self, like: Array) -> Array:
        """The mass of all rows as an array of some leading axes, or of those and one over sites."""
        xp = namespace(like)
        mass = xp.asarray(self.mass, dtype=like.dtype, device=like.device)
        return xp.broadcast_to(mass if mass.ndim == like.ndim else mass[..., None], like.shape)


def rounded_total(parts: Array, code: Fixed | Wide) -> Array:
    """The total of parts (..., M, size) as sites that add words get it, all sites being in this process."""
    xp = namespace(parts)
    if isinstance(code, Wide):
        total = code.total(np.moveaxis(to_numpy(parts), -2, -1))
        return xp.asarray(total, dtype=parts.dtype, device=parts.device)
    return code.decode(xp.sum(code.rounded(parts), axis=-2))
