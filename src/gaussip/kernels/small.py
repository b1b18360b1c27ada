"""The small algebra of a round on the CPU, compiled: what is done to K numbers and matrices at every site.

Each function does what array-API code elsewhere does in a dozen calls, whose overhead would exceed the pass over the
rows. Arrays are float64 and contiguous.
"""

from __future__ import annotations

import numpy as np

from gaussip.arrays import NDArray
from gaussip.kernels.compiling import compiled
from gaussip.parameters import n_features

quick = compiled(error_model="numpy")  # short: other threads may wait


def to_theta(psi: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """As `gaussip.parameters.to_theta`."""
    *leading, K, f = psi.shape
    p = n_features(f)
    weights, means, covariances = np.empty((*leading, K)), np.empty((*leading, K, p)), np.empty((*leading, K, p, p))
    flat = np.ascontiguousarray(psi).reshape(-1, K, f)
    _to_theta(flat, weights.reshape(-1, K), means.reshape(-1, K, p), covariances.reshape(-1, K, p, p))
    return weights, means, covariances


@quick
def _to_theta(psi: NDArray, weights: NDArray, means: NDArray, covariances: NDArray) -> None:
    S, K, p = means.shape
    for s in range(S):
        total = 0.0
        for k in range(K):
            total += psi[s, k, 0]
        for k in range(K):
            alpha = psi[s, k, 0]
            weights[s, k] = alpha / total
            n = 1 + p
            for i in range(p):
                means[s, k, i] = psi[s, k, 1 + i] / alpha
                for j in range(i, p):
                    covariances[s, k, i, j] = covariances[s, k, j, i] = psi[s, k, n] / alpha
                    n += 1


def healthy(weights: NDArray, means: NDArray, covariances: NDArray, least: float) -> NDArray:
    """As `gaussip.collapse.healthy`."""
    *leading, K, p = means.shape
    out = np.empty(leading, dtype=np.bool_)
    parts = (weights.reshape(-1, K), means.reshape(-1, K, p), covariances.reshape(-1, K, p, p))
    _healthy(*map(np.ascontiguousarray, parts), least, out.reshape(-1))
    return out


@quick
def _healthy(weights: NDArray, means: NDArray, covariances: NDArray, least: float, out: NDArray) -> None:
    S, K, p = means.shape
    root = np.empty((p, p))
    for s in range(S):
        out[s] = True
        for k in range(K):
            sound = weights[s, k] > least and np.isfinite(weights[s, k]) and cholesky(covariances[s, k], root)
            for i in range(p):
                sound = sound and np.isfinite(means[s, k, i])
            if not sound:
                out[s] = False


@compiled(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})  # dot products by vectors
def cholesky(matrix: NDArray, root: NDArray) -> bool:
    """The lower triangular Cholesky factor; False where a matrix is not positive definite."""
    for i in range(len(matrix)):
        for j in range(i + 1):
            total = matrix[i, j]
            for m in range(j):
                total -= root[i, m] * root[j, m]
            if i > j:
                root[i, j] = total / root[j, j]
            elif total > 0.0 and total < np.inf:
                root[j, j] = np.sqrt(total)
            else:
                return False
    return True


@compiled(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def inverse_cholesky(matrix: NDArray, root: NDArray, factor: NDArray) -> bool:
    """Upper triangular U with UU' the inverse of a positive definite matrix; False where it is not one.

    ``root`` takes the Cholesky factor L; U = T', T = L^(-1), so that all inner loops run along rows.
    """
    if not cholesky(matrix, root):
        return False
    p = len(matrix)
    for j in range(p):
        factor[j, j] = 1.0 / root[j, j]
        for i in range(j + 1, p):
            total = 0.0
            for m in range(j, i):
                total -= root[i, m] * factor[j, m]
            factor[j, i] = total / root[i, i]
    return True


def measure(
    weights: NDArray, means: NDArray, covariances: NDArray, shift: NDArray, factor: NDArray, last: NDArray
) -> tuple[NDArray, NDArray, NDArray]:
    """As `gaussip.history.measure`."""
    *leading, M, K, f = last.shape
    R = int(np.prod(leading))
    p = n_features(f)
    now, change, apart = np.empty(last.shape), np.empty(leading), np.empty(leading)
    _measure(
        np.ascontiguousarray(weights).reshape(R, M, K), np.ascontiguousarray(means).reshape(R, M, K, p),
        np.ascontiguousarray(covariances).reshape(R, M, K, p, p), shift.reshape(R, f), factor.reshape(R, f),
        last.reshape(R, M, K, f), now.reshape(R, M, K, f), change.reshape(R), apart.reshape(R),
    )  # fmt: skip
    return now, change, apart


@quick
def _measure(
    weights: NDArray,
    means: NDArray,
    covariances: NDArray,
    shift: NDArray,
    factor: NDArray,
    last: NDArray,
    now: NDArray,
    change: NDArray,
    apart: NDArray,
) -> None:
    R, M, K, f = now.shape
    p = means.shape[-1]
    for r in range(R):
        most = 0.0
        for m in range(M):
            for k in range(K):
                alpha, row = weights[r, m, k], now[r, m, k]
                row[0] = alpha
                n = 1 + p
                for i in range(p):
                    row[1 + i] = (alpha * means[r, m, k, i] - alpha * shift[r, 1 + i]) / factor[r, 1 + i]
                    for j in range(i, p):
                        row[n] = alpha * covariances[r, m, k, i, j] / factor[r, n]
                        n += 1
                for n in range(f):
                    move = abs(row[n] - last[r, m, k, n])
                    if move > most or np.isnan(move):  # a NaN stays
                        most = move
        change[r] = most
        total = 0.0
        for k in range(K):
            for n in range(f):
                mean = 0.0
                for m in range(M):
                    mean += now[r, m, k, n]
                mean /= M
                for m in range(M):
                    total += (now[r, m, k, n] - mean) ** 2
        apart[r] = np.sqrt(total / M)


def average(values: NDArray, heard: NDArray, weight: NDArray) -> NDArray:
    """As `gaussip.exchange.Stacked`'s average of values (R, M, size): neighbour by neighbour, in order."""
    out = np.empty(values.shape)
    _average(np.ascontiguousarray(values), heard, weight, out)
    return out


@quick
def _average(values: NDArray, heard: NDArray, weight: NDArray, out: NDArray) -> None:
    R, M, size = values.shape
    for r in range(R):
        for m in range(M):
            for n in range(size):
                out[r, m, n] = weight[0, m] * values[r, heard[0, m], n]
            for slot in range(1, len(heard)):
                for n in range(size):
                    out[r, m, n] += weight[slot, m] * values[r, heard[slot, m], n]
