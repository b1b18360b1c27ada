"""A pass over numbers of components: each starts from shared centres, from labels, and by splitting the last."""

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import StartError, Text
from gaussip.mixture.theta import Theta
from gaussip.starts.search.candidates import candidates
from gaussip.starts.search.climb import Climbed, Rule, Steps, Totals, best_of
from gaussip.starts.shared import Centres, Classes, common_within

SEEDS = 5  # for k-means over the shared centres, and for centres drawn at random


class Best(NamedTuple):
    """The best mixture of each number of components."""

    mixtures: list[Climbed]
    ended: str  #: why the pass ended before the last number; empty if it did not


def over(
    numbers: range,
    shared: Sequence[Centres],
    classes: Classes | None,
    seed: int,
    reg: NDArray,
    shrinkage: float = 0.0,
) -> Generator[Theta, Totals, Best]:
    """The search that all sites run; see `gaussip.starts.search.climb`.

    Parameters
    ----------
    shared, classes : known to all sites, in standard units
    reg : (p,), added to every variance
    shrinkage : the share of every covariance taken from the covariance within the shared groups
    """
    rule = Rule(reg, shrinkage, common_within(shared) if shrinkage else 0.0)
    labelled = 0 if classes is None else int(np.flatnonzero(classes.counts).max(initial=-1)) + 1
    seeds = [(seed + j) % 2**32 for j in range(SEEDS)]

    def best(K: int, fewer: Theta | None) -> Steps:
        return (yield from best_of(candidates(K, shared, classes, seeds, fewer), rule, labelled))

    def first(K: int) -> Steps:
        """From scratch; if no such start survives, by splitting up to K."""
        try:
            return (yield from best(K, None))
        except StartError:
            if max(1, labelled) == K:
                raise
        mixture = yield from best(max(1, labelled), None)
        while len(mixture.theta.weights) < K:
            mixture = yield from best(len(mixture.theta.weights) + 1, mixture.theta)
        return mixture

    mixtures = [(yield from first(numbers[0]))]
    for K in numbers[1:]:
        try:
            mixtures.append((yield from best(K, mixtures[-1].theta)))
        except StartError as error:
            return Best(mixtures, Text("no mixture of {K} components was found: {error}", K=K, error=error))
    return Best(mixtures, "")
