"""Units in which mixtures and rows can be compared, whatever the units of the data."""

from __future__ import annotations

from typing import NamedTuple

from gaussip.arrays import Array, compiled, namespace
from gaussip.mixture.theta import Psi, Theta, n_features, overall, to_psi, unvech, vech


class Unit(NamedTuple):
    """A location and a spread for each feature, with which psi, moments, a Theta or rows are standardised.

    Stored as the rows that act on psi, so that a compiled kernel or a message can hold it as two arrays.
    """

    shift: Array  #: (..., 1, f): zero, each feature's location, zeros
    factor: Array  #: (..., 1, f): one, each feature's spread, vech of the products of two spreads

    @classmethod
    def of(cls, location: Array, spread: Array) -> Unit:
        """The unit with this location and spread, (..., p) each."""
        xp = namespace(location)
        location, spread = location[..., None, :], spread[..., None, :]
        unity, squares = xp.ones_like(spread[..., :1]), vech(spread[..., :, None] * spread[..., None, :])
        return cls(
            xp.concat([xp.zeros_like(unity), location, xp.zeros_like(squares)], axis=-1),
            xp.concat([unity, spread, squares], axis=-1),
        )

    @property
    def location(self) -> Array:
        """Of each feature, (..., p)."""
        return self.shift[..., 0, 1 : 1 + n_features(self.shift.shape[-1])]

    @property
    def spread(self) -> Array:
        """Of each feature, (..., p)."""
        return self.factor[..., 0, 1 : 1 + n_features(self.factor.shape[-1])]

    @property
    def squares(self) -> Array:
        """The products of two features' spreads, (..., p, p): what a covariance is divided by."""
        return unvech(self.factor[..., 0, 1 + n_features(self.factor.shape[-1]) :])

    @property
    def log_volume(self) -> float:
        """By how much a row's log-density is larger in this unit than in the data's units.

        Rounded: the last digits of logarithms depend on the machine.
        """
        xp = namespace(self.factor)
        return round(float(xp.sum(xp.log(self.spread))), 12)

    def standard(self, psi: Psi) -> Psi:
        """psi, or moments, of the standardised features: linear in psi."""
        return (psi - psi[..., :1] * self.shift) / self.factor

    def original(self, psi: Psi) -> Psi:
        """The inverse of `standard`."""
        return psi * self.factor + psi[..., :1] * self.shift

    def standard_theta(self, theta: Theta) -> Theta:
        """One mixture of the standardised features."""
        return Theta(theta.weights, self.standard_rows(theta.means), theta.covariances / self.squares)

    def original_theta(self, theta: Theta) -> Theta:
        """The inverse of `standard_theta`."""
        return Theta(theta.weights, theta.means * self.spread + self.location, theta.covariances * self.squares)

    def standard_rows(self, X: Array) -> Array:
        """Standardised rows, (n, p)."""
        return (X - self.location) / self.spread


def unit_of(theta: Theta) -> Unit:
    """The unit in which a mixture has mean zero and unit variances."""
    xp = namespace(theta.means)
    mean, covariance = overall(theta)
    return Unit.of(mean, xp.sqrt(xp.linalg.diagonal(covariance)))


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
