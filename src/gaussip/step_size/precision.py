"""How well the target itself is known: the variance of the estimate that the rows of all sites give together.

The observed information is that of complete rows less what is missing, I = I_complete (1 - J), with J the Jacobian of
EM's map in theta (Meng and Rubin, 1991): it needs nothing of the rows but the maps that sites compute anyway.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import DataError
from gaussip.mixture.theta import Theta, pack, to_psi, unpack, upper_triangle, vech
from gaussip.rows.moments import mean_covariance
from gaussip.step_size.bias import SiteMaps

MOST = 1000  # parameters of which J is taken
STEP = 1e-5  # of its differences


class Ruler:
    """Measures how far mixtures are apart, over (alpha, mu, vech Sigma) as the paper's MSE.

    Features are measured in the components' own standard deviations, which are one in the paper's simulation.
    """

    def __init__(self, centre: Theta) -> None:
        spread = np.sqrt(np.diagonal(mean_covariance(centre)))
        self.scale = np.concatenate([[1.0], spread, vech(np.multiply.outer(spread, spread))])
        self.centre = pack(centre) / self.scale

    def apart(self, theta: Theta, other: Theta) -> NDArray:
        """How far mixtures are from others, (...)."""
        return np.asarray(np.sqrt((((pack(theta) - pack(other)) / self.scale) ** 2).sum(axis=(-2, -1))))


class Precision(NamedTuple):
    """What is known of the target."""

    standard_error: float  #: the root of the summed variances
    variances: NDArray | None  #: (K, f) of (alpha, mu, vech Sigma), on the ruler; None where J was not taken
    rate: float | None  #: EM's, the largest eigenvalue of J; None where J was not taken


def precision(maps: SiteMaps, ruler: Ruler) -> Precision:
    """The precision of the target, the ruler's centre.

    With very many parameters the variance is that of complete rows, which is too small: eta is then chosen smaller
    than it need be.
    """
    complete = _complete(unpack(ruler.centre), float(to_numpy(maps.rows.mass).sum()))
    q = len(complete)
    if q > MOST:
        return Precision(float(np.sqrt(np.trace(complete))), None, None)

    def mapped(vector: NDArray) -> NDArray:
        theta = unpack(vector.reshape(ruler.centre.shape) * ruler.scale)
        after = maps.theta(maps.pooled(maps.unit.standard(to_psi(theta))))
        return np.ravel(pack(after) / ruler.scale)

    at = ruler.centre.ravel()
    J = np.stack([(mapped(at + e) - mapped(at - e)) / (2 * STEP) for e in STEP * np.eye(q)], axis=1)
    rate = float(np.abs(np.linalg.eigvals(J)).max())
    if not rate < 1:
        raise DataError(
            "the rows do not determine the mixture: at the pooled estimate the likelihood is flat in some direction, "
            "and no bias is small against that. Use fewer components, labels or shrinkage"
        )
    variances = np.maximum(
        np.diagonal(np.linalg.solve(np.eye(q) - J, complete)), 0
    )  # one component's weight has none
    return Precision(float(np.sqrt(variances.sum())), variances.reshape(ruler.centre.shape), rate)


def _complete(theta: Theta, n_rows: float) -> NDArray:
    """The covariance of (alpha, mu, vech Sigma) if every row's component were known, (q, q)."""
    K, p = theta.means.shape
    i, j = upper_triangle(p)
    f = 1 + p + len(i)
    found = np.zeros((K, f, K, f))
    found[:, 0, :, 0] = np.diag(theta.weights) - np.multiply.outer(theta.weights, theta.weights)
    for k, (share, S) in enumerate(zip(theta.weights, theta.covariances, strict=True)):
        found[k, 1 : 1 + p, k, 1 : 1 + p] = S / share
        found[k, 1 + p :, k, 1 + p :] = (S[i][:, i] * S[j][:, j] + S[i][:, j] * S[j][:, i]) / share
    return found.reshape(K * f, K * f) / n_rows
