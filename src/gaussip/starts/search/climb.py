"""Searching for the best mixture of K components without a server, by sums on which all sites agree.

A search is a generator: it yields a theta, receives the sums of all sites' rows there (`Totals`), and in the end
returns the best mixture. Its decisions depend on these sums alone, so a simulation and every real site find the same
mixture. Features are in standard units, on which the sites agreed before.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from gaussip.algorithms import acceleration
from gaussip.algorithms.em import m_step
from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import StartError, Text
from gaussip.exchange import sums
from gaussip.mixture.theta import Theta
from gaussip.mixture.units import Unit
from gaussip.rows.moments import Moments
from gaussip.starts.search.moves import moves

SHORT = 15  # steps after which the starts are compared
LONG = 1000  # most steps of a climb
KEPT = 3  # starts that are continued
NEAR = 0.02  # of log-likelihood still to gain: a climb ends here, far below the differences of a criterion
DOUBT = 1000  # times the predicted gain: a climb may still gain this much, as gains may grow again
WORTH = 0.1  # of log-likelihood: a move that gains less is not taken
NOTHING = 1e-6  # of log-likelihood: counts as no gain
FRACTION = 1 << 15  # resolution of the fractional part of a summed log-likelihood, as gains are small
SAME = 1e-3  # of log-likelihood: two starts this close lead to the same optimum


class Totals(NamedTuple):
    """The sums over all sites' rows at one theta."""

    sums: NDArray  #: (K, f), the moments (S0, S1, vech S2), S2 about theta's means
    log_likelihood: float  #: in standard units
    mass: float
    lost: float  #: sites at which theta is not a mixture

    @classmethod
    def of(cls, summed: NDArray, n_components: int) -> Totals:
        """The totals in the sum of all sites' `part_of`."""
        whole, fraction, mass, lost = summed[-4:].tolist()
        return cls(summed[:-4].reshape(n_components, -1), whole + fraction / FRACTION, mass, lost)


class Climbed(NamedTuple):
    """The mixture that a climb ended at, and the totals there."""

    theta: Theta
    totals: Totals


Steps: TypeAlias = Generator[Theta, Totals, Climbed]


def part_of(moments: Moments, unit: Unit, n_sites: int) -> NDArray:
    """What each site adds to the totals, (..., size).

    A site reports a lost component, and all decide on the sum: on another machine the last digit may differ.
    """
    site_sums = unit.standard(to_numpy(moments.sums))
    mass, height = to_numpy(moments.mass), to_numpy(moments.log_likelihood)
    height = height + mass * unit.log_volume
    limit = sums.LARGEST_SUM / n_sites
    valid = (np.abs(height) < limit) & (np.abs(site_sums) < limit).all(axis=(-2, -1))  # False for NaN
    site_sums = np.where(valid[..., None, None], site_sums, 0.0).reshape(*mass.shape, -1)
    height = np.where(valid, height, 0.0)
    whole = np.floor(height)
    last = np.stack([whole, (height - whole) * FRACTION, mass, ~valid], axis=-1)
    return np.concatenate([site_sums, last], axis=-1)


class Rule(NamedTuple):
    """The rule for a step of pooled EM."""

    reg: NDArray  #: (p,), added to every variance
    shrinkage: float = 0.0  #: the target's share of every covariance
    target: NDArray | float = 0.0  #: (p, p)

    def step(self, theta: Theta, totals: Totals) -> Theta:
        """The M-step, with the sums of all sites."""
        new = m_step(totals.sums / totals.mass, theta.means)
        covariances = new.covariances + np.diag(self.reg)
        return new._replace(covariances=(1 - self.shrinkage) * covariances + self.shrinkage * self.target)

    @property
    def regular(self) -> acceleration.Regular:
        """The same for acceleration."""
        return acceleration.Regular.of(self.reg, self.shrinkage, self.target, len(self.reg))


class Climb:
    """Pooled EM from one start, accelerated, so far."""

    def __init__(self, theta: Theta, rule: Rule) -> None:
        self.theta, self._rule = theta, rule
        self.totals: Totals | None = None  #: at theta
        self._gains, self._left = [np.inf] * 3, [np.inf] * 2  # the last ones
        self._past, self._next = acceleration.begin(theta), theta

    @property
    def height(self) -> float:
        """The log-likelihood; minus infinity if a component has collapsed."""
        if self.totals is None or self.totals.lost:
            return -np.inf
        return self.totals.log_likelihood

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

    def go(self, steps: int, above: float = -np.inf) -> Generator[Theta, Totals, None]:
        """Take up to this many steps; stop when little is left to gain, or it cannot get above a height."""
        for _ in range(steps):
            theta, past = self._next, self._past
            totals = yield theta
            image = self._rule.step(theta, totals)
            height = np.array(np.nan if totals.lost else totals.log_likelihood / totals.mass)
            self._past, self._next = acceleration.after(past, image, height, self._rule.regular)
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
    """The highest mixture reached from the starts and then by moves, which keep the first ``labelled`` components."""
    best = yield from highest(starts, rule)
    if best is None:
        raise StartError(
            "every start lost a component",
            remedy=Text(
                "try fewer components or a larger {reg_covar}, and look for outliers: next to a row far away, "
                "all other rows look like a single point"
            ),
        )
    while True:
        height = best.totals.log_likelihood
        higher = yield from highest(moves(best.theta, labelled), rule, height)
        if higher is None or higher.totals.log_likelihood < height + WORTH:
            return best
        best = higher


def highest(
    starts: Iterable[Theta], rule: Rule, above: float = -np.inf
) -> Generator[Theta, Totals, Climbed | None]:  # fmt: skip
    """Compare starts by a short climb and continue the best distinct ones to the top; None if all are lost.

    A climb stops early if it cannot get above the given height or above another's top.
    """
    climbs = [Climb(theta, rule) for theta in starts]
    with np.errstate(all="ignore"):  # a component that collapses divides by zero
        for climb in climbs:
            yield from climb.go(SHORT)
        chosen: list[Climb] = []
        for climb in sorted(climbs, key=lambda climb: -climb.height):  # stable: the same at all sites
            new = all(abs(climb.height - other.height) > SAME for other in chosen)
            if np.isfinite(climb.height) and new and len(chosen) < KEPT:
                chosen.append(climb)
        for climb in chosen:
            yield from climb.go(LONG, above)
            above = max(above, climb.height)
    top = max(chosen, key=lambda climb: climb.height, default=None)
    if top is None or top.totals is None or not np.isfinite(top.height):
        return None
    return Climbed(top.theta, top.totals)
