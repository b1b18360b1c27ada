"""The fit at one site by gossip: rounds, until all sites have settled, one has failed, or the rounds run out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms import Info
from gaussip.algorithms.base import SUMS, finish_round
from gaussip.algorithms.site import site_facts_at
from gaussip.arrays import NDArray
from gaussip.errors import CollapseError
from gaussip.exchange import Message, Outgoing
from gaussip.mixture.theta import Theta, broadcast, width
from gaussip.mixture.units import Unit
from gaussip.mixture.validity import REMEDY, collapse_error, healthy
from gaussip.phases.base import Context, Phase
from gaussip.phases.task import Task
from gaussip.rows.moments import Shrinkage, prepared
from gaussip.rows.rows import Rows

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
    mass: float  #: of all sites' rows

    @property
    def theta(self) -> Theta:
        """The site's mixture."""
        return Theta(np.asarray(self.weights), np.asarray(self.means), np.asarray(self.covariances))


class Laid(NamedTuple):
    """What a fit is made from, in standard units where the sites scale their features."""

    rows: Rows  #: (1,), the site's
    start: Theta
    shrinkage: Shrinkage | None
    unit: Unit | None  #: of the features; None where they keep their units

    @classmethod
    def of(cls, context: Context, results: dict[str, Any]) -> Laid:
        """From what all sites agreed on."""
        task, local, agreed = context.task, context.local, results["start"]
        start, target, unit = agreed.theta, agreed.target, None
        if task.scale:
            unit = results["facts"].unit
            local = local._replace(X=unit.standard_rows(local.X))
            start, target = unit.standard_theta(start), target / unit.squares
        shrinkage = Shrinkage(task.shrinkage, target) if task.shrinkage else None
        return cls(local.rows(task, len(start.weights)), start, shrinkage, unit)

    def original(self, theta: Theta) -> Theta:
        """A mixture in the units of the table."""
        return theta if self.unit is None else self.unit.original_theta(theta)


class Fit(Phase):
    """The rounds of one site."""

    name = "fit"
    doing = "fitting"

    def __init__(self, context: Context, results: dict[str, Any]) -> None:
        task = self._task = context.task
        self._index, self._near, self._algorithm = context.index, context.near, context.task.algorithm
        self._laid = laid = Laid.of(context, results)
        K = len(laid.start.weights)  # a search may have chosen fewer than the most that were looked at
        self._measure = prepared(laid.rows.site(0), K, task.reg_covar, laid.shrinkage)
        mass, self._mass = float(laid.rows.mass[0]), float(results["facts"].mass)
        place = site_facts_at(context.index, mass, task.W, task.weighting, self._mass)
        state = self._algorithm.init(laid.start, place)
        self.memory = Memory(state, 0, 0, float("nan"))
        self.longest = most_bytes(task)
        self._collapse: CollapseError | None = None  # at this site, if there was one
        self._info: Info | None = None
        self._sent: Message = {}
        self._received: Message = {}

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> Fit | None:
        """Where the algorithm gossips."""
        return None if context.task.algorithm.source == SUMS else cls(context, results)

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
    def round(self) -> int:
        """Rounds so far."""
        return int(self.memory.round)

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
            self.disagreement, float(info.step), int(info.restarts), self._mass,
        )  # fmt: skip

    def outgoing(self) -> Outgoing:
        """The algorithm's message, to all who receive from the site."""
        self._sent = self._algorithm.message(self.memory.state)
        return self._near.gossip(self._sent)

    def fault(self, sender: int, message: Message) -> str:
        """What the algorithm cannot have sent."""
        sound = self._algorithm.check(message, self.memory.state)
        return "" if sound else "the algorithm cannot have sent such numbers"

    def absorb(self, received: Mapping[int, Message]) -> None:
        """One round."""
        heard = self._near.combine(self._sent, received)
        before, self._received, failed = self.memory, heard, bool(self.info.failing)
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
        if "mean" not in self._received:
            return float("nan")
        sent, heard = self._sent["mean"], self._received["mean"]
        size = np.sqrt(np.mean(sent * sent, axis=0))
        apart = np.sqrt(np.mean((heard - sent) ** 2, axis=0))
        return float(np.max(apart[size > 0] / size[size > 0], initial=0.0))

    def estimate(self) -> Theta:
        """The site's mixture, in the units of the table."""
        return self._laid.original(self._algorithm.estimate(self.memory.state))


def most_bytes(task: Task) -> int:
    """Bytes that no message of gossip exceeds: a few vectors, or the list of who receives from whom."""
    M = len(task.sites)
    return 8 * int(M * (M // 24 + 2) + 4 * task.n_components * width(task.n_features)) + 1024
