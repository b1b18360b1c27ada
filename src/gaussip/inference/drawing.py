"""Draws of a mixture's parameters from their sampling distribution, for multiple imputation.

They are normal in log weights, means and, for covariances, the entries of the Cholesky factor with the logarithm of
its diagonal, so that every draw is a mixture. The covariance matrix in these coordinates follows by the delta method.
"""

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import softmax

from gaussip.arrays import NDArray
from gaussip.mixture.theta import Theta, unvech, upper_triangle, width


def drawn_thetas(theta: Theta, covariance: NDArray, n_draws: int, rng: np.random.Generator) -> list[Theta]:
    """Mixtures drawn around theta, whose packed parameters have this covariance (K f, K f)."""
    K, p = theta.means.shape
    roots = np.linalg.cholesky(theta.covariances)
    jacobian = np.zeros((K, width(p), K, width(p)))
    for k in range(K):
        jacobian[k, :, k] = _jacobian(float(theta.weights[k]), roots[k])
    J = jacobian.reshape(K * width(p), -1)
    values, vectors = np.linalg.eigh(J @ covariance @ J.T)
    noise = rng.standard_normal((n_draws, len(values))) * np.sqrt(np.maximum(values, 0.0))
    return [_moved(theta, roots, step.reshape(K, -1)) for step in noise @ vectors.T]


def _moved(theta: Theta, roots: NDArray, step: NDArray) -> Theta:
    """The mixture so far from theta in the coordinates of the draws."""
    p = roots.shape[-1]
    lower = np.tril(unvech(step[:, 1 + p :]))  # entry (i, j) of the factor where vech has (j, i)
    on_diagonal = np.eye(p, dtype=bool)
    moved = np.where(on_diagonal, roots * np.exp(np.where(on_diagonal, lower, 0.0)), roots + lower)
    weights = softmax(np.log(theta.weights) + step[:, 0])
    return Theta(weights, theta.means + step[:, 1 : 1 + p], moved @ moved.swapaxes(-1, -2))


def _jacobian(weight: float, root: NDArray) -> NDArray:
    """Derivatives (f, f) of a component's coordinates by its packed parameters.

    The differential of the factor is dL = L Phi(L^-1 dSigma L^-T), where Phi keeps the lower triangle and halves the
    diagonal.
    """
    p = len(root)
    result = np.zeros((width(p), width(p)))
    result[0, 0] = 1 / weight
    result[1 : 1 + p, 1 : 1 + p] = np.eye(p)
    rows, columns = upper_triangle(p)
    for number, (i, j) in enumerate(zip(rows, columns, strict=True)):
        change = np.zeros((p, p))
        change[i, j] = change[j, i] = 1.0
        half = solve_triangular(root, change, lower=True)
        white = np.tril(solve_triangular(root, half.T, lower=True))
        factor = root @ (white - np.diag(np.diag(white)) / 2)
        factor[np.diag_indices(p)] /= np.diag(root)
        result[1 + p :, 1 + p + number] = factor[columns, rows]
    return result
