"""Searching for the best mixture of K components without a server, by sums on which all sites agree.

A search is a replicated computation: it asks for the sums of all sites' rows at one mixture after the other, and in
the end returns the best. Its decisions depend on these sums alone, so a simulation and every real site find the same
mixture. Features are in standard units, on which the sites agreed before.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np

from gaussip.algorithms import acceleration
from gaussip.algorithms.em import m_step
from gaussip.algorithms.summed import Counted, Summed, scarce
from gaussip.arrays import NDArray
from gaussip.errors import StartError, Text
from gaussip.exchange.questions import Replicated
from gaussip.kernels.shaping import shaped
from gaussip.mixture.covariance_types import FULL, LINEAR
from gaussip.mixture.degenerate import Degenerate, degenerate
from gaussip.mixture.theta import Psi, Theta, width
from gaussip.mixture.units import Unit
from gaussip.rows.checks import enough
from gaussip.rows.held import Held
from gaussip.rows.moments import Moments
from gaussip.starts.search.moves import moves

SHORT = 15  # steps after which the starts are compared
LONG = 1000  # most steps of a climb
KEPT = 3  # starts that are continued
NEAR = 0.02  # of log-likelihood still to gain: a climb ends here, far below the differences of a criterion
DOUBT = 1000  # times the predicted gain: a climb may still gain this much, as gains may grow again
WORTH = 0.1  # of log-likelihood: a move that gains less is not taken
NOTHING = 1e-6  # of log-likelihood: counts as no gain
SAME = 1e-3  # of log-likelihood: two starts this close lead to the same optimum


class Totals(NamedTuple):
    """The sums over all sites' rows at one theta."""

    psi: NDArray  #: (K, f), the moments over the number of rows, in standard units
    log_likelihood: float  #: of all rows, in standard units; NaN where theta is no mixture, or for too few rows
    mass: float


class Climbed(NamedTuple):
    """The mixture that a climb ended at, and the totals there."""

    theta: Theta
    totals: Totals
    degenerate: list[Degenerate]  #: components; none, unless all climbs to this number of components ended so


Steps: TypeAlias = Replicated[Climbed]


class Rule(NamedTuple):
    """How the sites take the sums, and a step of pooled EM."""

    unit: Unit
    mass: float  #: of all rows
    reg: NDArray  #: (p,), added to every variance
    min_count: int  #: rows of all sites that each component must have
    shrinkage: float = 0.0  #: the target's share of every covariance
    target: NDArray | float = 0.0  #: (p, p)
    share: NDArray | float = 1.0  #: (p,), of the rows that have each feature
    covariance_type: str = FULL

    @property
    def incomplete(self) -> bool:
        """Whether cells are missing."""
        return bool(np.min(self.share) < 1)

    def totals(self, theta: Theta) -> Replicated[Totals]:
        """The sums at a mixture; of one with too few rows in a component, no moments are asked for."""
        point = self.unit.original_theta(theta)
        summed = Summed(Theta(*(part[None] for part in point)), np.asarray(self.mass), self.incomplete)

        @cache
        def found(held: Held) -> Moments:
            with np.errstate(all="ignore"):  # a component that collapses divides by zero
                return held.moments(point)

        if self.incomplete or scarce(theta.weights, self.mass, self.min_count):
            counts = Counted.of((yield Counted.ask(point, found)), theta.means.shape[1])
            if counts.short(self.min_count):
                return Totals(np.full((len(theta.weights), width(theta.means.shape[1])), np.nan), np.nan, self.mass)
        pooled = summed.pooled((yield summed.ask(found)))
        psi, height = self._standard(pooled.psi[0], theta), float(pooled.log_likelihood[0]) + self.unit.log_volume
        support = self.mass * psi[:, 0] if pooled.seen is None else pooled.seen[0]
        supported = bool(enough(support, self.min_count).all())
        return Totals(psi, self.mass * height if supported else np.nan, self.mass)

    def _standard(self, psi: Psi, theta: Theta) -> Psi:
        """Moments about the means in standard units, from those in the data's units."""
        psi = psi / self.unit.factor
        first = psi[:, :1] * theta.means + psi[:, 1 : 1 + theta.means.shape[1]]
        return np.concatenate([psi[:, :1], first, psi[:, 1 + theta.means.shape[1] :]], axis=1)

    def step(self, theta: Theta, totals: Totals) -> Theta:
        """The M-step, with the sums of all sites."""
        new = m_step(totals.psi, theta.means)
        covariances = new.covariances + np.diag(self.reg)
        regularised = (1 - self.shrinkage) * covariances + self.shrinkage * self.target
        return self.shaped(new._replace(covariances=regularised))

    def shaped(self, theta: Theta) -> Theta:
        """The mixture with covariances of the type, which they have in the data's units."""
        if self.covariance_type == FULL:
            return theta
        covariances = shaped(self.covariance_type, self.unit.original_theta(theta)).covariances
        return theta._replace(covariances=covariances / self.unit.squares)

    def degenerate(self, theta: Theta) -> list[Degenerate]:
        """The components that nothing but `reg` keeps from collapsing."""
        return degenerate(theta, (1 - self.shrinkage) * self.reg)

    @property
    def regular(self) -> acceleration.Regular:
        """The same for acceleration."""
        return acceleration.Regular.of(self.reg, self.shrinkage, self.target, len(self.reg))


class Climb:
    """Pooled EM from one start, accelerated, so far."""

    def __init__(self, theta: Theta, rule: Rule) -> None:
        theta = rule.shaped(theta)
        self.theta, self._rule = theta, rule
        self.totals: Totals | None = None  #: at theta
        self._gains, self._left = [np.inf] * 3, [np.inf] * 2  # the last ones
        self._past, self._next = acceleration.begin(theta), theta

    @property
    def height(self) -> float:
        """The log-likelihood; minus infinity if a component has collapsed."""
        if self.totals is None or not np.isfinite(self.totals.log_likelihood):
            return -np.inf
        return self.totals.log_likelihood

    @property
    def degenerate(self) -> list[Degenerate]:
        """The components that nothing but reg_covar keeps from collapsing."""
        return self._rule.degenerate(self.theta) if np.isfinite(self.height) else []

    @property
    def left(self) -> float:
        """The gain still to come, as the last two steps let expect."""
        return max(self._left)

    def _expected(self, mass: float) -> float:
        """The gain at the end that acceleration sees, and at least that of gains that keep shrinking (Aitken)."""
        seen = mass * float(self._past.memory.left)
        before, between, last = self._gains
        if np.isfinite(seen):
            return max(seen, _to_come(between, last))
        return max(_to_come(before, between) - last, _to_come(between, last))

    def go(self, steps: int, above: float = -np.inf) -> Replicated[None]:
        """Take up to this many steps; stop when little is left to gain, or it cannot get above a height."""
        for _ in range(steps):
            theta, past = self._next, self._past
            totals = yield from self._rule.totals(theta)
            image = self._rule.step(theta, totals)
            height = np.array(totals.log_likelihood / totals.mass)
            if self._rule.covariance_type in LINEAR:
                self._past, self._next = acceleration.after(past, image, height, self._rule.regular)
            else:
                self._next = image
            if self._past.refused > past.refused:
                continue
            before = self.height
            self.theta, self.totals = theta, totals
            self._gains = [*self._gains[1:], self.height - before]
            self._left = [self._left[1], self._expected(totals.mass)]
            if not np.isfinite(self.height) or self.left < NEAR or self.height + DOUBT * self.left < above:
                return


def _to_come(before: float, last: float) -> float:
    if not np.isfinite(before):
        return np.inf
    if abs(last) < NOTHING or (last < 0 and -last < NEAR):  # reg_covar may cost a little
        return 0.0
    return last * last / (before - last) if 0 < last < before else np.inf


def best_of(starts: Iterable[Theta], rule: Rule, labelled: int = 0) -> Steps:
    """The highest mixture reached from the starts and then by moves, which keep the first ``labelled`` components.

    One with a degenerate component only where there is no other: its height depends on reg_covar alone.
    """
    best = yield from highest(starts, rule)
    if best is None:
        raise StartError(
            f"every start lost a component, or left one to fewer than {rule.min_count} rows of all sites",
            remedy=Text(
                "try fewer components or a larger {reg_covar}, and look for outliers: next to a row far away, "
                "all other rows look like a single point"
            ),
        )
    while True:
        height = -np.inf if best.degenerate else best.totals.log_likelihood
        higher = yield from highest(moves(best.theta, labelled), rule, height)
        if higher is None or higher.degenerate or higher.totals.log_likelihood < height + WORTH:
            return best
        best = higher


def highest(starts: Iterable[Theta], rule: Rule, above: float = -np.inf) -> Replicated[Climbed | None]:
    """Compare starts by a short climb and continue the best distinct ones to the top; None if all are lost.

    A climb stops early if it cannot get above the given height or above another's top. One that becomes degenerate
    makes room for the next; if all do, the highest is the result.
    """
    climbs = [Climb(theta, rule) for theta in starts]
    with np.errstate(all="ignore"):  # a component that collapses divides by zero
        for climb in climbs:
            yield from climb.go(SHORT)
        chosen: list[Climb] = []
        for climb in sorted(climbs, key=lambda climb: -climb.height):  # stable: the same at all sites
            new = all(abs(climb.height - other.height) > SAME for other in chosen)
            if np.isfinite(climb.height) and new and not climb.degenerate:
                chosen.append(climb)
        tops: list[Climb] = []
        for climb in chosen:
            yield from climb.go(LONG, above)
            if not climb.degenerate:
                tops.append(climb)
                above = max(above, climb.height)
            if len(tops) == KEPT:
                break
    sound = [climb for climb in tops if np.isfinite(climb.height)]
    last = sound or [climb for climb in climbs if climb.degenerate]
    top = max(last, key=lambda climb: climb.height, default=None)
    return None if top is None or top.totals is None else Climbed(top.theta, top.totals, top.degenerate)
