"""Units in which mixtures can be compared, whatever those of the data."""

from __future__ import annotations

from typing import NamedTuple

from gaussip.arrays import Array, compiled, namespace
from gaussip.mixture.theta import Psi, Theta, overall, to_psi, vech


class Unit(NamedTuple):
    """A location and a scale for each feature, in which mixtures can be compared whatever the data's units."""

    shift: Array  #: (..., 1, f): zero, each feature's location, zeros
    factor: Array  #: (..., 1, f): one, each feature's scale, vech of the products of two

    def standard(self, psi: Psi) -> Psi:
        """psi of the standardised features: linear in psi."""
        return (psi - psi[..., :1] * self.shift) / self.factor

    def original(self, psi: Psi) -> Psi:
        """The inverse of `standard`."""
        return psi * self.factor + psi[..., :1] * self.shift


def unit_of(theta: Theta) -> Unit:
    """The unit in which a mixture has mean zero and unit variances."""
    xp = namespace(theta.means)
    mean, covariance = overall(theta)
    centre, spread = mean[..., None, :], xp.sqrt(xp.linalg.diagonal(covariance))[..., None, :]
    one, square = xp.ones_like(spread[..., :1]), vech(spread[..., :, None] * spread[..., None, :])
    return Unit(
        xp.concat([xp.zeros_like(one), centre, xp.zeros_like(square)], axis=-1),
        xp.concat([one, spread, square], axis=-1),
    )


def unit_of_start(start: Theta) -> Unit:
    """The unit of a run with leading axes (..., M): the start's mixture has mean zero and unit variances in it.

    All sites know the start, so all measure in one unit, and a tolerance means the same for ages and for cell counts.
    """
    xp = namespace(start.means)
    axis = start.means.ndim - 3
    return unit_of(Theta(*(xp.mean(part, axis=axis, keepdims=True) for part in start)))


def measure(theta: Theta, unit: Unit, last: Psi) -> tuple[Psi, Array, Array]:
    """psi in the unit, its largest move since the last, and the sites' root mean square distance from their mean.

    For leading axes (..., M): (..., M, K, f), (...) and (...).
    """
    small = compiled(last)
    if small is not None:
        now, change, disagreement = small.measure(*theta, *unit, last)
        return now, change, disagreement
    xp = namespace(last)
    now = unit.standard(to_psi(theta))
    apart = now - xp.mean(now, axis=-3, keepdims=True)
    change = xp.max(xp.abs(now - last), axis=(-3, -2, -1))
    return now, change, xp.sqrt(xp.mean(xp.sum(apart * apart, axis=(-2, -1)), axis=-1))
