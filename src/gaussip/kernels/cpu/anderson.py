"""Anderson's acceleration of EM, one step: compiled where Numba is there, and the same loops without it.

Only sums, products, quotients and square roots in a fixed order: every processor gets the same bits, so sites that
hold the same sums go to the same mixture. A mixture's coordinates are a row for each component: its weight, its mean,
and the rows of its covariance's Cholesky factor L up to the diagonal.
"""

from typing import TypeAlias

import numpy as np

from gaussip.arrays import NDArray
from gaussip.kernels.cpu.exact import exactly, log

NEAR = 0.005  # the largest entry of EM's step, in a component's own units, from which on EM is nearly linear
SLACK = 1e-13  # relative rounding of a log-likelihood
INDEPENDENT = 1e-8  # of its length, what a column must keep beside the newer ones
Mixture: TypeAlias = tuple[NDArray, NDArray, NDArray]
Past: TypeAlias = tuple[NDArray, NDArray, NDArray, NDArray, NDArray, NDArray, NDArray, NDArray]


@exactly
def advance(
    past: Past,
    best: Mixture,
    image: Mixture,
    log_likelihood: NDArray,
    towards: NDArray,
    ratio: float,
    following: Mixture,
) -> None:
    """Take in EM's images of the points that were evaluated, replicate by replicate, in place.

    Parameters
    ----------
    past : points (S, m, K, f) and EM's steps from them, how many are held (S,), the last step's length, the
        log-likelihood there, whether the point evaluated now was extrapolated, its coordinates (S, K, f), and what
        the log-likelihood per row may still gain
    best : EM's image of the last point that was not refused; takes the new one
    image : EM's image of the points evaluated now
    log_likelihood : (S,), per row, at those points
    towards, ratio : (S, p, p) and a number, the C and a of `_penalty`
    following : takes the points to evaluate next
    """
    points, steps, held, length, height, bold, at, left = past
    _, m, K, f = points.shape
    reached, step, way = np.empty((K, f)), np.empty((K, f)), np.empty((K, f))
    for s in range(len(held)):
        known = coordinates(image[0][s], image[1][s], image[2][s], reached)
        risen = log_likelihood[s] - height[s]
        if bold[s] and np.isfinite(risen):
            rows, before = best[0][s], points[s, held[s] - 1]
            risen -= _penalty(at[s], rows, towards[s], ratio) - _penalty(before, rows, towards[s], ratio)
        if bold[s] and not (known and risen >= -SLACK * (1.0 + abs(height[s]))):  # nor where it is NaN
            held[s], length[s], bold[s], left[s] = 0, np.inf, False, np.inf
            coordinates(best[0][s], best[1][s], best[2][s], at[s])
            _copy(s, best, following)
            continue
        height[s] = log_likelihood[s]
        _copy(s, image, best)
        _copy(s, image, following)
        bold[s], left[s] = False, np.inf
        if not known:  # the caller sees that a component collapsed
            continue
        if held[s] == m:
            for n in range(m - 1):
                _combine(1.0, points[s, n + 1], 0.0, points[s, n + 1], points[s, n])
                _combine(1.0, steps[s, n + 1], 0.0, steps[s, n + 1], steps[s, n])
            held[s] = m - 1
        if held[s] >= 0:
            _combine(1.0, at[s], 0.0, at[s], points[s, held[s]])
            _combine(1.0, reached, -1.0, at[s], steps[s, held[s]])
        held[s] += 1
        if held[s] > 0:
            _whiten(at[s], steps[s, held[s] - 1], step)
            before, length[s] = length[s], np.sqrt(_product(step, step))
            if held[s] > 1 and length[s] < before and _largest(at[s], step) <= NEAR:
                bold[s] = _extrapolated(points[s], steps[s], held[s], step, reached)
            if bold[s]:  # were EM linear, half the product of its step and the way to its end
                _combine(1.0, reached, -1.0, at[s], way)
                _whiten(at[s], way, way)
                left[s] = 0.5 * _product(step, way)
        _combine(1.0, reached, 0.0, reached, at[s])
        if bold[s]:
            _mixture(reached, following[0][s], following[1][s], following[2][s])


@exactly
def _copy(s: int, mixture: Mixture, to: Mixture) -> None:
    K, p = mixture[1].shape[1:]
    for k in range(K):
        to[0][s, k] = mixture[0][s, k]
        for i in range(p):
            to[1][s, k, i] = mixture[1][s, k, i]
            for j in range(p):
                to[2][s, k, i, j] = mixture[2][s, k, i, j]


@exactly
def _combine(p: float, a: NDArray, q: float, b: NDArray, to: NDArray) -> None:
    """Put p a + q b, of arrays (K, f), where it is wanted."""
    for k in range(a.shape[0]):
        for n in range(a.shape[1]):
            to[k, n] = p * a[k, n] + q * b[k, n]


@exactly
def coordinates(weights: NDArray, means: NDArray, covariances: NDArray, out: NDArray) -> bool:
    """A mixture's coordinates (K, f); False where a covariance is not positive definite."""
    K, p = means.shape
    for k in range(K):
        row = out[k]
        row[0] = weights[k]
        for i in range(p):
            row[1 + i] = means[k, i]
            here = 1 + p + i * (i + 1) // 2
            for j in range(i + 1):
                above = 1 + p + j * (j + 1) // 2
                left = covariances[k, i, j]
                for n in range(j):
                    left -= row[here + n] * row[above + n]
                if j < i:
                    row[here + j] = left / row[above + j]
                elif left > 0.0 and left < np.inf:
                    row[here + j] = np.sqrt(left)
                else:
                    return False
    return True


@exactly
def _mixture(at: NDArray, weights: NDArray, means: NDArray, covariances: NDArray) -> None:
    """The mixture with these coordinates."""
    K, p = means.shape
    for k in range(K):
        row = at[k]
        weights[k] = row[0]
        for i in range(p):
            means[k, i] = row[1 + i]
            here = 1 + p + i * (i + 1) // 2
            for j in range(i + 1):
                above = 1 + p + j * (j + 1) // 2
                total = 0.0
                for n in range(j + 1):
                    total += row[here + n] * row[above + n]
                covariances[k, i, j] = total
                covariances[k, j, i] = total


@exactly
def _whiten(at: NDArray, move: NDArray, out: NDArray) -> None:
    """A move in units in which its length says how much the densities change: Fisher's, at a point."""
    K, f = at.shape
    p = int((np.sqrt(8.0 * f + 1.0) - 3.0) / 2.0 + 0.5)
    columns = np.zeros((p, 1 + p))  # the mean's move, then those of L, all multiplied by L^(-1)
    for k in range(K):
        row, heavy = at[k], np.sqrt(at[k, 0])
        for i in range(p):
            here = 1 + p + i * (i + 1) // 2
            columns[i, 0] = move[k, 1 + i]
            for j in range(i + 1):
                columns[i, 1 + j] = move[k, here + j]
            for n in range(i):
                for j in range(n + 2):
                    columns[i, j] -= row[here + n] * columns[n, j]
            for j in range(i + 2):
                columns[i, j] /= row[here + i]
        out[k, 0] = heavy * (move[k, 0] / row[0])
        for i in range(p):
            here = 1 + p + i * (i + 1) // 2
            out[k, 1 + i] = heavy * columns[i, 0]
            for j in range(i):
                out[k, here + j] = heavy * columns[i, 1 + j]
            out[k, here + i] = heavy * (np.sqrt(2.0) * columns[i, 1 + i])


@exactly
def _penalty(at: NDArray, rows: NDArray, towards: NDArray, ratio: float) -> float:
    """What regularising takes from the log-likelihood: the sum of rows_k (a log|Sigma_k| + tr(Sigma_k^-1 C)) / 2.

    With s the share of shrinkage and T its target, a = s / (1 - s) and C = reg_covar I + a T. For as many rows in
    each component as there are at a point, EM's step from that point raises the log-likelihood less this.
    """
    p, largest = len(towards), ratio
    for i in range(p):
        largest = max(largest, towards[i, i])
    if largest == 0.0:
        return 0.0
    inverse, total = np.zeros((p, p)), 0.0
    for k in range(len(at)):
        row, value = at[k], 0.0
        for i in range(p):
            here = 1 + p + i * (i + 1) // 2
            for j in range(i + 1):
                inverse[i, j] = 1.0 if j == i else 0.0
            for n in range(i):
                for j in range(n + 1):
                    inverse[i, j] -= row[here + n] * inverse[n, j]
            for j in range(i + 1):
                inverse[i, j] /= row[here + i]
            value += 2.0 * ratio * log(row[here + i])
            for j in range(i + 1):
                for n in range(i + 1):
                    value += inverse[i, j] * towards[j, n] * inverse[i, n]
        total += 0.5 * rows[k] * value
    return total


@exactly
def _largest(at: NDArray, step: NDArray) -> float:
    """The largest entry of a whitened step in its component's own units, however light that is."""
    most = 0.0
    for k in range(len(at)):
        for n in range(at.shape[1]):
            most = max(most, abs(step[k, n]) / np.sqrt(at[k, 0]))
    return most


@exactly
def _product(a: NDArray, b: NDArray) -> float:
    """The inner product, one entry after the other."""
    total = 0.0
    for k in range(a.shape[0]):
        for n in range(a.shape[1]):
            total += a[k, n] * b[k, n]
    return total


@exactly
def _extrapolated(points: NDArray, steps: NDArray, held: int, step: NDArray, reached: NDArray) -> bool:
    """Go on from EM's image to where the steps seen would end were EM linear; False where that is no mixture.

    The weights of the columns are those of least squares (modified Gram-Schmidt, the newest column first); columns
    that hardly differ from newer ones are left out.
    """
    m, K, f = points.shape
    basis, upper = np.empty((m, K, f)), np.zeros((m, m))
    chosen, right = np.empty(m, dtype=np.int64), np.empty(m)
    at, n = points[held - 1], 0
    column, rest, towards = np.empty((K, f)), np.empty((K, f)), np.empty((K, f))
    _combine(1.0, step, 0.0, step, rest)
    for j in range(held - 2, -1, -1):
        _combine(1.0, steps[j + 1], -1.0, steps[j], column)
        _whiten(at, column, column)
        whole = np.sqrt(_product(column, column))
        for i in range(n):
            upper[i, n] = _product(basis[i], column)
            _combine(1.0, column, -upper[i, n], basis[i], column)
        left = np.sqrt(_product(column, column))
        if left > INDEPENDENT * whole:
            upper[n, n], chosen[n] = left, j
            _combine(1.0 / left, column, 0.0, column, basis[n])
            right[n] = _product(basis[n], rest)
            _combine(1.0, rest, -right[n], basis[n], rest)
            n += 1
    _combine(1.0, reached, 0.0, reached, towards)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            right[i] -= upper[i, j] * right[j]
        right[i] /= upper[i, i]
        j = chosen[i]
        _combine(1.0, points[j + 1], -1.0, points[j], column)
        _combine(1.0, towards, -right[i], column, towards)
        _combine(1.0, steps[j + 1], -1.0, steps[j], column)
        _combine(1.0, towards, -right[i], column, towards)
    return _to_mixture(towards, reached) and n > 0


@exactly
def _to_mixture(towards: NDArray, out: NDArray) -> bool:
    """Coordinates with weights that sum to one; False, and nothing is done, where they are no mixture's."""
    K, f = towards.shape
    p = int((np.sqrt(8.0 * f + 1.0) - 3.0) / 2.0 + 0.5)
    total = 0.0
    for k in range(K):
        total += towards[k, 0]
        if not towards[k, 0] > 0.0:
            return False
        for i in range(p):
            if not towards[k, 1 + p + i * (i + 1) // 2 + i] > 0.0:
                return False
    for k in range(K):
        out[k, 0] = towards[k, 0] / total
        for n in range(1, f):
            out[k, n] = towards[k, n]
    return True
