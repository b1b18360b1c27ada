"""An algorithm as CONTRIBUTING describes it: the documented methods, and nothing else."""

from dataclasses import dataclass
from typing import NamedTuple

from gaussip.algorithms import Algorithm, register
from gaussip.mixture.theta import Psi, to_psi, to_theta
from gaussip.rows.moments import summary


class State(NamedTuple):
    psi: Psi
    share: Psi


@register
@dataclass(frozen=True)
class Relaxed(Algorithm):
    """Every site moves a part of the way to its own map from its neighbours' average."""

    eta: float = 0.2
    name = "relaxed"

    def init(self, start, site):
        return State(to_psi(start), site.share[..., None, None])

    def message(self, state):
        return {"mean": state.psi}

    def absorb(self, state, heard):
        state = state._replace(psi=heard["mean"])
        return state, to_theta(state.psi)

    def update(self, state, moments):
        return state._replace(psi=(1 - self.eta) * state.psi + self.eta * state.share * summary(moments))

    def estimate(self, state):
        return to_theta(state.psi)


if __name__ == "__main__":
    from gaussip.cli import main

    main()  # the gaussip command, with this algorithm
