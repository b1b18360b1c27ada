"""The parameters of a Gaussian mixture in the two forms the algorithms use.

`Theta` = (alpha, mu, Sigma) is what people read; `Psi` = (alpha, beta, gamma) with beta = alpha * mu and
gamma = alpha * Sigma is what may be averaged. Both hold arrays with any leading axes ``...``: none for one
site, ``(site,)`` for a simulation, ``(replicate, site)`` for a study.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from gaussip.arrays import Array, NDArray, indices, namespace, to_numpy


class Theta(NamedTuple):
    """The mixture as people read it."""

    weights: Array  #: alpha, (..., K), on the simplex
    means: Array  #: mu, (..., K, p)
    covariances: Array  #: Sigma, (..., K, p, p)


class Psi(NamedTuple):
    """The mixture as it may be averaged: every entry scaled by its component's weight.

    Only ratios matter (mu = beta / alpha, Sigma = gamma / alpha, weights = alpha / sum alpha), so a site's
    mass can ride in the scale.
    """

    alpha: Array  #: (..., K)
    beta: Array  #: (..., K, p)
    gamma: Array  #: (..., K, p, p)


Parameters = TypeVar("Parameters", Theta, Psi)


def to_psi(theta: Theta) -> Psi:
    """Psi of a Theta, with total mass one."""
    alpha = theta.weights
    return Psi(alpha, alpha[..., None] * theta.means, alpha[..., None, None] * theta.covariances)


def to_theta(psi: Psi) -> Theta:
    """Theta of a Psi of any mass."""
    xp = namespace(psi.alpha)
    alpha = psi.alpha
    return Theta(
        alpha / xp.sum(alpha, axis=-1, keepdims=True),
        psi.beta / alpha[..., None],
        psi.gamma / alpha[..., None, None],
    )


def scale(parameters: Parameters, factor: Array) -> Parameters:
    """Every entry times a factor given per leading index (a number, or an array of the leading shape)."""
    xp = namespace(parameters[0])
    factor = xp.asarray(factor)
    return type(parameters)(
        parameters[0] * factor[..., None],
        parameters[1] * factor[..., None, None],
        parameters[2] * factor[..., None, None, None],
    )


def blend(a: float, left: Parameters, b: float, right: Parameters) -> Parameters:
    """The linear combination a * left + b * right."""
    return type(left)(*(a * x + b * y for x, y in zip(left, right, strict=True)))


@cache
def upper_triangle(n_features: int) -> tuple[NDArray, NDArray]:
    """Row and column numbers of the upper triangle, row by row: the order of vech."""
    return np.triu_indices(n_features)


def vech(matrices: Array) -> Array:
    """The upper triangle, row by row: (..., p, p) to (..., p(p+1)/2)."""
    xp = namespace(matrices)
    p = matrices.shape[-1]
    rows, columns = upper_triangle(p)
    index = indices(rows * p + columns, matrices)
    return xp.take(xp.reshape(matrices, (*matrices.shape[:-2], p * p)), index, axis=-1)


def unvech(vectors: Array) -> Array:
    """The symmetric matrices of which `vech` gives these vectors."""
    xp = namespace(vectors)
    p = round((np.sqrt(8 * vectors.shape[-1] + 1) - 1) / 2)
    rows, columns = upper_triangle(p)
    position = np.empty((p, p), dtype=np.int64)
    position[rows, columns] = position[columns, rows] = np.arange(len(rows))
    full = xp.take(vectors, indices(position.ravel(), vectors), axis=-1)
    return xp.reshape(full, (*vectors.shape[:-1], p, p))


def pack(parameters: Theta | Psi) -> Array:
    """The paper's vector (alpha_k, mu_k', vech(Sigma_k)'; k = 1..K), (..., q) with q = K(p+1)(p+2)/2."""
    first, second, third = parameters
    xp = namespace(first)
    parts = xp.concat([first[..., None], second, vech(third)], axis=-1)
    return xp.reshape(parts, (*first.shape[:-1], -1))


def unpack(vector: Array, like: Parameters) -> Parameters:
    """The Theta or Psi of a packed vector; ``like`` gives the kind and the number of components."""
    xp = namespace(vector)
    K, p = like[1].shape[-2:]
    parts = xp.reshape(vector, (*vector.shape[:-1], K, vector.shape[-1] // K))
    return type(like)(parts[..., 0], parts[..., 1 : 1 + p], unvech(parts[..., 1 + p :]))


def n_parameters(n_components: int, n_features: int) -> int:
    """Free parameters of the mixture (the weights sum to one)."""
    return n_components * (n_features + 1) * (n_features + 2) // 2 - 1


def overall(theta: Theta) -> tuple[Array, Array]:
    """Mean (..., p) and covariance (..., p, p) of the whole mixture."""
    xp = namespace(theta.means)
    weights = theta.weights[..., None]
    mean = xp.sum(weights * theta.means, axis=-2)
    apart = theta.means - mean[..., None, :]
    spread = apart[..., :, None] * apart[..., None, :] + theta.covariances
    return mean, xp.sum(weights[..., None] * spread, axis=-3)


class Unit(NamedTuple):
    """A location and a scale for each feature, in which mixtures can be compared whatever the data's units."""

    centre: Array  #: (..., p)
    spread: Array  #: (..., p)

    def standard(self, psi: Psi) -> Psi:
        """psi of the standardised features: linear in psi."""
        centre, spread = self.centre[..., None, :], self.spread[..., None, :]
        beta = (psi.beta - psi.alpha[..., None] * centre) / spread
        return Psi(psi.alpha, beta, psi.gamma / (spread[..., :, None] * spread[..., None, :]))

    def original(self, psi: Psi) -> Psi:
        """The inverse of `standard`."""
        centre, spread = self.centre[..., None, :], self.spread[..., None, :]
        beta = psi.beta * spread + psi.alpha[..., None] * centre
        return Psi(psi.alpha, beta, psi.gamma * (spread[..., :, None] * spread[..., None, :]))


def unit_of(theta: Theta) -> Unit:
    """The unit in which a mixture has mean zero and unit variances."""
    xp = namespace(theta.means)
    mean, covariance = overall(theta)
    return Unit(mean, xp.sqrt(xp.linalg.diagonal(covariance)))


def reorder(theta: Theta, order: NDArray) -> Theta:
    """The components of one mixture (no leading axes) in another order."""
    return Theta(theta.weights[order], theta.means[order], theta.covariances[order])


def align(theta: Theta, reference: Theta) -> Theta:
    """Components renumbered to match a reference, by optimal matching.

    Parameters
    ----------
    theta : Theta with any leading axes
    reference : Theta without leading axes

    The matching minimises the summed squared distance over (alpha, mu, vech Sigma), the paper's MSE.
    """
    theta = Theta(*map(to_numpy, theta))
    K = theta.weights.shape[-1]
    width = pack(theta).shape[-1] // K
    mine = pack(theta).reshape(-1, K, width)
    target = pack(Theta(*map(to_numpy, reference))).reshape(K, width)
    aligned = Theta(*(np.array(part) for part in theta))
    for site, index in enumerate(np.ndindex(theta.weights.shape[:-1])):
        cost = ((target[:, None, :] - mine[site][None, :, :]) ** 2).sum(axis=-1)
        order = linear_sum_assignment(cost)[1]
        for part, source in zip(aligned, theta, strict=True):
            part[index] = source[index][order]
    return aligned
