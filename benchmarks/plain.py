"""The fused pass as one would write it in plain Numba: what the hand-made vectors and threads are measured against.

`PLAIN` are loops over blocks of rows, which Numba compiles with ``parallel=True`` and ``fastmath=True`` (a loop over
single rows is three times slower still). `PRANGE` is gaussip's pass in
vectors, its tasks shared by ``prange`` in place of gaussip's threads. The algebra before and after the pass
is gaussip's in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit, prange

from gaussip.arrays import Array, NDArray
from gaussip.kernels import Kernel
from gaussip.kernels.cpu import few_features
from gaussip.kernels.cpu.fused import scratch_size, sum_rows
from gaussip.kernels.cpu.threads import n_threads
from gaussip.kernels.cpu.vectors import LANES
from gaussip.mixture.theta import Theta, width

TASK = few_features.TASK * LANES  # rows
BLOCK = 64  # rows; their innermost loops are what the compiler can make vectors of


class Laid(NamedTuple):
    """The rows of all sites, one after the other, and the tasks: site, first row, last row."""

    z: NDArray
    tasks: NDArray


def _lay_out(values: Sequence[Array], weights: Sequence[Array] | None, centres: Array) -> Laid:
    if weights is not None:
        raise ValueError("this contender takes rows without weights")
    starts = np.concatenate([[0], np.cumsum([len(x) for x in values])])
    tasks = [
        (m, first, min(first + TASK, starts[m + 1]))
        for m in range(len(values))
        for first in range(starts[m], starts[m + 1], TASK)
    ]
    z = np.concatenate([x - centre for x, centre in zip(values, centres, strict=True)])
    return Laid(z, np.array(tasks))


def _moments(
    laid: Any, theta: Theta, centres: Array, labelled: Array | None, reg_covar: float
) -> tuple[Array, Array]:
    S, K, p = theta.means.shape
    numba.set_num_threads(n_threads())
    theta = Theta(*map(np.ascontiguousarray, theta))
    coefficients, result, log_likelihood = np.empty((S, K, width(p))), np.empty((S, K, width(p))), np.empty(S)
    sums, log_likelihoods = np.zeros((len(laid.tasks), K, width(p))), np.empty(len(laid.tasks))
    _coefficients(*theta, centres, coefficients)
    if isinstance(laid, Laid):
        _rows(laid.z, laid.tasks, coefficients, sums, log_likelihoods)
    else:
        scratch = few_features.aligned(len(sums) * scratch_size(K, p)).reshape(len(sums), -1)
        _vectors(laid.z, laid.tasks, coefficients, scratch, sums, log_likelihoods, laid.features, (0,) * K)
    few_features._finish(
        laid.tasks, sums, log_likelihoods, coefficients, labelled, centres, theta.means, float(reg_covar), result,
        log_likelihood,
    )  # fmt: skip
    return result, log_likelihood


PLAIN = Kernel("plain", _lay_out, _moments)
PRANGE = Kernel("prange", few_features.lay_out, _moments)


@njit(error_model="numpy")
def _coefficients(weights: Any, means: Any, covariances: Any, centres: Any, coefficients: Any) -> None:
    p = means.shape[-1]
    root, factor = np.empty((p, p)), np.empty((p, p))
    for s in range(len(means)):
        few_features._coefficients(
            weights[s], means[s], covariances[s], centres[s], root, factor, coefficients[s]
        )  # fmt: skip


@njit(parallel=True, fastmath=True, error_model="numpy")
def _rows(z: Any, tasks: Any, coefficients: Any, sums: Any, log_likelihoods: Any) -> None:
    _, K, _ = coefficients.shape
    p = z.shape[1]
    for t in prange(len(tasks)):
        site, first, last = tasks[t]
        x, share, line = np.empty((p, BLOCK)), np.empty((K, BLOCK)), np.empty(BLOCK)
        log_likelihood = 0.0
        for begin in range(first, last, BLOCK):
            count = min(BLOCK, last - begin)
            for b in range(count):
                for j in range(p):
                    x[j, b] = z[begin + b, j]
            for k in range(K):
                c = coefficients[site, k]
                share[k, :count] = c[0]
                n = 1 + p
                for i in range(p):
                    line[:count] = c[1 + i]
                    for j in range(i, p):
                        coefficient = c[n]
                        for b in range(count):
                            line[b] += coefficient * x[j, b]
                        n += 1
                    for b in range(count):
                        share[k, b] += line[b] * x[i, b]
            for b in range(count):
                top = share[0, b]
                for k in range(1, K):
                    top = max(top, share[k, b])
                norm = 0.0
                for k in range(K):
                    share[k, b] = np.exp(share[k, b] - top)
                    norm += share[k, b]
                log_likelihood += top + np.log(norm)
                for k in range(K):
                    share[k, b] /= norm
            for k in range(K):
                out = sums[t, k]
                out[0] += share[k, :count].sum()
                n = 1 + p
                for i in range(p):
                    total = 0.0
                    for b in range(count):
                        line[b] = share[k, b] * x[i, b]
                        total += line[b]
                    out[1 + i] += total
                    for j in range(i, p):
                        total = 0.0
                        for b in range(count):
                            total += line[b] * x[j, b]
                        out[n] += total
                        n += 1
        log_likelihoods[t] = log_likelihood


@njit(parallel=True, error_model="numpy")
def _vectors(
    z: Any,
    tasks: Any,
    coefficients: Any,
    scratch: Any,
    sums: Any,
    log_likelihoods: Any,
    features: Any,
    components: Any,
) -> None:
    size = coefficients.shape[1] * coefficients.shape[2]
    for t in prange(len(tasks)):
        site, first, full, rest = tasks[t]
        total = sum_rows(
            z, first, full, coefficients, site * size, None, 0, scratch[t], sums, t * size, features, components
        )
        if rest:
            alone = np.zeros(LANES)
            alone[:rest] = 1.0
            total += sum_rows(
                z,
                first + full,
                1,
                coefficients,
                site * size,
                alone,
                0,
                scratch[t],
                sums,
                t * size,
                features,
                components,
            )
        log_likelihoods[t] = total
