"""One round of a run and what is recorded of it, without a look at the numbers: a GPU need not wait for the host.

Replicates that have converged, or in which a component collapsed, stay as they were before: a replicate's result does
not depend on which others run beside it, or for how long.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms import Algorithm, one_round
from gaussip.algorithms.base import Measure
from gaussip.arrays import Array, keep, namespace, to_numpy
from gaussip.exchange import Stacked
from gaussip.exchange.in_process import Sums
from gaussip.exchange.questions import Spent
from gaussip.mixture.theta import Psi, Theta, first_site, to_psi
from gaussip.mixture.units import measure as moved
from gaussip.mixture.units import unit_of_start
from gaussip.mixture.validity import healthy


class Carry(NamedTuple):
    """What one round hands to the next; leading axes (..., M), flags (...)."""

    state: Any
    theta: Theta  #: each site's estimate, or the one that all hold
    psi: Psi  #: the same in the start's unit
    converged: Array
    collapsed: Array


class Seen(NamedTuple):
    """One round's numbers for each replicate, (...)."""

    log_likelihood: Array
    change: Array
    disagreement: Array
    step: Array | float  #: the step in force; a plain number where it never changes
    restarts: Array | float
    converged: Array
    collapsed: Array


class Look(NamedTuple):
    """Some rounds, seen together."""

    carry: Carry  #: after the last of them
    rounds: list[tuple[int, Seen, Spent]]  #: number, what was seen (NumPy), and what was sent so far
    before: Carry  #: from which the last round is run again to see why a component collapsed in it


class Rounds:
    """The rounds of one run.

    Parameters
    ----------
    measure : gives each site's moments at its theta
    mass : (..., M)
    """

    def __init__(
        self, algorithm: Algorithm, exchange: Stacked | Sums, measure: Measure, mass: Array, tol: float
    ) -> None:
        self.algorithm, self.exchange, self.measure = algorithm, exchange, measure
        self._mass = namespace(mass).sum(mass, axis=-1)
        self._tol = tol

    def begin(self, start: Theta, state: Any) -> Carry:
        """Before the first round; ``start`` with leading axes (..., M)."""
        xp = namespace(start.means)
        start = self._apart(self.algorithm.estimate(state) if self.algorithm.replicated else start)
        self._unit = unit_of_start(start)
        no = xp.zeros(start.means.shape[:-3], dtype=xp.bool, device=start.means.device)
        return Carry(state, start, self._unit.standard(to_psi(start)), no, no)

    def _apart(self, theta: Theta) -> Theta:
        """The estimates that may differ: the first site's alone where all sites hold the same."""
        return first_site(theta) if self.algorithm.replicated else theta

    @property
    def spent(self) -> Spent:
        """What was sent so far."""
        return Spent(self.exchange.exchanges, self.exchange.bytes_sent)

    def __call__(self, carry: Carry) -> tuple[Carry, Seen | None]:
        """One round; nothing is seen where the algorithm only exchanged."""
        xp = namespace(carry.psi)
        after, step = one_round(self.algorithm, carry.state, self.exchange, self.measure)
        if step is None:
            return carry._replace(state=keep(carry.converged | carry.collapsed, carry.state, after)), None
        info, reached = step.info, self._apart(self.algorithm.estimate(after))
        sound = xp.all(healthy(reached), axis=-1)
        if info.support is not None:  # a plain number could not be moved to a GPU that records its rounds
            sound = sound & ~info.short
        sound = sound & xp.all(xp.isfinite(step.moments.log_likelihood) | info.refused, axis=-1)
        collapsed = carry.collapsed | (~sound & ~carry.converged)
        done = carry.converged | collapsed
        theta = keep(done, carry.theta, reached)
        psi, change, disagreement = moved(theta, self._unit, carry.psi)
        change = change / self.algorithm.eta if info.change is None else info.change
        converged = carry.converged | ((change if info.settled is None else info.settled[..., 0]) <= self._tol)
        log_likelihood = info.log_likelihood
        if log_likelihood is None:
            log_likelihood = xp.sum(step.moments.log_likelihood, axis=-1) / self._mass
        seen = Seen(
            log_likelihood, change, disagreement, _first(info.step), _first(info.restarts), converged, collapsed
        )
        return Carry(keep(done, carry.state, after), theta, psi, converged, collapsed), seen

    def one_by_one(self, carry: Carry, max_rounds: int, until_seen: int = 0) -> Iterator[Look]:
        """Every round, looked at as it ends.

        As long as the rows were not looked at there may be more rounds, ``until_seen`` in all.
        """
        anything = False
        for number in range(1, max(max_rounds, until_seen) + 1):
            if number > max_rounds and anything:
                return
            before = carry
            carry, seen = self(before)
            anything = anything or seen is not None
            if seen is None:
                yield Look(carry, [], before)
            else:
                seen = seen if isinstance(carry.psi, np.ndarray) else Seen(*map(to_numpy, seen))
                yield Look(carry, [(number, seen, self.spent)], before)


def _first(values: Array) -> Array:
    """Of sites that have the same, (..., M) to (...); a plain number as it is."""
    return values[..., 0] if hasattr(values, "shape") else values
