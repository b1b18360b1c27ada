"""What sites agree on before the first round: how many rows there are, and where to start; all by sums."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms.base import SUMS
from gaussip.arrays import NDArray
from gaussip.errors import StartError
from gaussip.exchange.questions import Replicated
from gaussip.mixture.theta import Theta, in_bytes, width
from gaussip.phases.base import Context
from gaussip.phases.summing import Computation, chain_of, held_by
from gaussip.phases.task import Task
from gaussip.rows.moments import mean_covariance
from gaussip.selection.components import Selection, refuse_range
from gaussip.starts.agreed import Wish, ask_start, confirmed
from gaussip.starts.facts import (
    COUNTS,
    PRECISE,
    Facts,
    ask_facts,
    ask_pairs,
    refuse_few_labelled,
    refuse_few_unlabelled,
)
from gaussip.starts.lloyd import SEEDS
from gaussip.starts.search import over


class Agreed(NamedTuple):
    """Where all sites start."""

    weights: NDArray  #: in the units of the table, or of the basis
    means: NDArray
    covariances: NDArray
    target: NDArray  #: (p, p), what shrinkage draws covariances towards, in the same units

    @property
    def theta(self) -> Theta:
        """The start as a mixture."""
        return Theta(self.weights, self.means, self.covariances)

    @classmethod
    def at(cls, theta: Theta) -> Agreed:
        """Starting there, with its own mean covariance as the target."""
        return cls(*theta, mean_covariance(theta))


class FactsPhase(Computation):
    """How many rows all sites have, and where the features lie."""

    name = "facts"
    doing = "counting"

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> FactsPhase | None:
        """Where anything depends on it: masked, from a given start without labels, needs nothing."""
        task = context.task
        located = task.scale or (context.resumed is None and isinstance(task.start, str))
        if not (located or task.needs_mass or task.n_classes):
            return None
        asked = _ask_facts(task, located)
        return cls(context, results, asked, held_by(context), most_words_of_facts(task))


def _ask_facts(task: Task, located: bool) -> Replicated[Facts]:
    facts = yield from ask_facts(task.n_features, task.n_classes, located, task.min_count, task.features)
    refuse_few_labelled(facts, task.min_count, task.classes)
    if task.algorithm.source == SUMS:
        refuse_few_unlabelled(facts, task.min_count)
    facts = yield from ask_pairs(facts)
    owned = 0 if task.owners is None else task.owners.owned
    if task.unlabelled_weight == 0 and not (owned == task.n_components and (facts.class_counts > 0).all()):
        raise StartError(
            "with unlabelled_weight = 0 only labelled rows count, and not every component has some at any "
            "site: label some, or agree on a larger weight"
        )
    return facts


class StartPhase(Computation):
    """The start, and the number of components where it is to be chosen."""

    name = "start"

    def __init__(self, context: Context, results: dict[str, Any]) -> None:
        task, facts = context.task, results["facts"]
        self.selection: Selection | None = None
        self.doing = "searching" if task.start == "search" else "finding a start"
        asked = self._searched(task, facts) if task.start == "search" else _ask_start(task, facts)
        super().__init__(context, results, asked, held_by(context), most_words_of_start(task))

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> StartPhase | None:
        """Where the start is neither given nor a checkpoint's."""
        start = context.task.start
        if context.resumed is None and isinstance(start, str):
            return cls(context, results)
        resumed = context.resumed
        if resumed is not None:
            agreed = Agreed(*resumed.start, resumed.target)
        else:
            assert isinstance(start, Theta)
            agreed = Agreed.at(start)
        results["start"] = agreed
        if resumed is None or context.task.algorithm.replicated:  # gossip goes on from each site's own
            results["chain"] = chain_of(context, results).after(in_bytes(agreed.theta))
        return None

    def _searched(self, task: Task, facts: Facts) -> Replicated[Agreed]:
        first, last = task.numbers[0], task.numbers[-1]
        if first < last:
            kind = task.algorithm.covariance_type
            refuse_range(first, last, float(facts.rows), task.n_features, (kind,))
        scale = 1.0 if task.scale else facts.spread  # in which reg_covar is meant
        reg = task.reg_covar / (scale * np.ones(task.n_features)) ** 2
        best = yield from over(
            task.numbers, facts, task.seed, reg, task.min_count, task.shrinkage, task.owners,
            task.algorithm.covariance_type, task.classes,
        )  # fmt: skip
        self.selection = selection = Selection.of([best], facts.unit, task.criterion, task.features)
        place = 0
        if task.at_least is not None:
            selection.refuse_degenerate()
            place = selection.best
        return Agreed.at((yield from confirmed(best.mixtures[place].theta, facts.unit)))


def _ask_start(task: Task, facts: Facts) -> Replicated[Agreed]:
    assert isinstance(task.start, str)
    wish = Wish(task.start, task.n_components, task.seed, task.min_count, task.owners, task.classes)
    return Agreed.at((yield from ask_start(facts, wish)))


def most_words_of_facts(task: Task) -> int:
    """The words of the longest question about facts."""
    return COUNTS.words(2 + task.n_classes + width(task.n_features))


def most_words_of_start(task: Task) -> int:
    """The words of the longest question about a start."""
    K, p = task.n_components, task.n_features
    return PRECISE.words(max(SEEDS * (K * (width(p) + p) + 1), K * p * p))
