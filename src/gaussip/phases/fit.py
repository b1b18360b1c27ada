"""The fit at one site: rounds, until all sites have settled, one has failed, or the rounds run out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms import Info
from gaussip.algorithms.base import finish_round
from gaussip.algorithms.site import Site, site_facts
from gaussip.arrays import NDArray
from gaussip.errors import CollapseError, StartError
from gaussip.exchange import Message
from gaussip.mixture.theta import Theta, broadcast
from gaussip.mixture.validity import REMEDY, collapse_error, healthy
from gaussip.phases.base import Context, Phase
from gaussip.phases.survey import Agreed, agreed_start, facts_of, rows_of
from gaussip.rows.moments import Shrinkage, prepared
from gaussip.starts.search.standard import unit_of_extents

ELSEWHERE = "all sites stopped together"  #: what a site knows of a collapse at another


class Memory(NamedTuple):
    """Where the fit stands."""

    state: Any  #: the algorithm's
    round: int
    passes: int  #: over the rows: some algorithms take several rounds for one
    log_likelihood: float  #: of the site's own rows, mean per unit of row weight


class Fitted(NamedTuple):
    """What the fit ends with at one site."""

    weights: NDArray  #: in the units of the table
    means: NDArray
    covariances: NDArray
    converged: bool
    rounds: int
    passes: int
    log_likelihood: float
    change: float  #: the largest move at any site that all know of
    disagreement: float
    step: float  #: in force at the end
    restarts: int

    @property
    def theta(self) -> Theta:
        """The site's mixture."""
        return Theta(np.asarray(self.weights), np.asarray(self.means), np.asarray(self.covariances))


class Fit(Phase):
    """The rounds of one site."""

    name = "fit"
    doing = "fitting"

    def __init__(self, context: Context, agreed: Agreed) -> None:
        self._task, self._index = context.task, context.index
        start, target, local = agreed.start, agreed.target, context.local
        n_components = len(start.weights)  # a search may have chosen fewer than the most that were looked at
        facts = facts_of(agreed.pieces, self._task)
        if self._task.unlabelled_weight == 0 and (facts.classes is None or not (facts.classes.counts > 0).all()):
            raise StartError(
                "with unlabelled_weight = 0 only labelled rows count, and not every component has some at any "
                "site: label some, or agree on a larger weight"
            )
        if self._task.scale:
            self._unit = unit_of_extents(facts.extents)
            local = local._replace(X=self._unit.standard_rows(local.X))
            start, target = self._unit.standard_theta(start), target / self._unit.squares
        shrinkage = Shrinkage(self._task.shrinkage, target) if self._task.shrinkage else None
        rows = rows_of(local, self._task, n_components)
        self._measure = prepared(rows, n_components, self._task.reg_covar, shrinkage)
        self._algorithm = self._task.algorithm
        places = site_facts(facts.mass, self._task.W, self._task.weighting)
        state = self._algorithm.init(start, Site(*(part[self._index, ...] for part in places)))
        self.memory = Memory(state, 0, 0, float("nan"))
        self.failure: CollapseError | None = None  #: that ended the fit at all sites
        self._collapse: CollapseError | None = None  # at this site, if there was one
        self._info: Info | None = None
        self._sent: Message = {}
        self._heard: Message = {}

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> Fit:
        """From what all sites agreed on."""
        if "start" not in results:
            results["start"] = agreed_start(context, results)
        return cls(context, results["start"])

    @property
    def info(self) -> Info:
        """What the algorithm's State says."""
        if self._info is None:
            self._info = self._algorithm.info(self.memory.state)
        return self._info

    @property
    def change(self) -> float:
        """The largest move at any site that all know of, infinite before they do."""
        settled = self.info.settled
        assert settled is not None
        return float(settled)

    @property
    def converged(self) -> bool:
        """Whether all sites know that none moves by more than tol."""
        return self.memory.passes > 0 and self.change <= self._task.tol

    @property
    def over(self) -> bool:
        """In the same round at all sites."""
        return self.failure is not None or self.converged or self.memory.round >= self._task.max_rounds

    @property
    def result(self) -> Fitted:
        """The estimate, and how the fit ended."""
        memory, info = self.memory, self.info
        return Fitted(
            *self.estimate(), self.converged, memory.round, memory.passes, memory.log_likelihood, self.change,
            self.disagreement, float(info.step), int(info.restarts),
        )  # fmt: skip

    def message(self) -> Message:
        """The algorithm's."""
        self._sent = self._algorithm.message(self.memory.state)
        return self._sent

    def check(self, message: Message) -> bool:
        """The algorithm's."""
        return bool(self._algorithm.check(message, self.memory.state))

    def absorb(self, heard: Message) -> None:
        """One round."""
        before, self._heard, failed = self.memory, heard, bool(self.info.failing)
        number = before.round + 1
        with np.errstate(all="ignore"):  # a component that collapses divides by zero
            state, step = finish_round(self._algorithm, before.state, heard, self._measure)
            self.memory = before._replace(state=state, round=number)
            self._info = None if step is None else step.info
            if step is not None:
                moments, info = step.moments, step.info
                height = float(moments.log_likelihood / moments.mass)
                self.memory = self.memory._replace(passes=before.passes + 1, log_likelihood=height)
                if info.failing and (self._collapse is None or not failed):
                    self._collapse = self._explained(before.state, heard, number) or self._collapse
                if fault := int(info.fault):
                    here = self._collapse if fault - 1 == self._index else None
                    self.failure = here or CollapseError(self._task.sites[fault - 1], None, number, ELSEWHERE, REMEDY)
        if number >= self._task.max_rounds and self._collapse is not None and self._lost():
            self.failure = self.failure or self._collapse  # no further round reaches the others

    def _lost(self) -> bool:
        """Whether the collapse at this site is not over: not all know of it yet, or there is no way back."""
        return bool(self.info.pending) or not bool(healthy(self._algorithm.estimate(self.memory.state)))

    def _explained(self, state: Any, heard: Message, number: int) -> CollapseError | None:
        """The collapse at this site, if a component did, in the round that takes this in."""
        state, theta = self._algorithm.absorb(state, heard)
        assert theta is not None
        for suspect in (theta, self._algorithm.attempt(state, self._measure(theta))):
            if not healthy(suspect):
                site = [self._task.sites[self._index]]
                return collapse_error(number, site, broadcast(suspect, (1,)), np.array([True]))
        return None

    @property
    def disagreement(self) -> float:
        """How far the site is from its neighbours' average, relative to its own numbers: the largest of features."""
        if "mean" not in self._heard:
            return float("nan")
        sent, heard = self._sent["mean"], self._heard["mean"]
        size = np.sqrt(np.mean(sent * sent, axis=0))
        apart = np.sqrt(np.mean((heard - sent) ** 2, axis=0))
        return float(np.max(apart[size > 0] / size[size > 0], initial=0.0))

    def estimate(self) -> Theta:
        """The site's mixture, in the units of the table."""
        theta = self._algorithm.estimate(self.memory.state)
        return self._unit.original_theta(theta) if self._task.scale else theta
