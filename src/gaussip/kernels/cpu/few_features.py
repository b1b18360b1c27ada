"""The hot function on the CPU for few features: compiled by Numba at its first use, and kept on disk.

Rows are laid out as vectors: LANES rows side by side, feature by feature. A site's rows are cut into tasks of a fixed
size, whose sums are added in order, so that neither the number of threads nor the sites beside it change a bit of
its result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gaussip.arrays import Array, NDArray
from gaussip.kernels.cpu import threads
from gaussip.kernels.cpu.compiling import compiled
from gaussip.kernels.cpu.fused import scratch_size, sum_rows
from gaussip.kernels.cpu.small import inverse_cholesky
from gaussip.kernels.cpu.threads import another, done, take
from gaussip.kernels.cpu.vectors import LANES
from gaussip.mixture.theta import Theta, width

TASK = 256  # vectors
ALIGN = 64  # bytes: a vector that lies across two lines of the cache is read twice


class Workspace(NamedTuple):
    """What threads share during a pass: kept, so that helpers find every pass in the same place."""

    rooms: tuple[NDArray, ...]  #: of the calling thread
    team: threads.Team
    weights: NDArray  #: theta, (S, K)
    means: NDArray  #: (S, K, p)
    covariances: NDArray  #: (S, K, p, p)
    coefficients: NDArray  #: (S, K, f)
    sums: NDArray  #: of each task, (T, K, f)
    log_likelihoods: NDArray  #: (T,)

    @classmethod
    def of(cls, n_sites: int, n_components: int, n_features: int, n_tasks: int) -> Workspace:
        """Empty arrays of these sizes."""
        S, K, p, f = n_sites, n_components, n_features, width(n_features)
        shapes = ((S, K), (S, K, p), (S, K, p, p), (S, K, f), (n_tasks, K, f), (n_tasks,))
        return cls(_rooms(K, p), threads.Team(), *map(np.empty, shapes))


class Laid(NamedTuple):
    """The rows of S sites."""

    z: NDArray  #: (vectors, p, LANES) in one piece, rows minus their centre; zeros fill up a site's last vector
    weights: NDArray | None  #: (vectors, LANES), zero where there is no row
    tasks: NDArray  #: (T, 4): site, first vector, full vectors, rows beyond them
    features: tuple[int, ...]  #: p zeros
    workspaces: dict[int, Workspace]  #: by the number of components


def aligned(size: int) -> NDArray:
    """Zeros that begin at a line of the cache."""
    room = np.zeros(size + ALIGN // 8)
    first = -room.ctypes.data % ALIGN // 8
    return room[first : first + size]


def lay_out(values: Sequence[Array], weights: Sequence[Array] | None, centres: Array) -> Laid:
    """Copy the rows of all sites into vectors."""
    p = centres.shape[-1]
    lengths = [len(x) for x in values]
    vectors = [-(-n // LANES) for n in lengths]
    starts = np.concatenate([[0], np.cumsum(vectors)])
    z = aligned(int(starts[-1]) * p * LANES)
    v = None if weights is None else aligned(int(starts[-1]) * LANES)
    tasks = []
    for m, x in enumerate(values):
        _into_vectors(x, centres[m], z, starts[m] * p * LANES)
        if v is not None and weights is not None:
            v[starts[m] * LANES : starts[m] * LANES + lengths[m]] = weights[m]
        for first in range(0, max(1, vectors[m]), TASK):  # a site without unlabelled rows has a task too
            rows = min(lengths[m] - first * LANES, TASK * LANES)
            # with weights, those of zero fill the last vector
            full, rest = divmod(rows, LANES) if v is None else (-(-rows // LANES), 0)
            tasks.append((m, starts[m] + first, full, rest))
    return Laid(z, v, np.array(tasks, dtype=np.int64).reshape(-1, 4), (0,) * p, {})


@compiled(nogil=True)
def _into_vectors(x: NDArray, centre: NDArray, z: NDArray, at: int) -> None:
    n, p = x.shape
    for i in range(n):
        group = at + (i // LANES) * p * LANES + i % LANES
        for j in range(p):
            z[group + j * LANES] = x[i, j] - centre[j]


def moments(
    laid: Laid, theta: Theta, centres: Array, labelled: Array | None, reg_covar: float
) -> tuple[Array, Array]:
    """The coefficients, the pass over the rows by all threads, and the moments from its sums."""
    S, K, p = theta.means.shape
    n_tasks = len(laid.tasks)
    if K not in laid.workspaces:
        laid.workspaces[K] = Workspace.of(S, K, p, n_tasks)
    space = laid.workspaces[K]
    if not space.team.lock.acquire(blocking=False):  # another thread of the caller is at these rows
        space = Workspace.of(S, K, p, n_tasks)
        space.team.lock.acquire()
    try:
        for mine, given in zip((space.weights, space.means, space.covariances), theta, strict=True):
            np.copyto(mine, given)
        arrays = (laid.z, laid.weights, laid.tasks, centres, *space[2:], laid.features, (0,) * K)

        def work(looks: int) -> int:
            rooms = _rooms(K, p) if looks else space.rooms  # helpers have their own
            return int(_sums(space.team.counters, looks, *arrays, *rooms))

        space.team.share(work, n_tasks, threads.helpers_for(n_tasks, len(laid.z) * width(p) * K))
        result, log_likelihood = np.empty((S, K, width(p))), np.empty(S)
        _finish(
            laid.tasks, space.sums, space.log_likelihoods, space.coefficients, labelled, centres, space.means,
            float(reg_covar), result, log_likelihood,
        )  # fmt: skip
    except BaseException:  # interrupted: a helper may still be at work on these arrays, so nobody else shall be
        laid.workspaces.pop(K, None)
        raise
    finally:
        space.team.lock.release()
    return result, log_likelihood


def _rooms(n_components: int, n_features: int) -> tuple[NDArray, ...]:
    """What one thread works in: root, factor, coefficients of a site, scratch memory and a vector's row weights.

    Made in Python: compiled code without Python's lock must not ask Python for memory.
    """
    K, p = n_components, n_features
    square = (p, p)
    return (np.empty(square), np.empty(square), np.empty((K, width(p))), aligned(scratch_size(K, p)), np.empty(LANES))


@compiled(nogil=True, error_model="numpy")
def _sums(
    counters: NDArray,
    looks: int,
    z: NDArray,
    row_weights: NDArray | None,
    tasks: NDArray,
    centres: NDArray,
    weights: NDArray,
    means: NDArray,
    covariances: NDArray,
    coefficients: NDArray,
    sums: NDArray,
    log_likelihoods: NDArray,
    features: tuple[int, ...],
    components: tuple[int, ...],
    root: NDArray,
    factor: NDArray,
    mine: NDArray,
    scratch: NDArray,
    alone: NDArray,
) -> int:
    """Take tasks until none is left, and count them: sums of responsibilities times features, and log-likelihoods."""
    size = coefficients.shape[1] * coefficients.shape[2]
    last = -1
    taken = 0
    while True:
        piece, t = take(counters, len(tasks))
        if t < 0:
            if another(counters, piece, looks):
                last = -1
                continue
            return taken
        taken += 1
        site, first, full, rest = tasks[t]
        if site != last:
            _coefficients(weights[site], means[site], covariances[site], centres[site], root, factor, mine)
            last = site
        if t == 0 or tasks[t - 1, 0] != site:
            for k in range(len(mine)):  # an array assigned to another would be copied first, in case they overlap
                for n in range(mine.shape[1]):
                    coefficients[site, k, n] = mine[k, n]
        to = t * size
        sums[t] = 0.0
        log_likelihood = sum_rows(
            z, first, full, mine, 0, row_weights, first * LANES, scratch, sums, to, features, components
        )
        if rest:  # the last vector of a site, filled up by rows that count nothing
            alone[:] = 0.0
            alone[:rest] = 1.0
            log_likelihood += sum_rows(z, first + full, 1, mine, 0, alone, 0, scratch, sums, to, features, components)
        log_likelihoods[t] = log_likelihood
        done(counters)


@compiled(nogil=True, error_model="numpy")
def _coefficients(
    weights: NDArray,
    means: NDArray,
    covariances: NDArray,
    centre: NDArray,
    root: NDArray,
    factor: NDArray,
    coefficients: NDArray,
) -> None:
    """As `gaussip.kernels.array.algebra.log_density_coefficients` at one site; NaN where a component is not one."""
    K, p = means.shape
    for k in range(K):
        c = coefficients[k]
        if not weights[k] > 0.0 or not inverse_cholesky(covariances[k], root, factor):
            c[:] = np.nan
            continue
        c[0] = np.log(weights[k]) - 0.5 * p * math.log(2 * math.pi)
        for i in range(p):
            c[0] += np.log(factor[i, i])
            c[1 + i] = 0.0
        n = 1 + p
        for i in range(p):
            for j in range(i, p):
                precision = 0.0  # UU', U upper triangular
                for m in range(j, p):
                    precision += factor[i, m] * factor[j, m]
                c[1 + i] += precision * (means[k, j] - centre[j])
                if i != j:
                    c[1 + j] += precision * (means[k, i] - centre[i])
                c[n] = -precision if i != j else -0.5 * precision
                n += 1
        for i in range(p):
            c[0] -= 0.5 * c[1 + i] * (means[k, i] - centre[i])


@compiled(error_model="numpy")
def _finish(
    tasks: NDArray,
    sums: NDArray,
    log_likelihoods: NDArray,
    coefficients: NDArray,
    labelled: NDArray | None,
    centres: NDArray,
    means: NDArray,
    reg_covar: float,
    result: NDArray,
    log_likelihood: NDArray,
) -> None:
    """As `gaussip.kernels.array.algebra.moments_of_sums`, of the tasks' sums added in order."""
    S, K, p = means.shape
    result[:] = 0.0
    log_likelihood[:] = 0.0
    for t in range(len(tasks)):
        result[tasks[t, 0]] += sums[t]
        log_likelihood[tasks[t, 0]] += log_likelihoods[t]
    apart = np.empty(p)
    for s in range(S):
        for k in range(K):
            row = result[s, k]
            if labelled is not None:
                for n in range(len(row)):
                    row[n] += labelled[s, k, n]
                    log_likelihood[s] += labelled[s, k, n] * coefficients[s, k, n]
            for j in range(p):
                apart[j] = means[s, k, j] - centres[s, j]
            n = 1 + p
            for i in range(p):
                for j in range(i, p):
                    cross = apart[i] * row[1 + j] + apart[j] * row[1 + i]
                    row[n] += row[0] * (apart[i] * apart[j]) - cross
                    if i == j:
                        row[n] += reg_covar * row[0]
                    n += 1
            for j in range(p):
                row[1 + j] += row[0] * centres[s, j]
