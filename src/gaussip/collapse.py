"""Finding and naming a component that collapsed: where, when, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gaussip.arrays import Array, namespace, to_numpy
from gaussip.errors import CollapseError
from gaussip.parameters import Theta

FloatArray = np.ndarray[Any, Any]
REMEDY = (
    "Try fewer components, a larger reg_covar, another start, or labels for this component; "
    "for mnem, dem and ngd a smaller eta"
)


def _least_weight(weights: Array) -> float:
    """A component below this weight is gone: not a billionth of a row supports it."""
    return 10 * float(namespace(weights).finfo(weights.dtype).eps)


def healthy_weights(theta: Theta) -> Array:
    """Whether no component of a site has lost its weight, (...)."""
    xp = namespace(theta.weights)
    return xp.all(theta.weights > _least_weight(theta.weights), axis=-1)


def collapse_error(at: Theta, after: Theta, healthy: FloatArray, names: Sequence[Any], number: int) -> CollapseError:
    """The error naming the first unhealthy site, its component and the cause."""
    index = tuple(int(i) for i in np.argwhere(~healthy)[0])
    for theta in (at, after):
        weights, _, covariances = (to_numpy(part)[index] for part in theta)
        for k in range(weights.shape[0]):
            cause = _fault(float(weights[k]), covariances[k], _least_weight(theta.weights))
            if cause:
                return CollapseError(names[index[-1]], k, number, cause, REMEDY)
    return CollapseError(names[index[-1]], 0, number, "its numbers overflowed", REMEDY)


def _fault(weight: float, covariance: FloatArray, least: float) -> str | None:
    if not weight > least:
        return f"its weight vanished ({weight:.3g})"
    if not np.isfinite(covariance).all():
        return "its covariance is not finite"
    smallest = float(np.linalg.eigvalsh(covariance)[0])
    largest = float(np.abs(covariance).max())
    if not smallest > largest * np.finfo(covariance.dtype).eps:
        return f"its covariance is not positive definite (smallest eigenvalue {smallest:.3g})"
    return None
