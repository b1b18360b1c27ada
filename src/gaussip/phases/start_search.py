"""A site's part in a search: its sums at one theta after the other, and what all sites find in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gaussip.arrays import NDArray
from gaussip.mixture.theta import Theta
from gaussip.phases import survey
from gaussip.phases.masked_sums import Series, Summing
from gaussip.phases.survey import Facts
from gaussip.phases.task import Task
from gaussip.rows.moments import Moments, prepared
from gaussip.rows.rows import Rows
from gaussip.selection.components import Selection, refuse_range
from gaussip.starts.search import Best, Totals, over, part_of
from gaussip.starts.search.standard import standard_centres, standard_classes, unit_of_extents


class Searching(Series):
    """The search that all sites run, from the same facts and sums.

    Parameters
    ----------
    rows : the site's own
    centres : (M, size), what all sites told for a start
    """

    def __init__(self, task: Task, index: int, rows: Rows, facts: Facts, centres: NDArray, secret: bytes) -> None:
        self._task, self._rows = task, rows
        super().__init__(Summing(secret, "search", index, len(task.sites), task.diameter))
        self._unit = unit_of_extents(facts.extents)
        first, last = task.numbers[0], task.numbers[-1]
        if first < last:
            refuse_range(first, last, float(facts.extents.mass.sum()), task.n_features)
        shared = [standard_centres(site, self._unit) for site in survey.shared_of(centres, task)]
        classes = None if facts.classes is None else standard_classes(facts.classes, self._unit)
        unit = 1.0 if task.scale else self._unit.spread  # in which reg_covar is meant
        reg = task.reg_covar / (unit * np.ones(task.n_features)) ** 2
        self._search = over(task.numbers, shared, classes, task.seed, reg, task.shrinkage)
        self._measures: dict[int, Callable[[Theta], Moments]] = {}
        self._theta = next(self._search)
        self._best: Best | None = None

    @property
    def over(self) -> bool:
        """Whether the best mixture is known."""
        return self._best is not None

    def _part(self) -> NDArray:
        K = len(self._theta.weights)
        if K not in self._measures:
            labelled = None if self._rows.labelled is None else self._rows.labelled[:K]
            self._measures = {K: prepared(replace(self._rows, labelled=labelled), K, 0.0)}
        with np.errstate(all="ignore"):  # a component that collapses divides by zero
            found = self._measures[K](self._unit.original_theta(self._theta))
            return part_of(found, self._unit, len(self._task.sites))

    def _take(self, total: NDArray) -> None:
        try:
            self._theta = self._search.send(Totals.of(total, len(self._theta.weights)))
        except StopIteration as end:
            self._best = end.value

    @property
    def found(self) -> Selection | None:
        """What the search led to; None while it goes on."""
        if self._best is None:
            return None
        return Selection.of(self._best, self._unit, self._task.criterion)
