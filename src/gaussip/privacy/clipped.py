"""The moments of a mixture to which one row adds a bounded part; the hot function of private fits.

Row i adds to component k, with z = L_k^-1 (x_i - mu_k) cut to a length of at most R and responsibility r_ik,

    r_ik,   r_ik z,   r_ik (zz' - c I)      with c = E min(|z|^2, R^2) / p for a standard normal z,

so that both means are zero where the mixture is right, and stay there though z is cut. As sum_k r_ik^2 <= 1, the
norms over all components are at most 1, R and max(sqrt(R^4 - 2 c R^2 + c^2 p), c sqrt(p)).

Of a row with missing cells z is the mean given those observed: a projection of z, z = P z, whose second moment is
zz' + I - P. With o observed cells and c_o of dimension o it adds r_ik (c / c_o zz' - c P), which has mean zero too
and, as c <= c_o, no larger norm.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import chdtr, chdtrc

from gaussip.arrays import NDArray
from gaussip.mixture.conditional import patterns
from gaussip.mixture.theta import Theta
from gaussip.privacy.look import halved
from gaussip.privacy.noised import Block
from gaussip.privacy.rows import cut


class Radius(NamedTuple):
    """Where z is cut."""

    length: float  #: R
    n_features: int  #: p

    def kept(self, observed: int) -> float:
        """c of so many dimensions: what is left of the variance."""
        o, square = observed, self.length**2
        return float(chdtr(o + 2, square) + square * chdtrc(o, square) / o)

    @property
    def of_squares(self) -> float:
        """The largest norm of zz' - c I."""
        R2, c, p = self.length**2, self.kept(self.n_features), self.n_features
        return math.sqrt(max(R2 * R2 - 2 * c * R2 + c * c * p, c * c * p))

    def blocks(self, n_components: int, shares: tuple[float, float, float]) -> list[Block]:
        """The blocks of a release of the moments."""
        K, p = n_components, self.n_features
        return [
            Block((K,), 1.0, shares[0]), Block((K, p), self.length, shares[1]),
            Block((K, p * (p + 1) // 2), self.of_squares, shares[2]),
        ]  # fmt: skip


def clipped_moments(
    x: NDArray, allowed: NDArray, weights: NDArray, theta: Theta, radius: Radius
) -> tuple[NDArray, NDArray, NDArray]:
    """The sums over rows (n, p): (K,), (K, p) and, as `halved` has them, (K, p(p+1)/2).

    Parameters
    ----------
    allowed : (n, K), which components each row can be of
    weights : (n,), at most one
    """
    K, p = theta.means.shape
    zeroth, first, second = np.zeros(K), np.zeros((K, p)), np.zeros((K, p, p))
    factors = np.linalg.cholesky(theta.covariances)
    for rows, observed in patterns(x):
        if not observed.any():
            continue
        o = int(observed.sum())
        places = [_whitened(x[np.ix_(rows, observed)], observed, theta, factors[k], k) for k in range(K)]
        joint = np.stack([place.log_joint for place in places], axis=1)
        joint = np.where(allowed[rows], joint, -np.inf)
        share = np.exp(joint - joint.max(axis=1, keepdims=True))
        share *= (weights[rows] / share.sum(axis=1))[:, None]
        c, c_o = radius.kept(p), radius.kept(o)
        for k, place in enumerate(places):
            z = cut(place.z, radius.length)
            r = share[:, k]
            total, axes = r.sum(), place.axes
            zeroth[k] += total
            first[k] += axes @ (r @ z)
            inner = c / c_o * ((r[:, None] * z).T @ z) - c * total * np.eye(o)
            second[k] += axes @ inner @ axes.T
    return zeroth, first, halved(second)


class _Whitened(NamedTuple):
    """Rows that share which cells are observed, as one component sees them."""

    z: NDArray  #: (n, o), of unit variance, from the observed cells
    axes: NDArray  #: (p, o), orthonormal: z among the whitened features
    log_joint: NDArray  #: (n,), of the component and the cells


def _whitened(x: NDArray, observed: NDArray, theta: Theta, factor: NDArray, k: int) -> _Whitened:
    weight, mean, covariance = (part[k] for part in theta)
    if observed.all():
        own, axes = factor, np.eye(len(mean))
    else:
        own = np.linalg.cholesky(covariance[np.ix_(observed, observed)])
        axes = np.linalg.solve(factor, covariance[:, observed]) @ np.linalg.inv(own).T
        left, _, right = np.linalg.svd(axes, full_matrices=False)
        axes = left @ right  # orthonormal but for rounding, which a covariance that is nearly singular makes large
    z = np.linalg.solve(own, (x - mean[observed]).T).T
    constant = math.log(weight) - np.log(np.diagonal(own)).sum() - 0.5 * len(own) * math.log(2 * math.pi)
    return _Whitened(z, axes, constant - 0.5 * (z * z).sum(axis=1))
