"""What a fit sends over the network beside its rounds: keys, and the sums that find a start."""

from __future__ import annotations

from typing import Any

from gaussip.algorithms import Algorithm
from gaussip.algorithms.base import SUMS
from gaussip.algorithms.summed import WORDS
from gaussip.exchange.plan import Network
from gaussip.exchange.questions import CHECK, NOTHING, Spent, announced, cost
from gaussip.mixture.theta import width


class Spending:
    """Of one fit.

    Parameters
    ----------
    weights : (M, M) sparse array, W
    """

    def __init__(self, weights: Any) -> None:
        self._network = Network(weights) if weights.shape[0] > 1 else None
        self._sums = NOTHING

    def count(self, words: int) -> None:
        """One sum of so many words."""
        if self._network is not None:
            self._sums = self._sums.plus(cost(self._network, words))

    def before(self, algorithm: Algorithm) -> Spent:
        """What was sent before the first round; a simulation of sums counts their keys itself."""
        if self._network is None or self._sums == NOTHING or algorithm.source == SUMS:
            return self._sums
        return self._sums.plus(announced(self._network))

    def plan(self, algorithm: Algorithm, shape: tuple[int, ...]) -> str:
        """How the sums of a fit of (K, p) means travel."""
        if self._network is None or algorithm.source != SUMS:
            return ""
        K, p = shape
        return str(self._network.plan(K * width(p) + WORDS + CHECK))
