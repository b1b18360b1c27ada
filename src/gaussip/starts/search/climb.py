"""Looking for the best mixture of K components, as sites without a server can: by sums that all agree on.

A search is a generator: it gives out a theta, gets back what all sites' rows sum up to there (`Totals`), and in the
end returns the best mixture it found. Whoever runs it, a simulation or a site, decides the same from the same sums:
all sites find the same, whichever asks. Features are in standard units, on which the sites agreed before.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from gaussip.algorithms.em import m_step
from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import StartError, Text
from gaussip.exchange import sums
from gaussip.mixture.theta import Theta
from gaussip.rows.moments import Moments
from gaussip.starts.search.moves import moves
from gaussip.starts.search.standard import Standard

SHORT = 15  # steps after which a start is judged
LONG = 1000  # steps after which the best are taken as they are
KEPT = 3  # starts that go on
NEAR = 0.02  # of log-likelihood, still to be gained: far below what a criterion tells apart
DOUBT = 20  # times what seems to be left to gain, a climb may still gain: gains may grow again
WORTH = 0.1  # of log-likelihood: a move that gains less is not taken
NOTHING = 1e-6  # of log-likelihood: no gain at all
FRACTION = 1 << 15  # finer steps for what a log-likelihood has beyond its whole part: gains are small
SAME = 1e-3  # of log-likelihood: two starts on their way to one optimum


class Totals(NamedTuple):
    """What all sites' rows sum up to at one theta."""

    sums: NDArray  #: (K, f), the moments (S0, S1, vech S2), S2 about theta's means
    log_likelihood: float  #: in standard units
    mass: float
    lost: float  #: sites at which theta is no mixture

    @classmethod
    def of(cls, summed: NDArray, n_components: int) -> Totals:
        """Totals of the sum of all sites' `part_of`."""
        whole, fraction, mass, lost = summed[-4:].tolist()
        return cls(summed[:-4].reshape(n_components, -1), whole + fraction / FRACTION, mass, lost)


class Found(NamedTuple):
    """A mixture, and what is known of it."""

    theta: Theta
    totals: Totals


Steps: TypeAlias = Generator[Theta, Totals, Found]


def part_of(found: Moments, standard: Standard, n_sites: int) -> NDArray:
    """What each site adds to the totals, (..., size).

    Whether a component is lost is told, and not decided by each: sites on other machines may differ in a last digit.
    """
    own = standard.unit.standard(to_numpy(found.sums))
    mass, height = to_numpy(found.mass), to_numpy(found.log_likelihood)
    height = height + mass * standard.log_volume
    limit = sums.LARGEST_SUM / n_sites
    well = (np.abs(height) < limit) & (np.abs(own) < limit).all(axis=(-2, -1))  # not for NaN
    own = np.where(well[..., None, None], own, 0.0).reshape(*mass.shape, -1)
    height = np.where(well, height, 0.0)
    whole = np.floor(height)
    last = np.stack([whole, (height - whole) * FRACTION, mass, ~well], axis=-1)
    return np.concatenate([own, last], axis=-1)


class Rule(NamedTuple):
    """How one step of pooled EM is taken."""

    reg: NDArray  #: (p,), added to every variance
    shrinkage: float = 0.0  #: the share of every covariance that is the target's
    target: NDArray | float = 0.0  #: (p, p)

    def step(self, theta: Theta, totals: Totals) -> Theta:
        """The M-step, with the sums of all sites."""
        new = m_step(totals.sums / totals.mass, theta.means)
        covariances = new.covariances + np.diag(self.reg)
        return new._replace(covariances=(1 - self.shrinkage) * covariances + self.shrinkage * self.target)


class Climb:
    """Pooled EM from one start, as far as it was taken."""

    def __init__(self, theta: Theta, rule: Rule) -> None:
        self.theta, self._rule = theta, rule
        self.totals: Totals | None = None
        self._gains = [np.inf] * 3  # the last ones

    @property
    def height(self) -> float:
        """The log-likelihood, minus infinity where a component has collapsed."""
        if self.totals is None or self.totals.lost:
            return -np.inf
        return self.totals.log_likelihood

    @property
    def left(self) -> float:
        """The gain still to come, if gains go on shrinking as they did (Aitken); infinite while they grow."""
        before, between, last = self._gains
        return max(_to_come(before, between) - last, _to_come(between, last))

    def go(self, steps: int, above: float = -np.inf) -> Generator[Theta, Totals, None]:
        """Go on for so many steps, until next to nothing is left to gain, or it will not come above a height."""
        for _ in range(steps):
            theta = self.theta if self.totals is None else self._rule.step(self.theta, self.totals)
            before = self.height
            self.theta, self.totals = theta, (yield theta)
            self._gains = [*self._gains[1:], self.height - before]
            if not np.isfinite(self.height) or self.left < NEAR or self.height + DOUBT * self.left < above:
                return


def _to_come(before: float, last: float) -> float:
    if not np.isfinite(before):
        return np.inf
    if abs(last) < NOTHING or (last < 0 and -last < NEAR):  # reg_covar may cost a little
        return 0.0
    return last * last / (before - last) if 0 < last < before else np.inf


def best_of(starts: Iterable[Theta], rule: Rule, labelled: int = 0) -> Steps:
    """The highest mixture that starts lead to, and then moves away from what they led to.

    Parameters
    ----------
    labelled : components that belong to classes, the first ones: they are not given up
    """
    found = yield from highest(starts, rule)
    if found is None:
        raise StartError(
            "every start lost a component",
            remedy=Text(
                "try fewer components or a larger {reg_covar}, and look for outlying rows: where one is far beyond "
                "all others, the others look like one point"
            ),
        )
    while True:
        height = found.totals.log_likelihood
        better = yield from highest(moves(found.theta, labelled), rule, height)
        if better is None or better.totals.log_likelihood < height + WORTH:
            return found
        found = better


def highest(
    starts: Iterable[Theta], rule: Rule, above: float = -np.inf
) -> Generator[Theta, Totals, Found | None]:  # fmt: skip
    """Judge starts by a short climb, take the best of different ones to the top; None where all are lost.

    Those that will not come above a height, or above another's top, are not taken so far.
    """
    climbs = [Climb(theta, rule) for theta in starts]
    with np.errstate(all="ignore"):  # a component that collapses divides by zero
        for climb in climbs:
            yield from climb.go(SHORT)
        chosen: list[Climb] = []
        for climb in sorted(climbs, key=lambda one: -one.height):  # stable: the same at all sites
            new = all(abs(climb.height - other.height) > SAME for other in chosen)
            if np.isfinite(climb.height) and new and len(chosen) < KEPT:
                chosen.append(climb)
        for climb in chosen:
            yield from climb.go(LONG, above)
            above = max(above, climb.height)
    top = max(chosen, key=lambda one: one.height, default=None)
    if top is None or top.totals is None or not np.isfinite(top.height):
        return None
    return Found(top.theta, top.totals)
