"""Distributed EM over sensor networks (DEM; Gu 2008), a competitor in the paper.

A consensus filter tracks the average of the sites' summaries, one filter step per E-step. Its fixed point
(I + L)^(-1) u, L the network's Laplacian, is not the pooled one on heterogeneous data, whatever eta. The sum over
the neighbours is taken as degree times (weighted average - own): the plain sum where W is row-normalised, and a
weighted one, L = diag(degree) (I - W), for other weights.
"""

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
    """The filter's x, the average last heard, and the site's share and degree."""

    x: Psi
    heard: Psi
    share: Array  #: (..., 1, 1)
    degree: Array  #: (..., 1, 1)


@register
@dataclass(frozen=True)
class DEM(Algorithm):
    """x_m += eta { sum over heard q (x_q - x_m) + (F_m(x_m) - x_m) }."""

    eta: float = 0.01
    name = "dem"
    network_sets_target = False

    def init(self, start: Theta, site: Site) -> State:
        """Begin with the filter at the start."""
        x = to_psi(start)
        return State(x, x, site.share[..., None, None], site.degree[..., None, None])

    def message(self, state: State) -> Message:
        """The filter's state."""
        return {"mean": state.x}

    def check(self, message: Message, state: State) -> bool:
        """A neighbour's message is a mixture."""
        return are_mixtures(message["mean"])

    def absorb(self, state: State, heard: Message) -> tuple[State, Theta]:
        """Remember the neighbours' average; moments are wanted at the site's own x."""
        return state._replace(heard=heard["mean"]), to_theta(state.x)

    def update(self, state: State, moments: Moments) -> State:
        """One filter step."""
        step = state.degree * (state.heard - state.x) + (state.share * summary(moments) - state.x)
        return state._replace(x=state.x + self.eta * step)

    def estimate(self, state: State) -> Theta:
        """Theta of the filter's state."""
        return to_theta(state.x)
