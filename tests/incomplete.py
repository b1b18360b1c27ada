"""Rows with missing cells, for tests."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from gaussip.mixture.theta import Theta

ALLOWED = [(0,), (1, 2), (0, 1)]  # the components of each label


def holes(X, share, rng, *, keep=True):
    """Rows with a share of the cells missing at random; each keeps one."""
    gone = rng.random(X.shape) < share
    if keep:
        gone[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = False
    return np.where(gone, np.nan, X)


def mixture_of(rng, K=3, p=5, offset=50.0):
    A = rng.normal(size=(K, p, p))
    return Theta(rng.dirichlet(np.ones(K)), 3 * rng.normal(size=(K, p)) + offset, A @ A.swapaxes(-1, -2) + np.eye(p))


def log_joint(x, theta, components):
    o = ~np.isnan(x)
    return np.array(
        [
            np.log(theta.weights[k])
            + multivariate_normal.logpdf(x[o], theta.means[k][o], theta.covariances[k][np.ix_(o, o)])
            for k in components
        ]
    )
