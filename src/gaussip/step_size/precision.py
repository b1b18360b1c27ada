"""The precision of the pooled estimate: the variance that the rows of all sites leave it.

The observed information is that of complete rows less what is missing, I = I_complete (1 - J), with J the Jacobian of
EM's map in theta (Meng and Rubin, 1991). Louis's identity (`gaussip.inference.information`) gives the same I where
the estimate maximises the likelihood; with reg_covar, shrinkage or weighting="equal" it does not, and only J
describes the map that is iterated.
"""

from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import DataError
from gaussip.mixture.theta import Theta, pack, to_psi, unpack, upper_triangle
from gaussip.mixture.units import Unit
from gaussip.rows.moments import mean_covariance
from gaussip.step_size.bias import SiteMaps

MOST = 1000  # parameters: with more, J is not computed
STEP = 1e-5  # of the finite differences


class Ruler:
    """The distance between mixtures over (alpha, mu, vech Sigma), as in the paper's MSE.

    Features are in units of the components' standard deviations, which are one in the paper's simulation.
    """

    def __init__(self, centre: Theta) -> None:
        spread = np.sqrt(np.diagonal(mean_covariance(centre)))
        self.scale = Unit.of(np.zeros_like(spread), spread).factor[0]
        self.centre = pack(centre) / self.scale

    def apart(self, theta: Theta, other: Theta) -> NDArray:
        """The distance between mixtures, (...)."""
        return np.asarray(np.sqrt((((pack(theta) - pack(other)) / self.scale) ** 2).sum(axis=(-2, -1))))


class Precision(NamedTuple):
    """The precision of the target."""

    standard_error: float  #: the root of the summed variances
    variances: NDArray | None  #: (K, f) of (alpha, mu, vech Sigma), on the ruler; None without J
    rate: float | None  #: EM's, the largest eigenvalue of J; None without J


def precision(maps: SiteMaps, ruler: Ruler) -> Precision:
    """The precision of the target, the ruler's centre.

    With more than `MOST` parameters the variance is that of complete rows. It is too small, so a smaller eta than
    necessary is chosen.
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
            "so no bias can be called small. Use fewer components, labels or shrinkage"
        )
    covariance = np.linalg.solve(np.eye(q) - J, complete)
    variances = np.maximum(np.diagonal(covariance), 0)  # the weight of a single component has none
    return Precision(float(np.sqrt(variances.sum())), variances.reshape(ruler.centre.shape), rate)


def _complete(theta: Theta, n_rows: float) -> NDArray:
    """The covariance of (alpha, mu, vech Sigma) if the component of every row were known, (q, q)."""
    K, p = theta.means.shape
    i, j = upper_triangle(p)
    f = 1 + p + len(i)
    covariance = np.zeros((K, f, K, f))
    covariance[:, 0, :, 0] = np.diag(theta.weights) - np.multiply.outer(theta.weights, theta.weights)
    for k, (share, S) in enumerate(zip(theta.weights, theta.covariances, strict=True)):
        covariance[k, 1 : 1 + p, k, 1 : 1 + p] = S / share
        covariance[k, 1 + p :, k, 1 + p :] = (S[i][:, i] * S[j][:, j] + S[i][:, j] * S[j][:, i]) / share
    return covariance.reshape(K * f, K * f) / n_rows
