"""The search for a start, and for the number of components: all sites sum at the same mixtures, and find the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.mixture.theta import Theta
from gaussip.phases.base import Context
from gaussip.phases.masked_sums import SumsPhase
from gaussip.phases.survey import centres_of, facts_of, rows_of
from gaussip.rows.moments import Moments, prepared
from gaussip.selection.components import Selection, refuse_range
from gaussip.starts.search import Best, Totals, over, part_of
from gaussip.starts.search.standard import standard_centres, standard_classes, unit_of_extents


class StartSearch(SumsPhase):
    """The search that all sites run, from the same facts and sums."""

    name = "search"
    doing = "searching"

    def __init__(self, context: Context, results: dict[str, Any]) -> None:
        super().__init__(context)
        self._task, task = context.task, context.task
        self._rows = rows_of(context.local, task, task.n_components)
        facts = facts_of(results["survey"].pieces, task)
        self._unit = unit = unit_of_extents(facts.extents)
        first, last = task.numbers[0], task.numbers[-1]
        if first < last:
            refuse_range(first, last, float(facts.extents.mass.sum()), task.n_features)
        shared = [standard_centres(site, unit) for site in centres_of(results["centres"].pieces, task)]
        classes = None if facts.classes is None else standard_classes(facts.classes, unit)
        scale = 1.0 if task.scale else unit.spread  # in which reg_covar is meant
        reg = task.reg_covar / (scale * np.ones(task.n_features)) ** 2
        self._search = over(task.numbers, shared, classes, task.seed, reg, task.shrinkage)
        self._measures: dict[int, Callable[[Theta], Moments]] = {}
        self._theta = next(self._search)
        self._best: Best | None = None

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> StartSearch | None:
        """Where a search is asked for."""
        if context.resumed is not None or context.task.start != "search":
            return None
        return cls(context, results)

    @property
    def over(self) -> bool:
        """Whether the best mixture is known."""
        return self._best is not None

    @property
    def selection(self) -> Selection:
        """What the search leads to."""
        assert self._best is not None
        return Selection.of(self._best, self._unit, self._task.criterion)

    @property
    def result(self) -> Theta:
        """The best mixture of the number of components that was chosen."""
        return self.selection.theta

    def _part(self) -> NDArray:
        K = len(self._theta.weights)
        if K not in self._measures:
            labelled = None if self._rows.labelled is None else self._rows.labelled[:K]
            self._measures = {K: prepared(replace(self._rows, labelled=labelled), K, 0.0)}
        with np.errstate(all="ignore"):  # a component that collapses divides by zero
            moments = self._measures[K](self._unit.original_theta(self._theta))
            return part_of(moments, self._unit, len(self._task.sites))

    def _take(self, total: NDArray) -> None:
        try:
            self._theta = self._search.send(Totals.of(total, len(self._theta.weights)))
        except StopIteration as end:
            self._best = end.value
