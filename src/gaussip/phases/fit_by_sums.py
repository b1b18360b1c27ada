"""The fit at one site by sums: every site takes the same steps from the same totals."""

from __future__ import annotations

from typing import Any

import numpy as np

from gaussip.algorithms.base import SUMS, Info
from gaussip.algorithms.masked import Masked, State, support_error
from gaussip.algorithms.site import site_facts
from gaussip.algorithms.summed import LIMBS, Counted, Pooled, Summed, scarce, size_of
from gaussip.arrays import NDArray
from gaussip.errors import CollapseError
from gaussip.exchange.questions import Ask
from gaussip.mixture.theta import Theta, broadcast, to_psi, width
from gaussip.mixture.units import measure, unit_of_start
from gaussip.mixture.validity import collapse_error, healthy
from gaussip.phases.base import Context
from gaussip.phases.fit import Fitted, Laid
from gaussip.phases.summing import SumsPhase, held_by
from gaussip.phases.task import Task
from gaussip.rows.held import Held
from gaussip.rows.moments import Moments, moments


class FitBySums(SumsPhase):
    """The rounds of one site; each is one pass over its rows and one sum, or two where rows are counted first."""

    name = "fit"
    doing = "fitting"

    def __init__(self, context: Context, results: dict[str, Any]) -> None:
        task = self._task = context.task
        super().__init__(context, results, most_words(task))
        assert isinstance(task.algorithm, Masked)
        self._algorithm = task.algorithm
        self._laid, self._rows = Laid.of(context, results), held_by(context)
        self._counting = True  # whether the present question is how many rows each component has
        self._in_limbs = False  # whether it is asked for the second time
        self._found: Moments | None = None  # the site's, at the present mixture
        K, p = self._laid.start.means.shape
        one = np.ones(1)  # what the rows of one site are in a simulation
        self._rule = Moments(one, np.zeros((1, K, width(p))), one, task.reg_covar, self._laid.shrinkage)
        begin = broadcast(self._laid.start, (1,))
        self.state: State = self._algorithm.init(begin, site_facts(one, np.ones((1, 1)), "equal"))
        self.change = float("inf")  #: EM's last step, the same at all sites
        self._unit = unit_of_start(begin)
        self._psi = self._unit.standard(to_psi(begin))

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> FitBySums | None:
        """Where the algorithm sums."""
        return cls(context, results) if context.task.algorithm.source == SUMS else None

    def _held(self) -> Held:
        return self._rows

    def _ask(self) -> Ask:
        if self._counting:
            return Counted.ask(self.state.inner.theta, self._moments)
        return self._summed().ask(self._moments)

    def _moments(self, held: Held) -> Moments:
        if self._found is None:
            with np.errstate(all="ignore"):  # a component that collapses divides by zero
                _, theta = self._algorithm.absorb(self.state, {})
                laid = self._laid
                self._found = moments(laid.rows, theta, self._task.reg_covar, shrinkage=laid.shrinkage)
        return self._found

    def _summed(self) -> Summed:
        return self._algorithm.summed(self.state)._replace(in_limbs=self._in_limbs)

    def _take(self, total: NDArray) -> None:
        pooled = self._counted(total) if self._counting else self._pooled(total)
        if pooled is None:
            return
        self._in_limbs, self._found = False, None
        with np.errstate(all="ignore"):
            self.state = self._algorithm.step(self.state, pooled, self._rule)
        if bool(self.info.short):
            raise self._short(self.round, np.asarray(self.info.support))
        reached = self._algorithm.estimate(self.state)
        if not bool(healthy(reached)[0]):
            raise collapse_error(self.round, [None], reached, np.array([True]))
        self._psi, move, _ = measure(reached, self._unit, self._psi)
        self.change = float(np.asarray(move if self.info.change is None else self.info.change))
        weights, support = self.state.inner.theta.weights, self.state.support
        self._counting = scarce(weights, self.state.mass, self._algorithm.min_count, support)

    def _counted(self, total: NDArray) -> Pooled | None:
        """None where there are enough rows: their moments are asked for next."""
        counted = Counted.of(total, self._laid.start.means.shape[1])
        if not counted.short(self._algorithm.min_count):
            incomplete = self.state.incomplete if self.round else counted.incomplete
            self._counting = False
            self.state = self.state._replace(mass=np.asarray(counted.mass), incomplete=incomplete)
            return None
        if not self._algorithm.extrapolated(self.state):
            raise self._short(self.round + 1, counted.support)
        nothing = np.full_like(self._rule.sums, np.nan)
        return Pooled(nothing, self.state.mass[..., None], nothing[:, 0, 0])  # refused by all

    def _pooled(self, total: NDArray) -> Pooled | None:
        """None where the question is to be asked again, with words that hold more."""
        pooled = self._summed().pooled(total)
        if not self._in_limbs and not np.isfinite(pooled.log_likelihood).all():
            self._in_limbs = True
            return None
        return pooled

    def _short(self, number: int, support: NDArray) -> CollapseError:
        return support_error(number, support, self._algorithm, self._task.class_of_component, self._task.features)

    @property
    def info(self) -> Info:
        """What the algorithm's State says."""
        return self._algorithm.info(self.state)

    @property
    def round(self) -> int:
        """Rounds so far."""
        return self.state.sums

    @property
    def converged(self) -> bool:
        """Whether EM's step is at most tol; the same at all sites."""
        return self.round > 0 and self.change <= self._task.tol

    @property
    def _answered(self) -> bool:
        return self.converged or self.round >= self._task.max_rounds

    @property
    def result(self) -> Fitted:
        """The estimate, and how the fit ended."""
        info = self.info
        return Fitted(
            *self.estimate(), self.converged, self.round, self.round, float(np.asarray(info.log_likelihood)),
            self.change, 0.0, float(info.step), int(np.asarray(info.restarts).sum()), float(self.state.mass),
        )  # fmt: skip

    def estimate(self) -> Theta:
        """The mixture that all sites hold, in the units of the table."""
        return self._laid.original(Theta(*(part[0] for part in self._algorithm.estimate(self.state))))


def most_words(task: Task) -> int:
    """The words of the longest question of the fit."""
    return LIMBS.words(size_of(task.n_components, task.n_features, incomplete=True))
