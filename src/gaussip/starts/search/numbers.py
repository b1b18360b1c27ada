"""A pass over numbers of components: each starts from groups of rows, from labels, and by splitting the last.

It always begins at the fewest components there can be, so that what is found for a number does not depend on where
the numbers wanted begin or end.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import StartError, Text
from gaussip.exchange.questions import Replicated
from gaussip.mixture.covariance_types import FULL, named
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta
from gaussip.starts.facts import Facts, ask_classes
from gaussip.starts.lloyd import ask_groups
from gaussip.starts.search.candidates import candidates
from gaussip.starts.search.climb import Climbed, Rule, Steps, best_of
from gaussip.starts.search.moves import split
from gaussip.starts.within import Shared, ask_within

DRAWS = 4  # starts within classes


class Best(NamedTuple):
    """The best mixture of each number of components that was asked for, up to where the pass ended."""

    mixtures: list[Climbed]
    ended: str  #: why the pass ended before the last number; empty if it did not
    covariance_type: str


def over(
    numbers: range,
    facts: Facts,
    seed: int,
    reg: NDArray,
    min_count: int,
    shrinkage: float = 0.0,
    owners: Owners | None = None,
    covariance_type: str = FULL,
    names: Sequence[Any] = (),
    look: Callable[[int], None] = lambda K: None,
) -> Replicated[Best]:
    """The search that all sites run; see `gaussip.starts.search.climb`.

    Parameters
    ----------
    reg : (p,), added to every variance, in standard units
    shrinkage : the share of every covariance taken from the covariance within groups of rows
    owners : the components of each class
    names : of the classes, for messages
    look : called with each K before it is looked at, from the fewest on
    """
    names = tuple(names)
    classes = (yield from ask_classes(facts, min_count)) if facts.class_counts.any() else None
    labelled = 0 if classes is None else int(np.flatnonzero(classes.counts).max(initial=-1)) + 1
    several = owners is not None and not owners.single
    if owners is not None and several:
        labelled = owners.owned
    share = facts.seen / facts.rows if facts.incomplete else 1.0
    kind = named(covariance_type)
    plain = Rule(facts.unit, float(facts.mass), reg, min_count, share=share, covariance_type=kind)

    def best(K: int, fewer: Theta | None) -> Steps:
        look(K)
        rule = plain
        if shrinkage:
            (groups,) = yield from ask_groups(facts, K, seed, min_count)
            rule = plain._replace(shrinkage=shrinkage, target=groups.scatters.sum(axis=0) / groups.counts.sum())
        if owners is not None and several:
            assert classes is not None
            starts, why = [] if fewer is None else [split(fewer, k) for k in range(K - 1)], None
            for draw in range(DRAWS):
                try:
                    theta = yield from ask_within(facts, classes, Shared(owners, K, names), seed + draw, min_count)
                except StartError as error:  # k-means may find the groups from other centres
                    why = error
                else:
                    starts.append(theta)
            if not starts and why is not None:
                raise why
            return (yield from best_of(starts, rule, labelled))
        try:
            grouped = yield from ask_groups(facts, K, seed, min_count, best=False)
        except StartError:
            grouped = []
        starts = candidates(K, grouped, classes, fewer)
        if not starts:
            raise StartError(f"the rows of all sites have no {K} group{'s' * (K > 1)} of at least {min_count} rows")
        return (yield from best_of(starts, rule, labelled))

    mixtures: list[Climbed] = []
    for K in range(max(1, labelled), numbers[-1] + 1):
        try:
            mixtures.append((yield from best(K, mixtures[-1].theta if mixtures else None)))
        except StartError as error:
            found = [one for one in mixtures if len(one.theta.weights) in numbers]
            if not found:
                raise
            ended = Text("no mixture of {K} components was found: {error}", K=K, error=error)
            return Best(found, ended, kind)
    return Best(mixtures[-len(numbers) :], "", kind)
