"""The parameters of a Gaussian mixture in the two forms the algorithms use.

`Theta` = (alpha, mu, Sigma) is what people read. psi = (alpha, beta, gamma) with beta = alpha * mu and
gamma = alpha * Sigma can be averaged. It is a single array with a row for each component, so that the algorithms read
like the paper's equations and a message needs no packing. Both have any leading axes ``...``: none for one site,
``(site,)`` for a simulation, ``(replicate, site)`` for a study.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gaussip.arrays import Array, NDArray, compiled, indices, namespace, to_device, to_numpy


class Theta(NamedTuple):
    """The mixture as people read it."""

    weights: Array  #: alpha, (..., K), on the simplex
    means: Array  #: mu, (..., K, p)
    covariances: Array  #: Sigma, (..., K, p, p)


Psi: TypeAlias = Array
"""(..., K, f) with f = (p+1)(p+2)/2: the rows (alpha_k, beta_k', vech(gamma_k)').

Every entry is scaled by its component's weight. Only ratios matter (mu = beta / alpha, Sigma = gamma / alpha,
weights = alpha / sum alpha), so the scale can carry a site's mass.
"""


def to_psi(theta: Theta) -> Psi:
    """psi of a Theta, with total mass one."""
    rows = pack(theta)
    alpha = rows[..., :1]
    return namespace(rows).concat([alpha, alpha * rows[..., 1:]], axis=-1)


def to_theta(psi: Psi) -> Theta:
    """Theta of a psi of any mass."""
    small = compiled(psi)
    if small is not None:
        return Theta(*small.to_theta(psi))
    alpha = psi[..., 0]
    return normalised(unpack(namespace(psi).concat([psi[..., :1], psi[..., 1:] / alpha[..., None]], axis=-1)))


def normalised(theta: Theta) -> Theta:
    """Theta with its weights divided by their sum."""
    return theta._replace(weights=theta.weights / namespace(theta.weights).sum(theta.weights, axis=-1, keepdims=True))


@cache
def upper_triangle(n_features: int) -> tuple[NDArray, NDArray]:
    """Row and column numbers of the upper triangle, row by row: the order of vech."""
    return np.triu_indices(n_features)


@cache
def _full(n_features: int) -> NDArray:
    """The position of each entry of a symmetric matrix in its vech."""
    rows, columns = upper_triangle(n_features)
    position = np.empty((n_features, n_features), dtype=np.int64)
    position[rows, columns] = position[columns, rows] = np.arange(len(rows))
    return position.ravel()


_placed: dict[Any, Array] = {}  # positions as arrays of other libraries and devices, converted once


def _positions(make: Callable[[int], NDArray], n_features: int, like: Array) -> Array:
    key = (make, n_features, type(like), like.device)
    if key not in _placed:
        _placed[key] = indices(make(n_features), like)
    return _placed[key]


def _flat(n_features: int) -> NDArray:
    rows, columns = upper_triangle(n_features)
    return rows * n_features + columns


def vech(matrices: Array) -> Array:
    """The upper triangle, row by row: (..., p, p) to (..., p(p+1)/2)."""
    xp = namespace(matrices)
    p = matrices.shape[-1]
    flat = xp.reshape(matrices, (*matrices.shape[:-2], p * p))
    return xp.take(flat, _positions(_flat, p, matrices), axis=flat.ndim - 1)


def unvech(vectors: Array) -> Array:
    """The inverse of `vech`: symmetric matrices."""
    xp = namespace(vectors)
    p = (math.isqrt(8 * vectors.shape[-1] + 1) - 1) // 2
    full = xp.take(vectors, _positions(_full, p, vectors), axis=vectors.ndim - 1)
    return xp.reshape(full, (*vectors.shape[:-1], p, p))


def pack(theta: Theta) -> Array:
    """The rows (alpha_k, mu_k', vech(Sigma_k)') of a Theta, (..., K, f); flattened they are the paper's vector."""
    weights, means, covariances = theta
    return namespace(weights).concat([weights[..., None], means, vech(covariances)], axis=-1)


def unpack(rows: Array) -> Theta:
    """The inverse of `pack`."""
    p = n_features(rows.shape[-1])
    return Theta(rows[..., 0], rows[..., 1 : 1 + p], unvech(rows[..., 1 + p :]))


def in_bytes(theta: Theta) -> bytes:
    """The bits of a Theta of NumPy's, the same on every machine."""
    return np.ascontiguousarray(pack(theta), dtype="<f8").tobytes()


def width(n_features: int) -> int:
    """f = (p+1)(p+2)/2: the numbers in a component, and in a row's features (1, z, vech(zz'))."""
    return (n_features + 1) * (n_features + 2) // 2


def n_features(width: int) -> int:
    """p of f = (p+1)(p+2)/2."""
    return (math.isqrt(8 * width + 1) - 3) // 2


def overall(theta: Theta) -> tuple[Array, Array]:
    """Mean (..., p) and covariance (..., p, p) of the whole mixture."""
    xp = namespace(theta.means)
    weights = theta.weights[..., None]
    mean = xp.sum(weights * theta.means, axis=-2)
    apart = theta.means - mean[..., None, :]
    spread = apart[..., :, None] * apart[..., None, :] + theta.covariances
    return mean, xp.sum(weights[..., None] * spread, axis=-3)


def reorder(theta: Theta, order: NDArray) -> Theta:
    """These components of one mixture (no leading axes), in this order."""
    return Theta(theta.weights[order], theta.means[order], theta.covariances[order])


def align(theta: Theta, reference: Theta) -> Theta:
    """Components (..., K) renumbered to match a reference (K,), by optimal matching.

    The matching minimises the summed squared distance over (alpha, mu, vech Sigma), the paper's MSE.
    """
    from scipy.optimize import linear_sum_assignment  # not when a site starts

    theta = Theta(*map(to_numpy, theta))
    target = pack(Theta(*map(to_numpy, reference)))
    rows = pack(theta).reshape(-1, *target.shape)
    aligned = Theta(*(np.array(part) for part in theta))
    for site, index in enumerate(np.ndindex(theta.weights.shape[:-1])):
        cost = ((target[:, None, :] - rows[site][None, :, :]) ** 2).sum(axis=-1)
        order = linear_sum_assignment(cost)[1]
        for part, source in zip(aligned, theta, strict=True):
            part[index] = source[index][order]
    return aligned


def consensus(theta: Theta, mass: Array) -> Theta:
    """The sites' mass-weighted average in psi: (..., M) sites to (...)."""
    xp = namespace(mass)
    share = mass / xp.sum(mass, axis=-1, keepdims=True)
    return to_theta(xp.sum(share[..., None, None] * to_psi(theta), axis=-3))


def distance(theta: Theta, pooled: Theta) -> float:
    """M^(-1/2) times the norm of the sites' stacked psi minus the pooled psi, for sites (M,)."""
    apart = to_psi(Theta(*map(to_numpy, theta))) - to_psi(Theta(*map(to_numpy, pooled)))
    return float(np.sqrt(np.mean(np.sum(apart**2, axis=(-2, -1)))))


def place(theta: Theta, device: str) -> Theta:
    """A Theta on the device (NumPy for the CPU)."""
    return Theta(*(to_device(part, device) for part in theta))


def at(theta: Theta, *index: int | slice) -> Theta:
    """The Theta at an index of the leading axes: a site of (M,), or a replicate and a site of (R, M)."""
    return Theta(*(part[(*index, ...)] for part in theta))


def first_site(theta: Theta) -> Theta:
    """The first of sites (..., M), with a site axis of length one."""
    weights, means, covariances = theta
    return Theta(weights[..., :1, :], means[..., :1, :, :], covariances[..., :1, :, :, :])


def per_replicate(thetas: Sequence[Theta]) -> Theta:
    """Thetas as one with leading axes (R, 1): each replicate has its own, the same at all sites."""
    return Theta(*(np.stack(parts)[:, None] for parts in zip(*thetas, strict=True)))


def broadcast(theta: Theta, shape: tuple[int, ...]) -> Theta:
    """A Theta with leading axes of that shape, the same numbers everywhere."""
    xp = namespace(theta.means)
    K, p = theta.means.shape[-2:]
    sizes = ((K,), (K, p), (K, p, p))
    return Theta(*(xp.broadcast_to(part, (*shape, *size)) for part, size in zip(theta, sizes, strict=True)))
