"""The hot function on the CPU for many features: products of tiles, of which only the triangles are computed.

A row is u = (1, x - centre), padded to whole vectors. With T'T the precision of component k, |T(x - mu)|^2 is the
squared norm of u times a triangular matrix; the sums of r u u' are the wanted ones. A block of rows stays in the
second cache.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gaussip.arrays import Array, NDArray
from gaussip.kernels.array.algebra import moments_of_sums
from gaussip.kernels.cpu import threads
from gaussip.kernels.cpu.compiling import compiled
from gaussip.kernels.cpu.few_features import aligned
from gaussip.kernels.cpu.small import inverse_cholesky
from gaussip.kernels.cpu.threads import done, take
from gaussip.kernels.cpu.tiles import BREADTH, HEIGHT, add_product, subtract_squares
from gaussip.kernels.cpu.vectors import LANES, UNDERFLOW
from gaussip.mixture.theta import Theta, width

BLOCK = 96  # rows
ONE, TWO, THREE = (0,), (0, 0), (0, 0, 0)


class Laid(NamedTuple):
    """The rows of S sites."""

    u: NDArray  #: (rows, padded width), one after the other; rows of zeros fill up a site's last tile
    weights: NDArray  #: (rows,), zero where there is no row
    tasks: NDArray  #: (T, 3): site, first row, last row


def lay_out(values: Sequence[Array], weights: Sequence[Array] | None, centres: Array) -> Laid:
    """Copy the rows of all sites into padded rows."""
    p = centres.shape[-1]
    lengths = [-(-len(x) // HEIGHT) * HEIGHT for x in values]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    total, breadth = int(starts[-1]), _padded(1 + p)
    u, v = aligned(total * breadth).reshape(total, breadth), np.zeros(total)
    task = BLOCK * max(16, -(-16 * p // BLOCK))  # rows: so many that a task's sums take less room than they
    tasks = []
    for m, x in enumerate(values):
        here = slice(starts[m], starts[m] + len(x))
        u[here, 0] = 1.0
        np.subtract(x, centres[m], out=u[here, 1 : 1 + p])
        v[here] = 1.0 if weights is None else weights[m]
        tasks += [(m, first, min(first + task, starts[m + 1])) for first in range(starts[m], starts[m + 1], task)]
    return Laid(u, v, np.array(tasks, dtype=np.int64).reshape(-1, 3))


def moments(
    laid: Laid, theta: Theta, centres: Array, labelled: Array | None, reg_covar: float
) -> tuple[Array, Array]:
    """The factors, the pass over the rows by all threads, and the moments from its sums."""
    S, K, p = theta.means.shape
    breadth = laid.u.shape[1]
    factors, constants = aligned(S * K * breadth * breadth).reshape(S, K, breadth, breadth), np.empty((S, K))
    _on_u(*map(np.ascontiguousarray, theta), centres, factors, constants)
    n_tasks = len(laid.tasks)
    sums, log_likelihoods = np.empty((n_tasks, K, width(p))), np.empty(n_tasks)
    team = threads.Team()
    arrays = (laid.u, laid.weights, laid.tasks, factors, constants, sums, log_likelihoods, p)
    helpers = threads.helpers_for(n_tasks, laid.u.size * p * K)
    team.share(lambda looks: int(_sums(team.counters, *arrays, *_rooms(K, breadth))), n_tasks, helpers)
    total, log_likelihood = np.zeros((S, K, width(p))), np.zeros(S)
    np.add.at(total, laid.tasks[:, 0], sums)
    np.add.at(log_likelihood, laid.tasks[:, 0], log_likelihoods)
    return moments_of_sums(total, log_likelihood, theta, centres, labelled, reg_covar)


def _padded(size: int) -> int:
    """Whole vectors, and whole tiles downwards."""
    unit = max(LANES, HEIGHT)
    return -(-size // unit) * unit


@compiled(nogil=True, error_model="numpy")
def _on_u(
    weights: NDArray, means: NDArray, covariances: NDArray, centres: NDArray, out: NDArray, constants: NDArray
) -> None:
    """The matrices that u is multiplied by: T(x - mu) = T z - T(mu - centre), a column for each entry of it."""
    S, K, p = means.shape
    root, factor = np.empty((p, p)), np.empty((p, p))
    for s in range(S):
        for k in range(K):
            if not weights[s, k] > 0.0 or not inverse_cholesky(covariances[s, k], root, factor):
                constants[s, k] = np.nan
                continue
            constant = np.log(weights[s, k]) - 0.5 * p * math.log(2 * math.pi)
            for i in range(p):
                constant += np.log(factor[i, i])
                shift = 0.0
                for j in range(i + 1):
                    shift -= factor[j, i] * (means[s, k, j] - centres[s, j])
                    out[s, k, 1 + j, i] = factor[j, i]
                out[s, k, 0, i] = shift
            constants[s, k] = constant


def _rooms(n_components: int, breadth: int) -> tuple[NDArray, NDArray, NDArray]:
    """What one thread works in, made in Python as in `few_features`: shares, scaled rows, squares."""
    K = n_components
    return np.empty((K, BLOCK)), np.empty((BLOCK, breadth)), np.empty((K, breadth, breadth))


@compiled(nogil=True, error_model="numpy")
def _sums(
    counters: NDArray,
    u: NDArray,
    weights: NDArray,
    tasks: NDArray,
    factors: NDArray,
    constants: NDArray,
    sums: NDArray,
    log_likelihoods: NDArray,
    p: int,
    share: NDArray,
    scaled: NDArray,
    squares: NDArray,
) -> int:
    """Take tasks until none is left, and count them: sums of responsibilities times features, and log-likelihoods."""
    K, breadth = constants.shape[1], u.shape[1]
    taken = 0
    while True:
        _, t = take(counters, len(tasks))
        if t < 0:
            return taken
        taken += 1
        site, first, last = tasks[t]
        squares[:] = 0.0
        log_likelihood = 0.0
        for begin in range(first, last, BLOCK):
            here = min(BLOCK, last - begin)
            for k in range(K):
                at = (site * K + k) * breadth * breadth
                _densities(u, begin, here, factors, at, constants[site, k], share, k * BLOCK)
            log_likelihood += _responsibilities(share, weights, begin, here)
            for k in range(K):
                for n in range(here):
                    for j in range(breadth):
                        scaled[n, j] = share[k, n] * u[begin + n, j]
                _add_squares(scaled, u, begin, here, squares, k * breadth * breadth)
        for k in range(K):
            n = 0
            for i in range(p + 1):
                for j in range(i, p + 1):
                    sums[t, k, n] = squares[k, i, j]
                    n += 1
        log_likelihoods[t] = log_likelihood
        done(counters)


@compiled(nogil=True)
def _vectors(left: int) -> int:
    """The next tile's breadth, of tiles as even as may be."""
    vectors = left // LANES
    tiles = -(-vectors // BREADTH)
    return -(-vectors // tiles)


@compiled(nogil=True)
def _densities(
    u: NDArray, begin: int, count: int, factors: NDArray, at: int, constant: float, density: NDArray, place: int
) -> None:
    """log(alpha_k phi_k) of a block's rows, a tile of T(x - mu) at a time."""
    breadth = u.shape[1]
    density.ravel()[place : place + count] = constant
    i = 0
    while i < breadth:
        vectors = _vectors(breadth - i)
        depth = min(breadth, i + vectors * LANES + 1)  # below, these columns are zero
        column = (factors, at + i, breadth)
        for n in range(0, count, HEIGHT):
            row, to = (u, (begin + n) * breadth, 1, breadth), (density, place + n)
            if vectors == 3:
                subtract_squares(row, column, depth, to, THREE)
            elif vectors == 2:
                subtract_squares(row, column, depth, to, TWO)
            else:
                subtract_squares(row, column, depth, to, ONE)
        i += vectors * LANES


@compiled(nogil=True, error_model="numpy")
def _responsibilities(share: NDArray, weights: NDArray, begin: int, count: int) -> float:
    """Turn log-densities (K, rows) into responsibilities times row weights; returns the log-likelihood."""
    K = len(share)
    total = 0.0
    for n in range(count):
        top = share[0, n]
        for k in range(1, K):
            top = max(top, share[k, n])
        norm = 0.0
        for k in range(K):
            below = share[k, n] - top
            share[k, n] = 0.0 if below < UNDERFLOW else np.exp(below)
            norm += share[k, n]
        v = weights[begin + n]
        total += v * (top + np.log(norm))
        for k in range(K):
            share[k, n] *= v / norm
    return total


@compiled(nogil=True)
def _add_squares(scaled: NDArray, u: NDArray, begin: int, count: int, squares: NDArray, at: int) -> None:
    """Add the upper triangle of scaled' u."""
    breadth = u.shape[1]
    j = 0
    while j < breadth:
        vectors = _vectors(breadth - j)
        column = (u, begin * breadth + j, breadth)
        for i in range(0, min(breadth, j + vectors * LANES), HEIGHT):
            row, to = (scaled, i, breadth, 1), (squares, at + i * breadth + j, breadth)
            if vectors == 3:
                add_product(row, column, count, to, THREE)
            elif vectors == 2:
                add_product(row, column, count, to, TWO)
            else:
                add_product(row, column, count, to, ONE)
        j += vectors * LANES
