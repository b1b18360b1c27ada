"""Stopping together: any algorithm, so that its sites decide to stop in the same round, without a server.

Sites send along two numbers, the largest anywhere as far as they know: one for a component that collapsed, one for
the last moves. After a block of as many rounds as the network is wide, all sites know those of the block before.
"""

import math
from typing import Any, NamedTuple

from gaussip.algorithms.base import Algorithm, Info
from gaussip.algorithms.site import Site
from gaussip.arrays import Array, compiled, keep, namespace
from gaussip.exchange import Message
from gaussip.mixture.theta import Psi, Theta, to_psi
from gaussip.mixture.units import Unit, measure, unit_of
from gaussip.mixture.validity import healthy, least_weight
from gaussip.rows.moments import Moments


class State(NamedTuple):
    """The algorithm's State, and what is known of all sites."""

    inner: Any
    unit: Unit  #: the start's: moves are measured in it
    psi: Psi  #: the estimate in that unit, (..., 1, K, f)
    number: Array  #: (...), one plus the site's index
    block: Array  #: (..., 2), of this block: the site's number if a component collapsed, and its largest move
    flooded: Array  #: (..., 2), the largest of both anywhere in the block before, as far as it has come
    known: Array  #: (..., 2), the same of the last block that all know of
    spent: int  #: rounds of this block so far


class StoppingTogether(Algorithm):
    """An algorithm whose sites stop together; ``width`` is the number of exchanges in which news reaches all sites.

    A site where a component collapsed stays as it was until all know of it: nothing impossible is sent.
    """

    stops_together = True

    def __init__(self, algorithm: Algorithm, width: int, n_sites: int) -> None:
        self.algorithm, self.width, self.n_sites = algorithm, width, n_sites
        self.name, self.eta = algorithm.name, algorithm.eta
        self.two_way, self.network_sets_target = algorithm.two_way, algorithm.network_sets_target
        self.covariance_type = algorithm.covariance_type

    def init(self, start: Theta, site: Site) -> State:
        """The algorithm's State; nothing is known of the others."""
        xp = namespace(start.means)
        inner = self.algorithm.init(start, site)
        unit = Unit(*(part[..., None, :, :] for part in unit_of(start)))
        number = xp.astype(site.index + 1, start.means.dtype)
        nothing = _pair(0 * number, 0 * number)
        unknown = _pair(0 * number, 0 * number + math.inf)
        psi = unit.standard(to_psi(_alone(start)))
        return State(inner, unit, psi, number, nothing, unknown, unknown, 0)

    def message(self, state: State) -> Message:
        """The algorithm's, and what is known."""
        return {**self.algorithm.message(state.inner), "max": state.flooded}

    def check(self, message: Message, state: State) -> bool:
        """The algorithm's check; a fault is a site's number, and moves are not negative."""
        fault, move = message["max"]
        sound = float(fault) in range(self.n_sites + 1) and bool(move >= 0)
        return sound and self.algorithm.check(message, state.inner)

    def absorb(self, state: State, heard: Message) -> tuple[State, Theta | None]:
        """The algorithm takes in its part."""
        flooded = namespace(state.flooded).maximum(state.flooded, heard["max"])
        inner, theta = self.algorithm.absorb(state.inner, heard)
        return state._replace(inner=inner, flooded=flooded), theta

    def update(self, state: State, moments: Moments) -> State:
        """The algorithm's, unless a component collapsed; at a block's end all know of the block before."""
        inner = self.algorithm.update(state.inner, moments)
        well, psi, block = self._judge(state, self.algorithm.estimate(inner), moments)
        if not bool(namespace(psi).all(well)):
            inner = keep(~well, state.inner, inner)
            psi = keep(~well, state.psi, psi)
        if state.spent + 1 < self.width:
            return state._replace(inner=inner, psi=psi, block=block, spent=state.spent + 1)
        return state._replace(inner=inner, psi=psi, known=state.flooded, flooded=block, block=0 * block, spent=0)

    def _judge(self, state: State, reached: Theta, moments: Moments) -> tuple[Array, Psi, Array]:
        """Whether a site's estimate is a mixture, its psi in the unit, and the block's numbers so far."""
        eta, small = self.algorithm.eta, compiled(state.psi)
        if hasattr(small, "look"):
            least = least_weight(reached.weights)
            judged: tuple[Array, Psi, Array] = small.look(
                *reached, moments.log_likelihood, *state.unit, state.psi, state.number, state.block, eta, least
            )
            return judged
        xp = namespace(state.psi)
        well = healthy(reached) & xp.isfinite(moments.log_likelihood)
        psi, move, _ = measure(_alone(reached), state.unit, state.psi)
        now = _pair(xp.where(well, 0 * state.number, state.number), xp.where(well, move / eta, 0 * move))
        return well, psi, xp.maximum(state.block, now)

    def estimate(self, state: State) -> Theta:
        """The algorithm's."""
        return self.algorithm.estimate(state.inner)

    def attempt(self, state: State, moments: Moments) -> Theta:
        """The algorithm's, without the guard."""
        return self.algorithm.attempt(state.inner, moments)

    def info(self, state: State) -> Info:
        """The algorithm's, and what all sites know of the last whole block."""
        failing = (state.block[..., 0] > 0) | (state.flooded[..., 0] == state.number)
        return self.algorithm.info(state.inner)._replace(
            settled=state.known[..., 1],
            fault=state.known[..., 0],
            failing=failing,
            pending=failing | (state.flooded[..., 0] > 0),
        )


def _pair(first: Array, second: Array) -> Array:
    return namespace(first).stack([first, second], axis=-1)


def _alone(theta: Theta) -> Theta:
    """Every site as a network of one, whose moves are its own."""
    weights, means, covariances = theta
    return Theta(weights[..., None, :], means[..., None, :, :], covariances[..., None, :, :, :])


def stopping_together(algorithm: Algorithm, width: int, n_sites: int) -> Algorithm:
    """The algorithm itself where its sites exchange what they need to stop, else with that added."""
    return algorithm if algorithm.stops_together else StoppingTogether(algorithm, width, n_sites)
