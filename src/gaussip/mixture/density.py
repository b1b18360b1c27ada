"""Log-densities of rows under a mixture, for prediction and scoring; a missing cell is NaN."""

import numpy as np

from gaussip.arrays import NDArray, precision_factor, slices
from gaussip.mixture.conditional import marginal, patterns
from gaussip.mixture.theta import Theta

BLOCK_ROWS = 100_000  # computed together, so that only the result grows with the rows


def log_joint(X: NDArray, theta: Theta) -> NDArray:
    """log(alpha_k phi_k) of the observed cells of every row, by component, (n, K).

    Computed from x - mu_k, not from sums about a centre as in the hot function: slower, but accurate for small
    components far from the centre.
    """
    joint = np.empty((len(X), len(theta.weights)))
    for rows, observed in patterns(X):
        own = theta if observed.all() else marginal(theta, observed)
        joint[rows] = _complete(X[rows] if observed.all() else X[np.ix_(rows, observed)], own)
    return joint


def _complete(X: NDArray, theta: Theta) -> NDArray:
    factors = precision_factor(theta.covariances)
    log_factor = np.log(np.diagonal(factors, axis1=-2, axis2=-1)).sum(axis=-1)
    constant = np.log(theta.weights) + log_factor - 0.5 * X.shape[1] * np.log(2 * np.pi)
    whitened = ((X - mean) @ factor.T for mean, factor in zip(theta.means, factors, strict=True))
    return np.asarray(constant - 0.5 * np.stack([(z * z).sum(axis=1) for z in whitened], axis=1))


def responsibilities(X: NDArray, theta: Theta) -> tuple[NDArray, NDArray]:
    """Responsibilities (n, K) and log-densities (n,) of every row."""
    shares, densities = np.empty((len(X), len(theta.weights))), np.empty(len(X))
    for part in slices(len(X), BLOCK_ROWS):
        joint = log_joint(X[part], theta)
        top = joint.max(axis=1, keepdims=True)
        share = np.exp(joint - top)
        norm = share.sum(axis=1, keepdims=True)
        shares[part], densities[part] = share / norm, (top + np.log(norm))[:, 0]
    return shares, densities
