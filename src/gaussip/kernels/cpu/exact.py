"""Algebra that gives the same bits on every processor: sums, products, quotients and square roots in a fixed order.

Libraries choose other instructions on other processors, and so round otherwise. Sites that go on from the same totals
must not. Compiled where Numba is there, and the same loops without it.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gaussip.arrays import NDArray

SWEEPS = 50  # of Jacobi's rotations, at most: they converge quadratically
ROUNDING = 1e-32  # of the squares on the diagonal: what may be left beside it

exactly: Callable[[Any], Any]
try:
    from gaussip.kernels.cpu.compiling import compiled

    exactly = compiled(error_model="numpy")
except ImportError:

    def exactly(function: Any) -> Any:
        """Leave a function as it is."""
        return function


@exactly
def log(x: float) -> float:
    """The natural logarithm of a positive number, the same on every processor (libraries differ in the last bit)."""
    part, exponent = math.frexp(x)
    if part < 0.7071067811865476:
        part, exponent = 2.0 * part, exponent - 1
    u = (part - 1.0) / (part + 1.0)  # at most 0.172 in size: log(part) = 2 artanh(u)
    total = 0.0
    for n in range(23, 0, -2):
        total = total * u * u + 1.0 / n
    return 2.0 * u * total + exponent * 0.6931471805599453


@exactly
def exp(x: float) -> float:
    """The exponential of a number, the same on every processor; NaN of NaN."""
    if not abs(x) < 700.0:
        return np.nan
    exponent = math.floor(x / 0.6931471805599453 + 0.5)
    rest = (x - exponent * 0.693147180369123816490) - exponent * 1.90821492927058770002e-10  # log 2 in two parts
    total = 1.0
    for n in range(17, 0, -1):
        total = 1.0 + total * rest / n
    return math.ldexp(total, exponent)


@exactly
def is_positive_definite(matrix: NDArray, room: NDArray) -> bool:
    """Whether a covariance is positive definite and finite: by its Cholesky factor, which ``room`` takes."""
    for i in range(len(matrix)):
        for j in range(i):
            left = matrix[i, j]
            for n in range(j):
                left -= room[i, n] * room[j, n]
            room[i, j] = left / room[j, j]
        left = matrix[i, i]
        for n in range(i):
            left -= room[i, n] * room[i, n]
        if not (left > 0.0 and left < np.inf):
            return False
        room[i, i] = np.sqrt(left)
    return True


@exactly
def to_axes(matrix: NDArray, lengths: NDArray, axes: NDArray) -> None:
    """The eigenvalues of a symmetric matrix, the largest first, and its eigenvectors in columns."""
    p = len(matrix)
    a, turned = matrix.copy(), np.eye(p)
    _diagonalise(a, turned)
    taken = np.zeros(p)
    for n in range(p):
        largest = -1
        for i in range(p):
            if taken[i] == 0.0 and (largest < 0 or a[i, i] > a[largest, largest]):
                largest = i
        taken[largest] = 1.0
        lengths[n] = a[largest, largest]
        for i in range(p):
            axes[i, n] = turned[i, largest]


@exactly
def longest_axis(matrix: NDArray, axis: NDArray) -> None:
    """Put the longest axis of a covariance, as long as its standard deviation, into ``axis``."""
    p = len(matrix)
    a, axes = matrix.copy(), np.eye(p)
    _diagonalise(a, axes)
    longest = 0
    for i in range(1, p):
        if a[i, i] > a[longest, longest]:
            longest = i
    length = np.sqrt(a[longest, longest])
    for i in range(p):
        axis[i] = length * axes[i, longest]


@exactly
def _diagonalise(a: NDArray, axes: NDArray) -> None:
    """Turn a symmetric matrix into a diagonal one, and the axes with it: Jacobi's rotations."""
    p = len(a)
    for _ in range(SWEEPS):
        beside, along = 0.0, 0.0
        for i in range(p):
            along += a[i, i] * a[i, i]
            for j in range(i):
                beside += a[i, j] * a[i, j]
        if not beside > ROUNDING * along:
            break
        for i in range(p):
            for j in range(i):
                if a[i, j] != 0.0:
                    _rotate(a, axes, i, j)


@exactly
def _rotate(a: NDArray, axes: NDArray, i: int, j: int) -> None:
    """Make the entry (i, j) of a symmetric matrix zero."""
    ratio = (a[j, j] - a[i, i]) / (2.0 * a[i, j])
    tangent = 1.0 / (abs(ratio) + np.sqrt(ratio * ratio + 1.0))
    if ratio < 0.0:
        tangent = -tangent
    cosine = 1.0 / np.sqrt(tangent * tangent + 1.0)
    sine = tangent * cosine
    for n in range(len(a)):
        left, right = a[n, i], a[n, j]
        a[n, i], a[n, j] = cosine * left - sine * right, sine * left + cosine * right
        left, right = axes[n, i], axes[n, j]
        axes[n, i], axes[n, j] = cosine * left - sine * right, sine * left + cosine * right
    for n in range(len(a)):
        left, right = a[i, n], a[j, n]
        a[i, n], a[j, n] = cosine * left - sine * right, sine * left + cosine * right
