"""EM on the whole sample (and semi-EM, with labels): the yardstick, equations (1) and (2) of the paper.

All sites must be in one process: the moments are summed over the site axis, as if the rows were pooled.
"""

from dataclasses import dataclass
from typing import NamedTuple

from gaussip.algorithms.base import POOLED, Algorithm, register
from gaussip.algorithms.site import Site
from gaussip.arrays import Array, namespace
from gaussip.exchange import Message
from gaussip.mixture.theta import Psi, Theta, to_theta
from gaussip.rows.moments import Moments, summary


class State(NamedTuple):
    """The estimate."""

    theta: Theta


@register
@dataclass(frozen=True)
class EM(Algorithm):
    """Whole-sample EM; every site gets the same, pooled estimate, whatever the network and the weighting."""

    name = "em"
    network_sets_target = False
    source = POOLED
    one_estimate = True
    shows_contraction = True

    def init(self, start: Theta, site: Site) -> State:
        """Begin at the start."""
        return State(start)

    def message(self, state: State) -> Message:
        """Nothing is exchanged: the rows are pooled."""
        return {}

    def absorb(self, state: State, heard: Message) -> tuple[State, Theta]:
        """Moments are wanted at the current estimate."""
        return state, state.theta

    def update(self, state: State, moments: Moments) -> State:
        """The M-step, equations (1) and (2)."""
        return State(m_step(summary(self.gather(moments)), state.theta.means, 1 - moments.shrunk))

    def estimate(self, state: State) -> Theta:
        """The current estimate."""
        return state.theta

    def gather(self, moments: Moments) -> Moments:
        """The sum over sites, given back to every site."""
        xp = namespace(moments.mass)
        axis = moments.mass.ndim - 1
        mass, sums, log_likelihood = (
            xp.broadcast_to(xp.sum(x, axis=axis, keepdims=True), x.shape) for x in moments[:3]
        )
        return Moments(mass, sums, log_likelihood, moments.shrunk)


def m_step(psi: Psi, about: Array, own: float = 1.0) -> Theta:
    """Theta of (A, B, G) with G about other means than the new: Sigma = G/A - own (mu - about)(mu - about)'.

    ``own`` is the share of G that is the rows'; the rest is a target's, which was about no mean.
    """
    theta = to_theta(psi)
    moved = theta.means - about
    return theta._replace(covariances=theta.covariances - own * moved[..., :, None] * moved[..., None, :])
