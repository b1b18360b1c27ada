"""Whole numbers with a discrete Gaussian distribution, exactly (Canonne, Kamath and Steinke 2020).

No floating-point number takes part, so no rounding betrays what the noise was added to (Mironov 2012). All randomness
comes from a function that gives uniform whole numbers below a limit: by default from the operating system.
"""

from __future__ import annotations

import os
from collections.abc import Callable

BUFFER = 64  # bytes

Below = Callable[[int], int]  #: a uniform whole number from 0 up to, not including, a limit


def discrete_gaussian(sigma: int, below: Below) -> int:
    """A whole number z with probability proportional to exp(-z^2 / (2 sigma^2)), for a whole sigma of at least 1."""
    t, variance = sigma + 1, sigma * sigma
    while True:
        z = _discrete_laplace(t, below)
        apart = abs(z) * t - variance
        if _exp_of(apart * apart, 2 * variance * t * t, below):
            return z


def _discrete_laplace(t: int, below: Below) -> int:
    """A whole number z with probability proportional to exp(-|z| / t)."""
    while True:
        rest = below(t)
        if not _exp_below_one(rest, t, below):
            continue
        whole = 0
        while _exp_below_one(1, 1, below):
            whole += 1
        size, negative = rest + t * whole, below(2)
        if size or not negative:  # zero counts once
            return -size if negative else size


def _exp_of(numerator: int, denominator: int, below: Below) -> bool:
    """True with probability exp(-numerator / denominator)."""
    while numerator > denominator:
        if not _exp_below_one(1, 1, below):
            return False
        numerator -= denominator
    return _exp_below_one(numerator, denominator, below)


def _exp_below_one(numerator: int, denominator: int, below: Below) -> bool:
    """The same for numbers of at most one: by the alternating series of exp, a factor at a time."""
    factor = 1
    while below(denominator * factor) < numerator:
        factor += 1
    return factor % 2 == 1


class SystemRandomness:
    """Uniform whole numbers from the operating system's randomness, read many bytes at a time."""

    def __init__(self) -> None:
        self._bits, self._left = 0, 0

    def __call__(self, limit: int) -> int:
        """A number from 0 up to, not including, the limit."""
        size = (limit - 1).bit_length()
        while True:
            if self._left < size:
                taken = max(BUFFER, size // 8 + 1)
                self._bits, self._left = int.from_bytes(os.urandom(taken), "little"), 8 * taken
            number = self._bits & ((1 << size) - 1)
            self._bits, self._left = self._bits >> size, self._left - size
            if number < limit:
                return number
