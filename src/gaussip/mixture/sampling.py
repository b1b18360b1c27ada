"""Drawing rows from a mixture."""

import numpy as np

from gaussip.arrays import NDArray
from gaussip.mixture.theta import Theta


def sample(theta: Theta, n_rows: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Rows (n, p) of a mixture and the component each came from (n,)."""
    K, p = theta.means.shape
    classes = rng.choice(K, size=n_rows, p=theta.weights / theta.weights.sum())
    factors = np.linalg.cholesky(theta.covariances)
    noise = rng.standard_normal((n_rows, p))
    X = np.empty((n_rows, p))
    for k in range(K):
        members = classes == k
        X[members] = theta.means[k] + noise[members] @ factors[k].T
    return X, classes
