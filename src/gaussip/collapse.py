"""Finding and naming a component that collapsed: where, when, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gaussip.arrays import Array, NDArray, cholesky_or_nan, namespace, to_numpy
from gaussip.errors import CollapseError
from gaussip.parameters import Theta

REMEDY = (
    "Try fewer components, a larger reg_covar, another start, or labels for this component; "
    "for mnem, dem and ngd a smaller eta"
)


class Collapses:
    """Keeps watch over a run with leading axes (..., M): raises at the first collapse, or records it.

    Attributes
    ----------
    rounds : (...), the round in which each replicate collapsed, 0 where none has
    first : CollapseError or None, the first collapse of all
    """

    def __init__(self, shape: tuple[int, ...], names: Sequence[Any], record: bool) -> None:
        self.rounds = np.zeros(shape[:-1], dtype=int)
        self.first: CollapseError | None = None
        self._names = names
        self._record = record

    def check(self, number: int, theta: Theta, sound: Array) -> None:
        """Look at every site's theta, and at whether what was computed there is sound, (..., M)."""
        xp = namespace(theta.means)
        finite = xp.all(xp.isfinite(theta.means), axis=(-2, -1)) & xp.all(
            xp.isfinite(theta.covariances), axis=(-3, -2, -1)
        )
        weighty = xp.all(theta.weights > _least_weight(theta.weights), axis=-1)
        healthy = to_numpy(finite & weighty & sound)
        if healthy.all():
            return
        fresh = ~healthy.all(axis=-1) & (self.rounds == 0)
        if not fresh.any():
            return
        error = self._error(number, theta, fresh[..., None] & ~healthy)
        if not self._record:
            raise error
        self.first = self.first or error
        self.rounds = np.where(fresh, number, self.rounds)

    def _error(self, number: int, theta: Theta, unhealthy: NDArray) -> CollapseError:
        """The error naming the first unhealthy site, its component and the cause."""
        index = tuple(int(i) for i in np.argwhere(unhealthy)[0])
        weights, _, covariances = (to_numpy(part)[index] for part in theta)
        for k in range(weights.shape[0]):
            cause = _fault(float(weights[k]), covariances[k], _least_weight(theta.weights))
            if cause:
                return CollapseError(self._names[index[-1]], k, number, cause, REMEDY)
        return CollapseError(self._names[index[-1]], 0, number, "its numbers overflowed", REMEDY)


def positive_definite(theta: Theta) -> Array:
    """Whether all covariances of a site are positive definite, (...)."""
    xp = namespace(theta.covariances)
    return xp.all(xp.isfinite(cholesky_or_nan(theta.covariances)), axis=(-3, -2, -1))


def _least_weight(weights: Array) -> float:
    """A component below this weight is gone: not a billionth of a row supports it."""
    return 10 * float(namespace(weights).finfo(weights.dtype).eps)


def _fault(weight: float, covariance: NDArray, least: float) -> str | None:
    if not weight > least:
        return f"its weight vanished ({weight:.3g})"
    if not np.isfinite(covariance).all():
        return "its covariance is not finite"
    if not np.isfinite(cholesky_or_nan(covariance)).all():
        smallest = float(np.linalg.eigvalsh(covariance)[0])
        return f"its covariance is not positive definite (smallest eigenvalue {smallest:.3g})"
    return None
