"""Sums with noise: each site adds its share to its part, so that no total without noise exists anywhere.

A site counts its part in standard deviations of the noise, in whole multiples of 2^-32. With s honest sites beside
those that read and collude, each adds discrete Gaussian noise of variance 1 / s. How far is the total from a Gaussian
that is rounded to the grid, whose guarantee is accounted for? Compare probabilities, for each number:

- the sum of s discrete Gaussians and one of variance 1 (Kairouz, Liu and Steinke 2021): factors e^(+-tau), with
  tau = 10 sum_(k<s) exp(-2 pi^2 4^32 k / (s (k + 1))), which no computer distinguishes from 1;
- that one and a rounded Gaussian: factors e^(+-t^2 / (20 4^32)), out to t standard deviations.

With t = 40 a million numbers change epsilon by less than 10^-11, and delta by less than 10^-300.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.exchange.codes import Fixed
from gaussip.exchange.questions import Ask, Replicated
from gaussip.privacy.discrete_gaussian import Below, discrete_gaussian

BITS = 32
STEP = 2.0**-BITS


class Noised(NamedTuple):
    """Words of numbers in standard deviations of the noise, with a site's share of it added.

    The last number of a part is its site's place, and no word.
    """

    shares: int
    below_at: Callable[[int], Below]  #: where a site's noise comes from

    def encode(self, values: NDArray, n_sites: int) -> NDArray:
        """Words (..., size); every call draws other noise: a part that was sent must never be made again."""
        words = Fixed(BITS).encode(values[..., :-1], n_sites)
        sigma = math.isqrt(4**BITS // self.shares) + 1
        for row, place in zip(words.reshape(-1, words.shape[-1]), values[..., -1].ravel().tolist(), strict=True):
            below = self.below_at(int(place))
            row += np.array([discrete_gaussian(sigma, below) for _ in row], dtype=np.int64)
        return words

    def decode(self, total: NDArray) -> NDArray:
        """The sums, with noise of variance one."""
        return np.asarray(Fixed(BITS).decode(total))

    def words(self, size: int) -> int:
        """One for each number but the last."""
        return size - 1


class Block(NamedTuple):
    """Numbers of a release of which a row's part has a bounded norm."""

    shape: tuple[int, ...]  #: of the sums
    bound: float  #: the largest Euclidean norm of what one row adds
    share: float  #: of the release's mu^2

    def deviation(self, mu: float) -> float:
        """The standard deviation of the noise in each number, in their own unit."""
        return self.bound / (mu * math.sqrt(self.share))


@dataclass
class Releases:
    """The noisy sums of one fit, and what they add up to.

    Attributes
    ----------
    n_sites, shares : how many sites add noise, and how many of them are enough
    randomness : where it comes from, for the number of a sum and a site's place
    made : the name of each sum, its mu, and how many numbers it has
    """

    n_sites: int
    shares: int
    randomness: Callable[[int, int], Below]
    made: list[tuple[str, float, int]] = field(default_factory=list)

    def ask(
        self, name: str, mu: float, blocks: Sequence[Block], part: Callable[[Any], Sequence[NDArray]]
    ) -> Replicated[list[NDArray]]:
        """The noisy sum of parts: ``part`` gives each block's (M, ...), of which a row adds at most the bound."""
        units = [block.deviation(mu) for block in blocks]

        def scaled(held: Any) -> NDArray:
            given = part(held)
            scaled = [x.reshape(len(x), -1) / unit for x, unit in zip(given, units, strict=True)]
            return np.concatenate([*scaled, np.asarray(held.indices, dtype=float)[:, None]], axis=1)

        sizes = [math.prod(block.shape) for block in blocks]
        rounding = STEP * math.sqrt(sum(sizes))  # a row may change how each number is rounded
        self.made.append((name, mu * math.sqrt(sum(block.share for block in blocks)) + rounding, sum(sizes)))
        total = yield Ask(scaled, Noised(self.shares, partial(self.randomness, len(self.made))))
        parts = np.split(total, np.cumsum(sizes)[:-1])
        return [x.reshape(b.shape) * unit for x, b, unit in zip(parts, blocks, units, strict=True)]

    @property
    def excess(self) -> float:
        """The standard deviation of all sites' noise, in that of the noise that is accounted for."""
        return math.sqrt(self.n_sites / self.shares)
