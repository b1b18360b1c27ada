"""One pass over numbers of components: each begun from shared centres, from labels, and by splitting the last."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import StartError, Text
from gaussip.mixture.theta import Theta
from gaussip.starts.search.candidates import candidates
from gaussip.starts.search.climb import Found, Rule, Steps, Totals, best_of
from gaussip.starts.shared import Centres, Classes, common_within

SEEDS = 5  # of k-means over the shared centres, and of centres drawn at random


class Best(NamedTuple):
    """The best mixture of each number of components, and why the pass ended before the last, if it did."""

    found: list[Found]
    ended: str


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
    shared, classes : what all sites know, in standard units
    reg : (p,), added to every variance
    shrinkage : the share of every covariance that is the one within the shared groups
    """
    rule = Rule(reg, shrinkage, common_within(shared) if shrinkage else 0.0)
    labelled = 0 if classes is None else int(np.flatnonzero(classes.counts).max(initial=-1)) + 1
    seeds = [(seed + j) % 2**32 for j in range(SEEDS)]

    def best(K: int, fewer: Theta | None) -> Steps:
        return (yield from best_of(candidates(K, shared, classes, seeds, fewer), rule, labelled))

    def first(K: int) -> Steps:
        """From nothing; where no such start lasts, up to K by splitting."""
        try:
            return (yield from best(K, None))
        except StartError:
            if max(1, labelled) == K:
                raise
        found = yield from best(max(1, labelled), None)
        while len(found.theta.weights) < K:
            found = yield from best(len(found.theta.weights) + 1, found.theta)
        return found

    found = [(yield from first(numbers[0]))]
    for K in numbers[1:]:
        try:
            found.append((yield from best(K, found[-1].theta)))
        except StartError as error:
            return Best(found, Text("no mixture of {K} components was found: {error}", K=K, error=error))
    return Best(found, "")
