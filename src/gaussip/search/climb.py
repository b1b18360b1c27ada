"""Looking for the best mixture of K components, as sites without a server can: by sums that all agree on.

A search is a generator: it gives out a theta, gets back what all sites' rows sum up to there (`Totals`), and in the
end returns the best mixture it found. Whoever runs it, a simulation or a site, decides the same from the same sums:
all sites find the same, whichever asks. Features are in standard units, on which the sites agreed before.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from gaussip import sums
from gaussip.algorithms.em import m_step
from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import StartError
from gaussip.moments import Moments
from gaussip.parameters import Theta
from gaussip.search.moves import moves
from gaussip.search.standard import Standard

SHORT = 15  # steps after which a start is judged
LONG = 1000  # steps after which the best are taken as they are
KEPT = 3  # starts that go on
NEAR = 0.02  # of log-likelihood, still to be gained: far below what a criterion tells apart
WORTH = 0.1  # of log-likelihood: a move that gains less is not taken
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
        return cls(summed[:-3].reshape(n_components, -1), *summed[-3:].tolist())


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
    return np.concatenate([own, np.stack([height, mass, ~well], axis=-1)], axis=-1)


def step(theta: Theta, totals: Totals, reg: NDArray) -> Theta:
    """One step of pooled EM; ``reg`` (p,) is added to every variance."""
    new = m_step(totals.sums / totals.mass, theta.means)
    return new._replace(covariances=new.covariances + np.diag(reg))


class Climb:
    """Pooled EM from one start, as far as it was taken."""

    def __init__(self, theta: Theta, reg: NDArray) -> None:
        self.theta, self._reg = theta, reg
        self.totals: Totals | None = None
        self.lost = False  #: a component has collapsed
        self._gains = (np.inf, np.inf)

    @property
    def height(self) -> float:
        """The log-likelihood, minus infinity where a component has collapsed."""
        if self.lost or self.totals is None or self.totals.lost:
            return -np.inf
        return self.totals.log_likelihood

    @property
    def left(self) -> float:
        """The gain still to come, if gains go on shrinking as they did (Aitken)."""
        before, last = self._gains
        if not np.isfinite(before):
            return np.inf
        ratio = last / before if before > 0 else 1.0
        return last * ratio / (1 - ratio) if 0 <= ratio < 1 else (np.inf if last > NEAR else 0.0)

    def go(self, steps: int) -> Generator[Theta, Totals, None]:
        """Go on for so many steps, or until next to nothing is left to gain."""
        for _ in range(steps):
            theta = self.theta if self.totals is None else step(self.theta, self.totals, self._reg)
            before = self.height
            self.theta, self.totals = theta, (yield theta)
            self._gains = (self._gains[1], self.height - before)
            if not np.isfinite(self.height):
                self.lost = True
            if self.lost or self.left < NEAR:
                return


def best_of(starts: Iterable[Theta], reg: NDArray, labelled: int = 0) -> Steps:
    """The highest mixture that starts lead to, and then moves away from what they led to.

    Parameters
    ----------
    reg : (p,), added to every variance
    labelled : components that belong to classes, the first ones: they are not given up
    """
    found = yield from highest(starts, reg)
    if found is None:
        raise StartError("every start lost a component; try fewer components or a larger reg_covar")
    while True:
        better = yield from highest(moves(found.theta, labelled), reg)
        if better is None or better.totals.log_likelihood < found.totals.log_likelihood + WORTH:
            return found
        found = better


def highest(starts: Iterable[Theta], reg: NDArray) -> Generator[Theta, Totals, Found | None]:
    """Judge starts by a short climb, take the best of different ones to the top; None where all are lost."""
    climbs = [Climb(theta, reg) for theta in starts]
    with np.errstate(all="ignore"):  # a component that collapses divides by zero
        for climb in climbs:
            yield from climb.go(SHORT)
        chosen: list[Climb] = []
        for climb in sorted(climbs, key=lambda one: -one.height):  # stable: the same at all sites
            new = all(abs(climb.height - other.height) > SAME for other in chosen)
            if np.isfinite(climb.height) and new and len(chosen) < KEPT:
                chosen.append(climb)
        for climb in chosen:
            yield from climb.go(LONG)
    top = max(chosen, key=lambda one: one.height, default=None)
    return None if top is None or top.totals is None or top.lost else Found(top.theta, top.totals)
