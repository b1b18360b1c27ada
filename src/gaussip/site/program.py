"""A site's whole run as a machine: give out a message, take in what was heard, until it is over.

It does not know what carries the messages, or whether it was interrupted: its memory is a tree of arrays and numbers
that can be written down after any exchange and put back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms import Site
from gaussip.algorithms.together import Together
from gaussip.arrays import NDArray
from gaussip.collapse import REMEDY, collapse_error, healthy
from gaussip.errors import CollapseError, GaussipError, StartError
from gaussip.exchange import Message
from gaussip.moments import Shrinkage, mean_covariance, prepared
from gaussip.parameters import Theta
from gaussip.preprocessing.agreement import Agreement
from gaussip.preprocessing.basis import Basis
from gaussip.rows import Rows
from gaussip.simulation import site_facts
from gaussip.site import survey
from gaussip.site.task import Own, Task
from gaussip.start import location_and_spread

REDUCE, FACTS, CENTRES, FIT = range(-1, 3)


class Agreed(NamedTuple):
    """What the survey ends with; the first round needs nothing else of it."""

    facts: NDArray  #: (M, size)
    start: Theta  #: in the units of the table, or of the basis
    target: NDArray  #: (p, p), what covariances are drawn towards, in the same units


class Begin(NamedTuple):
    """What a run begins with that goes on from another's checkpoint."""

    start: Theta  #: the site's own
    target: NDArray  #: the first run's
    basis: Basis | None  #: the first run's


class Program:
    """One site's run.

    Parameters
    ----------
    begin : for a run that goes on from a checkpoint, in place of what would be agreed on
    """

    def __init__(self, task: Task, index: int, own: Own, begin: Begin | None = None) -> None:
        self.task, self.index = task, index
        self._own, self._begin = own, begin
        self.exchanges = 0  #: so far
        self._reduced = 0  # exchanges before the survey
        self.basis: Basis | None = None
        self._agreement: Agreement | None = None
        self.phase = REDUCE
        if task.wanted is not None and begin is None:
            counts = slice(None) if own.weights is None else own.weights > 0  # what does not count is not told
            self._agreement = Agreement(own.X[counts], index, task.wanted)
            self.memory: Any = self._agreement.memory
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
        return max(0, self.exchanges - self._surveyed)

    @property
    def _surveyed(self) -> int:
        survey = self.task.diameter if self._begin is not None else self.task.survey_rounds
        return self._reduced + survey if self.phase != REDUCE else self.exchanges

    @property
    def room(self) -> int:
        """Bytes that the memory may grow to in this phase; zero where it keeps its size."""
        return self.task.wanted.room if self.phase == REDUCE and self.task.wanted is not None else 0

    def resume_reducing(self, memory: Any) -> None:
        """Go on agreeing on a basis from a memory that was kept."""
        assert self._agreement is not None
        self._agreement.resume(memory)
        self.memory = memory

    def resume_reduced(self, basis: Basis, exchanges: int) -> None:
        """Go on after the basis was agreed on, in so many exchanges."""
        self._reduced = exchanges
        self._begin_survey(basis)

    def _begin_survey(self, basis: Basis | None) -> None:
        """Rows in the basis, if there is one; the site's facts."""
        if basis is not None:
            self.basis, self._agreement = basis, None
            self._own = self._own._replace(X=basis.reduced(self._own.X))
            self.task = self.task._replace(n_features=len(basis.variances))
        self._rows = self._laid_out(self._own.X)
        piece = survey.facts_piece(self._own, self._rows)
        self.memory = (survey.table_of(piece, self.index, len(self.task.sites)),)
        self.phase = FACTS

    def message(self) -> Message:
        """What the neighbours get."""
        if self.phase == FIT:
            return self.task.algorithm.message(self.memory)
        return {"max": self.memory[-1]} if self._agreement is None else self._agreement.message()

    def check(self, message: Message) -> bool:
        """Whether a neighbour can have sent this."""
        if self.phase == FIT:
            check = getattr(self.task.algorithm, "check", None)
            return check is None or bool(check(message, self.memory))
        if self._agreement is not None:
            return self._agreement.check(message)
        return survey.can_be_told(message["max"], self.memory[-1])

    def absorb(self, own: Message, heard: Message) -> None:
        """One exchange: what was sent, and what was heard, combined."""
        self.exchanges += 1
        self._last = (own, heard)
        if self.phase == FIT:
            self._one_round(heard)
            return
        if self._agreement is not None:
            self._agreement.absorb(heard)
            self.memory = self._agreement.memory
            if self._agreement.basis is not None:
                self.resume_reduced(self._agreement.basis, self.exchanges)
            return
        *known, table = self.memory
        self.memory = (*known, np.maximum(table, heard["max"]))
        if (self.exchanges - self._reduced) % self.task.diameter == 0:
            self._next_phase()

    def _next_phase(self) -> None:
        facts = survey.facts_of(self.memory[0], self.task)
        if self._begin is None and self.phase == FACTS and self.task.start == "kmeans":
            piece = survey.centres_piece(self._own, facts.spread, self.task)
            self.memory = (self.memory[0], survey.table_of(piece, self.index, len(self.task.sites)))
            self.phase = CENTRES
            return
        centres = self.memory[1] if self.phase == CENTRES else None
        try:
            begin = self._begin.start if self._begin is not None else survey.start_of(facts, centres, self.task)
        except GaussipError:
            raise
        except ValueError as error:
            raise StartError(f"no start can be made of what the sites told: {error}") from error
        target = self._begin.target if self._begin is not None else mean_covariance(begin)
        self.begin_fit(Agreed(self.memory[0], begin, target))

    def begin_fit(self, agreed: Agreed) -> None:
        """The State before the first round."""
        if self.task.unlabelled_weight == 0:
            classes = survey.facts_of(agreed.facts, self.task).classes
            if classes is None or not (classes.counts > 0).all():
                raise StartError(
                    "with unlabelled_weight = 0 only labelled rows count, and not every component has some at any "
                    "site: label some, or agree on a larger weight"
                )
        begin, target = agreed.start, agreed.target
        if self.task.scale:
            self._location, self._spread = location_and_spread(survey.facts_of(agreed.facts, self.task).extents)
            self._rows = self._laid_out((self._own.X - self._location) / self._spread)
            squares = self._spread[:, None] * self._spread
            begin = Theta(begin.weights, (begin.means - self._location) / self._spread, begin.covariances / squares)
            target = target / squares
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
        ).one(0)  # fmt: skip

    def _one_round(self, heard: Message) -> None:
        algorithm: Any = self.task.algorithm
        with np.errstate(all="ignore"):  # a component that collapses divides by zero
            state, theta = algorithm.absorb(self.memory, heard)
            if theta is not None:
                found = self._measure(theta)
                self.memory = algorithm.update(state, found)
                self.log_likelihood = float(found.log_likelihood / found.mass)
                if self.memory.seen[0] > 0:
                    self._fault = self._explain(state, theta) or self._fault
                fault = int(algorithm.known_fault(self.memory))
                if fault:
                    self.failure = self._failed(fault - 1)
                self.converged = bool(algorithm.known_move(self.memory) <= self.task.tol)
            else:
                self.memory = state
        if self.round >= self.task.max_rounds and self._fault is not None and self._is_lost():
            self.failure = self.failure or self._fault  # the others will not hear of it any more
        self.over = self.failure is not None or self.converged or self.round >= self.task.max_rounds

    def _is_lost(self) -> bool:
        """Whether a collapse here is not over: not told to all yet, or without a way back."""
        pending = max(self.memory.seen[0], self.memory.told[0]) > 0
        lost = not bool(healthy(self.task.algorithm.estimate(self.memory)))
        return lost or (pending and isinstance(self.task.algorithm, Together))

    def _explain(self, state: Any, theta: Theta) -> CollapseError | None:
        """Which component of this site collapsed, and why."""
        inner = getattr(self.task.algorithm, "algorithm", self.task.algorithm)
        inside = getattr(state, "inner", state)
        tried = [theta, inner.estimate(inner.update(inside, self._measure(theta)))]
        if callable(getattr(inside, "theta", None)):  # exact, which goes back before it gives up
            tried.append(inside.theta(inside.x))
        for one in tried:
            if not healthy(one):
                whole = Theta(*(part[None] for part in one))
                return collapse_error(self.round, [self.task.sites[self.index]], whole, np.array([True]))
        return None

    def _failed(self, index: int) -> CollapseError:
        """The error that all sites end with; the site concerned knows more of it than the others."""
        if index == self.index and self._fault is not None:
            return self._fault
        told = "it told all sites, which stopped together"
        return CollapseError(self.task.sites[index], None, self.round, told, REMEDY)

    @property
    def change(self) -> float:
        """The largest move at any site that all know of, infinite before they do."""
        algorithm: Any = self.task.algorithm
        return float(algorithm.known_move(self.memory)) if self.phase == FIT else float("inf")

    @property
    def disagreement(self) -> float:
        """How far the site is from what it heard last, in parts of its own numbers: the largest over features."""
        if self.phase != FIT or self._last is None or "mean" not in self._last[0]:
            return float("nan")
        own, heard = (message["mean"] for message in self._last)
        size = np.sqrt(np.mean(own * own, axis=0))
        apart = np.sqrt(np.mean((heard - own) ** 2, axis=0))
        return float(np.max(apart[size > 0] / size[size > 0], initial=0.0))

    def estimate(self) -> Theta:
        """The site's mixture, in the units of the table."""
        if self.phase != FIT:
            raise RuntimeError("there is no estimate before the first round")
        theta = self.task.algorithm.estimate(self.memory)
        if not self.task.scale:
            return theta
        squares = self._spread[:, None] * self._spread
        return Theta(theta.weights, theta.means * self._spread + self._location, theta.covariances * squares)
