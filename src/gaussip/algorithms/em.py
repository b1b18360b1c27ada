"""EM on the whole sample (and semi-EM, with labels): the yardstick, equations (1) and (2) of the paper.

All sites must be in one process: the moments are averaged over the site axis, as if the rows were pooled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from gaussip.algorithms.base import Site, register
from gaussip.arrays import Array, namespace
from gaussip.exchange import Message
from gaussip.moments import Moments, summary
from gaussip.parameters import Psi, Theta, scale, to_theta


class State(NamedTuple):
    """The estimate and the site's share of the pooled rows."""

    theta: Theta
    share: Array


@register
@dataclass(frozen=True)
class EM:
    """Whole-sample EM; every site gets the same, pooled estimate."""

    name: ClassVar[str] = "em"
    eta: ClassVar[float] = 1.0
    pooled_limit: ClassVar[bool] = False  # it is pooled on any network

    def init(self, start: Theta, site: Site) -> State:
        """Begin at the start."""
        return State(start, site.share)

    def message(self, state: State) -> Message:
        """Nothing is exchanged: the rows are pooled."""
        return {}

    def absorb(self, state: State, heard: Message) -> tuple[State, Theta]:
        """Moments are wanted at the current estimate."""
        return state, state.theta

    def update(self, state: State, moments: Moments) -> State:
        """The M-step, equations (1) and (2)."""
        gathered = self.gather(scale(summary(moments), state.share))
        return State(m_step(gathered, state.theta.means), state.share)

    def estimate(self, state: State) -> Theta:
        """The current estimate."""
        return state.theta

    def gather(self, psi: Psi) -> Psi:
        """The average over sites, given back to every site."""
        xp = namespace(psi.alpha)
        axis = psi.alpha.ndim - 2
        return Psi(*(xp.broadcast_to(xp.mean(x, axis=axis, keepdims=True), x.shape) for x in psi))


def m_step(psi: Psi, about: Array) -> Theta:
    """Theta of (A, B, G) with G about other means than the new: Sigma = G/A - (mu - about)(mu - about)'."""
    theta = to_theta(psi)
    moved = theta.means - about
    return theta._replace(covariances=theta.covariances - moved[..., :, None] * moved[..., None, :])
