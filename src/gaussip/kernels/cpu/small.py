"""The small algebra of a round on the CPU, compiled: what is done to K numbers and matrices at every site.

Each function does what array-API code elsewhere does in a dozen calls, whose overhead would exceed the pass over the
rows. Arrays are float64 and contiguous.
"""

from typing import TypeAlias

import numpy as np

from gaussip.arrays import NDArray
from gaussip.kernels.cpu.compiling import compiled
from gaussip.kernels.cpu.exact import is_positive_definite
from gaussip.mixture.theta import n_features

quick = compiled(error_model="numpy")  # short: other threads may wait
CHECKED_FEATURES = float("inf")  # `healthy` serves however many
Arrays: TypeAlias = tuple[NDArray, ...]


def to_theta(psi: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """As `gaussip.mixture.theta.to_theta`."""
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
    """As `gaussip.mixture.validity.healthy`."""
    out = np.empty(means.shape[:-2], dtype=np.bool_)
    _healthy(_by_site(weights, means, covariances), least, out.reshape(-1))
    return out


def _by_site(weights: NDArray, means: NDArray, covariances: NDArray) -> Arrays:
    """A theta with one leading axis, contiguous."""
    K, p = means.shape[-2:]
    parts = (weights.reshape(-1, K), means.reshape(-1, K, p), covariances.reshape(-1, K, p, p))
    return np.ascontiguousarray(parts[0]), np.ascontiguousarray(parts[1]), np.ascontiguousarray(parts[2])


@quick
def _healthy(theta: Arrays, least: float, out: NDArray) -> None:
    weights, means, covariances = theta
    S, K, p = means.shape
    root = np.empty((p, p))
    for s in range(S):
        out[s] = True
        for k in range(K):
            sound = (
                weights[s, k] > least and np.isfinite(weights[s, k]) and is_positive_definite(covariances[s, k], root)
            )
            for i in range(p):
                sound = sound and np.isfinite(means[s, k, i])
            if not sound:
                out[s] = False


def are_mixtures(psi: NDArray, least: float) -> bool:
    """Whether every psi (..., K, f) is a mixture's, as `healthy` says of its theta."""
    K, f = psi.shape[-2:]
    return bool(_are_mixtures(np.ascontiguousarray(psi).reshape(-1, K, f), n_features(f), least))


@quick
def _are_mixtures(psi: NDArray, p: int, least: float) -> bool:
    S, K, _ = psi.shape
    theta = np.empty((S, K)), np.empty((S, K, p)), np.empty((S, K, p, p))
    _to_theta(psi, *theta)
    sound = np.empty(S, dtype=np.bool_)
    _healthy(theta, least, sound)
    return bool(np.all(sound))


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
    """As `gaussip.simulation.history.measure`."""
    *leading, M, K, f = last.shape
    R = int(np.prod(leading))
    now, change, apart = np.empty(last.shape), np.empty(leading), np.empty(leading)
    _measure(
        _by_site(weights, means, covariances), (shift.reshape(R, f), factor.reshape(R, f)), last.reshape(R, M, K, f),
        now.reshape(R, M, K, f), change.reshape(R), apart.reshape(R),
    )  # fmt: skip
    return now, change, apart


@quick
def _standardised(theta: Arrays, shift: NDArray, factor: NDArray, last: NDArray, now: NDArray) -> float:
    """One site's psi in a unit, and its largest move since the last; a NaN stays."""
    weights, means, covariances = theta
    K, p = means.shape
    most = 0.0
    for k in range(K):
        alpha, row = weights[k], now[k]
        row[0] = alpha
        n = 1 + p
        for i in range(p):
            row[1 + i] = (alpha * means[k, i] - alpha * shift[1 + i]) / factor[1 + i]
            for j in range(i, p):
                row[n] = alpha * covariances[k, i, j] / factor[n]
                n += 1
        for n in range(len(row)):
            move = abs(row[n] - last[k, n])
            if move > most or np.isnan(move):
                most = move
    return most


@quick
def _measure(theta: Arrays, unit: Arrays, last: NDArray, now: NDArray, change: NDArray, apart: NDArray) -> None:
    weights, means, covariances = theta
    shift, factor = unit
    R, M, K, f = now.shape
    for r in range(R):
        most = 0.0
        for m in range(M):
            s = r * M + m
            site = weights[s], means[s], covariances[s]
            move = _standardised(site, shift[r], factor[r], last[r, m], now[r, m])
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


def look(
    weights: NDArray,
    means: NDArray,
    covariances: NDArray,
    log_likelihood: NDArray,
    shift: NDArray,
    factor: NDArray,
    last: NDArray,
    number: NDArray,
    seen: NDArray,
    eta: float,
    least: float,
) -> tuple[NDArray, NDArray, NDArray]:
    """As `gaussip.algorithms.stopping` looks at estimates: whether they are mixtures, their psi, and their moves."""
    K, f = last.shape[-2:]
    well, now, after = np.empty(means.shape[:-2], dtype=np.bool_), np.empty(last.shape), np.empty(seen.shape)
    _look(
        _by_site(weights, means, covariances), np.reshape(log_likelihood, -1),
        (shift.reshape(-1, f), factor.reshape(-1, f)), last.reshape(-1, K, f), number.reshape(-1),
        seen.reshape(-1, 2), eta, least, (well.reshape(-1), now.reshape(-1, K, f), after.reshape(-1, 2)),
    )  # fmt: skip
    return well, now, after


@quick
def _look(
    theta: Arrays,
    log_likelihood: NDArray,
    unit: Arrays,
    last: NDArray,
    number: NDArray,
    seen: NDArray,
    eta: float,
    least: float,
    out: Arrays,
) -> None:
    weights, means, covariances = theta
    shift, factor = unit
    well, now, after = out
    _healthy(theta, least, well)
    for s in range(len(well)):
        well[s] = well[s] and np.isfinite(log_likelihood[s])
        move = _standardised((weights[s], means[s], covariances[s]), shift[s], factor[s], last[s], now[s])
        after[s, 0] = seen[s, 0] if well[s] else max(seen[s, 0], number[s])
        after[s, 1] = max(seen[s, 1], move / eta) if well[s] else seen[s, 1]


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
