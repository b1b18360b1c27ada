"""A site's whole run as a machine: give out a message, take in what was heard, until it is over.

It does not know what carries the messages, or whether it was interrupted: its memory is a tree of arrays and numbers
that can be written down after any exchange and put back.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from gaussip.algorithms import Site
from gaussip.algorithms.site import site_facts
from gaussip.arrays import NDArray
from gaussip.errors import CollapseError, GaussipError, StartError
from gaussip.exchange import Message
from gaussip.mixture.theta import Theta
from gaussip.mixture.validity import REMEDY
from gaussip.phases import survey
from gaussip.phases.basis import Agreement
from gaussip.phases.collapse_report import TOLD, explained, is_lost
from gaussip.phases.information import Informing
from gaussip.phases.masked_sums import SECRET
from gaussip.phases.start_search import Searching
from gaussip.phases.state import CENTRES, FACTS, FIT, INTERVALS, REDUCE, SEARCH, Agreed, Begin, Fitted
from gaussip.phases.task import Own, Task
from gaussip.rows.basis import Basis
from gaussip.rows.moments import Shrinkage, mean_covariance, prepared
from gaussip.rows.rows import Rows
from gaussip.selection import Selection
from gaussip.starts.search.standard import unit_of_extents


class Program:
    """One site's run.

    Parameters
    ----------
    begin : for a run that goes on from a checkpoint, in place of what would be agreed on
    secret : of the site, the same whenever the run goes on; for sums of which no site learns another's part
    """

    def __init__(
        self, task: Task, index: int, own: Own, begin: Begin | None = None, secret: bytes | None = None
    ) -> None:
        self.task, self.index = task, index
        self._own, self._begin = own, begin
        self._secret = secret or os.urandom(SECRET)
        self.new_sum: NDArray | None = None  #: of the last exchange, if it ended a sum
        self.selection: Selection | None = None  #: what a search led to
        self.exchanges = 0  #: so far
        self._reduced = 0  # exchanges before the survey
        self.basis: Basis | None = None
        self._machine: Agreement | Searching | Informing | None = None  # of the present phase
        self.phase = REDUCE
        if task.wanted is not None and begin is None:
            counts = slice(None) if own.weights is None else own.weights > 0  # what does not count is not told
            self._machine = Agreement(own.X[counts], index, task.wanted)
            self.memory: Any = self._machine.memory
        else:
            self._begin_survey(None if begin is None else begin.basis)
        self.agreed: Agreed | None = None
        self.over = False
        self.converged = False
        self.failure: CollapseError | None = None
        self._fault: CollapseError | None = None  # of this site, if it had one
        self.log_likelihood = float("nan")  #: of the site's own rows, mean per unit of row weight
        self._last: tuple[Message, Message] | None = None

    @property
    def round(self) -> int:
        """Rounds of the fit so far."""
        if self.phase == INTERVALS:
            return self._fitted.round
        return 0 if self.agreed is None else self.exchanges - self.agreed.exchanges

    @property
    def room(self) -> int:
        """Bytes that the memory may grow to in this phase; zero where it keeps its size."""
        if self.phase == REDUCE and self.task.wanted is not None:
            return self.task.wanted.room
        return 4 * self.task.longest_message if self.phase in (SEARCH, INTERVALS) else 0

    def resume_reducing(self, memory: Any) -> None:
        """Go on agreeing on a basis from a memory that was kept."""
        assert isinstance(self._machine, Agreement)
        self._machine.resume(memory)
        self.memory = memory

    def resume_reduced(self, basis: Basis, exchanges: int) -> None:
        """Go on after the basis was agreed on, in so many exchanges."""
        self._reduced = exchanges
        self._begin_survey(basis)

    def _begin_survey(self, basis: Basis | None) -> None:
        """Rows in the basis, if there is one; the site's facts."""
        if basis is not None:
            self.basis, self._machine = basis, None
            self._own = self._own._replace(X=basis.reduced(self._own.X))
            self.task = self.task._replace(n_features=len(basis.variances))
        self._described = self.task
        self._rows = self._laid_out(self._own.X)
        piece = survey.facts_piece(self._own, self._rows)
        self.memory = (survey.table_of(piece, self.index, len(self.task.sites)),)
        self.phase = FACTS

    def message(self) -> Message:
        """What the neighbours get."""
        if self.phase == FIT:
            return self.task.algorithm.message(self.memory)
        return {"max": self.memory[-1]} if self._machine is None else self._machine.message()

    def check(self, message: Message) -> bool:
        """Whether a neighbour can have sent this."""
        if self.phase == FIT:
            check = getattr(self.task.algorithm, "check", None)
            return check is None or bool(check(message, self.memory))
        if self._machine is not None:
            return self._machine.check(message)
        return survey.can_be_told(message["max"], self.memory[-1])

    def absorb(self, own: Message, heard: Message) -> None:
        """One exchange: what was sent, and what was heard, combined."""
        self.exchanges += 1
        self._last, self.new_sum = (own, heard), None
        if self.phase == FIT:
            self._one_round(heard)
            return
        if isinstance(self._machine, Agreement):
            self._machine.absorb(heard)
            self.memory = self._machine.memory
            if self._machine.basis is not None:
                self.resume_reduced(self._machine.basis, self.exchanges)
            return
        if isinstance(self._machine, Searching):
            self._one_sum(self._machine, heard)
            return
        if self._machine is not None:
            self._machine.absorb(heard)
            self.memory = self._fitted._replace(summing=self._machine.memory)
            self.new_sum, self.over = self._machine.new_sum, self._machine.over
            return
        *known, table = self.memory
        self.memory = (*known, np.maximum(table, heard["max"]))
        if (self.exchanges - self._reduced) % self.task.diameter == 0:
            self._next_phase()

    def _next_phase(self) -> None:
        facts = survey.facts_of(self.memory[0], self.task)
        if self._begin is None and self.phase == FACTS and self.task.start in ("kmeans", "search"):
            piece = survey.centres_piece(self._own, facts.spread, self.task)
            self.memory = (self.memory[0], survey.table_of(piece, self.index, len(self.task.sites)))
            self.phase = CENTRES
            return
        if self.phase == CENTRES and self.task.start == "search":
            self._begin_search(*self.memory)
            return
        centres = self.memory[1] if self.phase == CENTRES else None
        try:
            begin = self._begin.start if self._begin is not None else survey.start_of(facts, centres, self.task)
        except GaussipError:
            raise
        except ValueError as error:
            raise StartError(f"no start can be made of what the sites told: {error}") from error
        target = self._begin.target if self._begin is not None else mean_covariance(begin)
        self.begin_fit(Agreed(self.memory[0], begin, target, self.exchanges))

    def _begin_search(self, facts: NDArray, centres: NDArray) -> None:
        known = survey.facts_of(facts, self.task)
        self._machine = Searching(self.task, self.index, self._rows, known, centres, self._secret)
        self.memory, self.phase = (facts, centres, self._machine.memory), SEARCH

    def resume_search(self, memory: Any, totals: Sequence[NDArray]) -> None:
        """Go on searching from a memory that was kept, after so many sums."""
        self._begin_search(*memory[:2])
        assert isinstance(self._machine, Searching)
        self._machine.resume(memory[2], totals)
        self.memory = memory

    def _one_sum(self, machine: Searching, heard: Message) -> None:
        """One exchange of a search."""
        machine.absorb(heard)
        self.new_sum, self.selection = machine.new_sum, machine.found
        if self.selection is None:
            self.memory = (*self.memory[:2], machine.memory)
            return
        self._machine, start = None, self.selection.theta
        self.begin_fit(Agreed(self.memory[0], start, mean_covariance(start), self.exchanges))

    def begin_fit(self, agreed: Agreed) -> None:
        """The State before the first round."""
        if len(agreed.start.weights) != self.task.n_components:  # fewer than the most that were looked at
            self.task = self.task._replace(n_components=len(agreed.start.weights))
            self._rows = self._laid_out(self._own.X)
        if self.task.unlabelled_weight == 0:
            classes = survey.facts_of(agreed.facts, self._described).classes
            if classes is None or not (classes.counts > 0).all():
                raise StartError(
                    "with unlabelled_weight = 0 only labelled rows count, and not every component has some at any "
                    "site: label some, or agree on a larger weight"
                )
        begin, target = agreed.start, agreed.target
        if self.task.scale:
            self._unit = unit_of_extents(survey.facts_of(agreed.facts, self._described).extents)
            self._rows = self._laid_out(self._unit.standard_rows(self._own.X))
            begin = self._unit.standard_theta(begin)
            target = target / self._unit.squares
        facts = site_facts(agreed.facts[:, 0].copy(), self.task.W, self.task.weighting)
        shrinkage = Shrinkage(self.task.shrinkage, target) if self.task.shrinkage else None
        self._measure = prepared(self._rows, self.task.n_components, self.task.reg_covar, shrinkage)
        self.memory = self.task.algorithm.init(begin, Site(*(part[self.index, ...] for part in facts)))
        self.agreed, self.phase = agreed, FIT

    def _laid_out(self, X: NDArray) -> Rows:
        labels, weights = self._own.labels, self._own.weights
        return Rows.of_sites(
            [X], None if labels is None else [labels], None if weights is None else [weights], self.task.n_components,
            unlabelled_weight=self.task.unlabelled_weight,
        ).site(0)  # fmt: skip

    def _one_round(self, heard: Message) -> None:
        algorithm: Any = self.task.algorithm
        with np.errstate(all="ignore"):  # a component that collapses divides by zero
            state, theta = algorithm.absorb(self.memory, heard)
            if theta is not None:
                found = self._measure(theta)
                self.memory = algorithm.update(state, found)
                self.log_likelihood = float(found.log_likelihood / found.mass)
                if self.memory.seen[0] > 0:
                    self._fault = (
                        explained(self.task, self.index, state, theta, self._measure, self.round) or self._fault
                    )
                fault = int(algorithm.known_fault(self.memory))
                if fault:
                    mine = self._fault if fault - 1 == self.index else None
                    self.failure = mine or CollapseError(self.task.sites[fault - 1], None, self.round, TOLD, REMEDY)
                self.converged = bool(algorithm.known_move(self.memory) <= self.task.tol)
            else:
                self.memory = state
        if self.round >= self.task.max_rounds and self._fault is not None and is_lost(self.task, self.memory):
            self.failure = self.failure or self._fault  # the others will not hear of it any more
        self.over = self.failure is not None or self.converged or self.round >= self.task.max_rounds
        if self.converged and self.failure is None and self.task.intervals != "none":  # the same at all sites
            self.over = False
            self._machine = self._informing()
            told = (self.round, self.log_likelihood, self.disagreement)
            self.memory, self.phase = Fitted(self.memory, *told, self._machine.memory), INTERVALS

    def _informing(self) -> Informing:
        assert self.agreed is not None
        unit = unit_of_extents(survey.facts_of(self.agreed.facts, self._described).extents)
        mass = float(self.agreed.facts[:, 0].sum())
        return Informing(self.task, self.index, self._own, self.estimate(), unit, mass, self._secret)

    def resume_intervals(self, memory: Fitted, totals: Sequence[NDArray]) -> None:
        """Go on summing the information from a memory that was kept, after so many sums."""
        self.memory, self.phase, self.converged = memory, INTERVALS, True
        self.log_likelihood = memory.log_likelihood
        self._machine = self._informing()
        self._machine.resume(memory.summing, totals)

    @property
    def informing(self) -> Informing | None:
        """What was summed after the fit, if it was."""
        return self._machine if isinstance(self._machine, Informing) else None

    @property
    def change(self) -> float:
        """The largest move at any site that all know of, infinite before they do."""
        algorithm: Any = self.task.algorithm
        return float(algorithm.known_move(self._state)) if self.phase >= FIT else float("inf")

    @property
    def _fitted(self) -> Fitted:
        assert isinstance(self.memory, Fitted)
        return self.memory

    @property
    def _state(self) -> Any:
        """The algorithm's, in the fit and after it."""
        return self._fitted.state if self.phase == INTERVALS else self.memory

    @property
    def disagreement(self) -> float:
        """How far the site is from what it heard last, in parts of its own numbers: the largest over features."""
        if self.phase == INTERVALS:
            return self._fitted.disagreement
        if self.phase != FIT or self._last is None or "mean" not in self._last[0]:
            return float("nan")
        own, heard = (message["mean"] for message in self._last)
        size = np.sqrt(np.mean(own * own, axis=0))
        apart = np.sqrt(np.mean((heard - own) ** 2, axis=0))
        return float(np.max(apart[size > 0] / size[size > 0], initial=0.0))

    def estimate(self) -> Theta:
        """The site's mixture, in the units of the table."""
        if self.phase < FIT:
            raise RuntimeError("there is no estimate before the first round")
        theta = self.task.algorithm.estimate(self._state)
        return self._unit.original_theta(theta) if self.task.scale else theta
