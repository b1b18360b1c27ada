"""The naive network EM, equation (3) of the paper: average theta over the neighbours, then an EM step.

Biased where sites hold different patients. A site's share rides in its weights, which mixing turns into
mass-weighted mixture weights; no weighting makes its means and covariances the pooled ones.
"""

from dataclasses import dataclass
from typing import NamedTuple

from gaussip.algorithms.base import Algorithm, register
from gaussip.algorithms.site import Site
from gaussip.arrays import Array, namespace
from gaussip.exchange import Message
from gaussip.mixture.theta import Theta, normalised, pack, unpack
from gaussip.mixture.validity import healthy
from gaussip.rows.moments import Moments, summary


class State(NamedTuple):
    """The estimate, packed, its weights scaled by the site's share."""

    theta: Array
    share: Array  #: (..., 1, 1)


@register
@dataclass(frozen=True)
class NNEM(Algorithm):
    """Naive network EM."""

    name = "nnem"
    network_sets_target = False

    def init(self, start: Theta, site: Site) -> State:
        """Begin at the start."""
        return State(pack(start), site.share[..., None, None])

    def message(self, state: State) -> Message:
        """Theta."""
        return {"mean": state.theta}

    def check(self, message: Message, state: State) -> bool:
        """A neighbour's message is a mixture."""
        return bool(namespace(message["mean"]).all(healthy(normalised(unpack(message["mean"])))))

    def absorb(self, state: State, heard: Message) -> tuple[State, Theta]:
        """Moments are wanted at the neighbourhood average theta~."""
        state = state._replace(theta=heard["mean"])
        return state, self.estimate(state)

    def update(self, state: State, moments: Moments) -> State:
        """alpha = A, mu = B / alpha, Sigma = G / alpha with G about mu~: equation (3)."""
        mapped = summary(moments)
        A = mapped[..., :1]
        theta = namespace(A).concat([A * state.share, mapped[..., 1:] / A], axis=-1)
        return state._replace(theta=theta)

    def estimate(self, state: State) -> Theta:
        """The estimate with weights on the simplex."""
        return normalised(unpack(state.theta))
