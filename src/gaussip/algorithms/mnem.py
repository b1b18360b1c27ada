"""The momentum network EM (MNEM; semi-MNEM with labels), equation (4) of the paper and, with labels, (6)."""

from dataclasses import dataclass
from typing import NamedTuple

from gaussip.algorithms.base import Algorithm, register
from gaussip.algorithms.site import Site
from gaussip.arrays import Array
from gaussip.exchange import Message
from gaussip.mixture.theta import Psi, Theta, to_psi, to_theta
from gaussip.mixture.validity import are_mixtures
from gaussip.rows.moments import Moments, summary


class State(NamedTuple):
    """The site's psi, whose scale carries the mass, and the factor on its map."""

    psi: Psi
    factor: Array  #: (..., 1, 1)


@register
@dataclass(frozen=True)
class MNEM(Algorithm):
    """psi <- (1 - eta) psi~ + eta F_m(psi~), psi~ the neighbourhood average.

    As eta goes to zero the fixed point solves psi = sum_m pi_m F_m(psi) with pi the stationary weights of W. F_m
    is scaled by n_m / mean n, so that rows count alike, and divided by M pi_m as far as the site's degree shows it.
    """

    eta: float = 0.01
    name = "mnem"
    shows_contraction = True
    shows_site_maps = True

    def init(self, start: Theta, site: Site) -> State:
        """Begin at the start, with mass one."""
        return State(to_psi(start), (site.share / site.balance)[..., None, None])

    def message(self, state: State) -> Message:
        """psi."""
        return {"mean": state.psi}

    def check(self, message: Message, state: State) -> bool:
        """A neighbour's message is a mixture."""
        return are_mixtures(message["mean"])

    def absorb(self, state: State, heard: Message) -> tuple[State, Theta]:
        """Step 1: the neighbourhood average psi~; moments are wanted there."""
        state = state._replace(psi=heard["mean"])
        return state, to_theta(state.psi)

    def update(self, state: State, moments: Moments) -> State:
        """Step 2: equation (4), and (6) where rows are labelled."""
        psi = (1 - self.eta) * state.psi + self.eta * state.factor * summary(moments)
        return state._replace(psi=psi)

    def estimate(self, state: State) -> Theta:
        """Theta of the site's psi."""
        return to_theta(state.psi)
