"""Whether parameters are those of a mixture, and the error that names the component that collapsed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gaussip.arrays import Array, NDArray, cholesky_or_nan, compiled, namespace, to_numpy
from gaussip.errors import CollapseError, Text
from gaussip.mixture.theta import Psi, Theta, to_theta

REMEDY = Text(
    "try fewer components, a larger {reg_covar}, another start, or labels for this component; "
    "for mnem, dem and ngd a smaller {eta}"
)


def healthy(theta: Theta) -> Array:
    """Whether each site's theta is a mixture, (...): finite, positive weights, positive definite covariances."""
    least = least_weight(theta.weights)
    small = compiled(theta.means)
    if small is not None and theta.means.shape[-1] <= small.CHECKED_FEATURES:
        return small.healthy(*theta, least)
    xp = namespace(theta.means)
    finite = xp.all(xp.isfinite(theta.means), axis=(-2, -1))
    positive = xp.all(theta.weights > least, axis=-1)
    return finite & positive & xp.all(xp.isfinite(cholesky_or_nan(theta.covariances)), axis=(-3, -2, -1))


def are_mixtures(psi: Psi) -> bool:
    """Whether every psi is that of a mixture; see `healthy`."""
    small = compiled(psi)
    if small is not None and hasattr(small, "are_mixtures"):
        return bool(small.are_mixtures(psi, least_weight(psi)))
    return bool(namespace(psi).all(healthy(to_theta(psi))))


def collapse_error(number: int, names: Sequence[Any], theta: Theta, unhealthy: NDArray) -> CollapseError:
    """The error for the first site (..., M) that is not healthy, with its component and the cause."""
    index = tuple(int(i) for i in np.argwhere(unhealthy)[0])
    weights, _, covariances = (to_numpy(part)[index] for part in theta)
    for k in range(weights.shape[0]):
        cause = _fault(float(weights[k]), covariances[k], least_weight(weights))
        if cause:
            return CollapseError(names[index[-1]], k, number, cause, REMEDY)
    return CollapseError(names[index[-1]], 0, number, "its numbers overflowed", REMEDY)


def least_weight(weights: Array) -> float:
    """A component below this weight has vanished: less than a billionth of a row supports it."""
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
