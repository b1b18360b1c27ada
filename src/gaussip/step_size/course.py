"""How long MNEM takes: from the way that its map for small eta takes from the start.

For small eta the sites' psi follows psi' = F(psi) - psi, F the sites' average map, and a round is a step of eta on
that way. The way is walked once, in steps of one half; each tells how many rounds it stands for at any eta.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError
from gaussip.mixture.theta import Psi
from gaussip.step_size.bias import SiteMaps, fixed_point

STRIDE = 0.5
NEAR = 1e-5  # the walk ends when psi moves by less in a unit of time
LONGEST = 20_000  # steps of a walk
EVERY, THEN = 64, 1.05  # places that are kept: so many first steps, then each so many times as far as the last


class Way(NamedTuple):
    """The way from the start to where MNEM goes for small eta: places on it, of which not all are kept."""

    steps: NDArray  #: (J,), how many steps of one half lie before each
    places: list[Psi]
    moves: NDArray  #: (J,), the largest entry of F(psi) - psi there: what a run calls its change
    end: Psi  #: where the way leads, the fixed point of F

    @property
    def rate(self) -> float:
        """The rate of F, as the last steps show it."""
        if len(self.moves) < 2:
            return 0.0
        left = (self.moves[-1] / self.moves[-2]) ** (1 / (self.steps[-1] - self.steps[-2]))
        return float(np.clip(1 - (1 - left) / STRIDE, 0.0, 1 - 1e-9))


def walk(maps: SiteMaps, start: Psi) -> Way:
    """The way from a start."""
    kept: list[tuple[int, Psi, float]] = []
    psi, due, size = start, 0.0, np.inf
    for step in range(LONGEST):
        with np.errstate(all="ignore"):  # a component that vanishes divides by zero
            move = maps.drift(psi) - psi
        size = float(np.abs(move).max())
        if step >= due or not size > NEAR:
            kept.append((step, psi, size))
            due = step + 1 if step < EVERY else THEN * step
        if not size > NEAR:
            break
        psi = psi + STRIDE * move
    end = fixed_point(maps.drift, psi, maps.are_mixtures) if size <= NEAR else None
    if end is None:
        raise DataError(
            "EM on the rows of all sites does not settle from this start, so that there is nothing to come near: a "
            "component vanishes, or components cannot be told apart. Use fewer components, another start, labels or "
            "shrinkage"
        )
    steps, places, moves = zip(*kept, strict=True)
    return Way(np.array(steps), list(places), np.array(moves), end)


class Course(NamedTuple):
    """The distance to the end along the way, and what lies beyond the way."""

    steps: NDArray  #: (J,)
    distance: NDArray  #: (J,)
    moves: NDArray  #: (J,), the change there
    rate: float  #: of F, by which the distance shrinks beyond the last place

    def rounds(self, eta: float) -> NDArray:
        """Rounds of MNEM at this eta to each place, (J,).

        A step that leaves the share s of the distance stands for log(s) / log(1 - eta (1 - s) / h) rounds, h = 1/2.
        """
        n = np.diff(self.steps)
        pull = (1 - (self.distance[1:] / self.distance[:-1]) ** (1 / n)) / STRIDE  # 1 - rate on this stretch
        pull = np.clip(np.where(np.abs(pull) < 1e-9, 1e-9, pull), None, 0.99)
        return np.concatenate([[0.0], np.cumsum(n * np.log1p(-STRIDE * pull) / np.log1p(-eta * pull))])

    def rounds_to(self, distance: float, eta: float) -> float:
        """Rounds until the distance is down to this for good."""
        rounds = self.rounds(eta)
        far = np.flatnonzero(self.distance > distance)
        if far.size == 0:
            return 0.0
        j = int(far[-1])
        here, there = np.log(self.distance[j]), np.log(distance)
        if j + 1 == len(rounds):
            return float(rounds[j] + (there - here) / np.log1p(-eta * (1 - self.rate)))
        share = (there - here) / (np.log(self.distance[j + 1]) - here)
        return float(rounds[j] + share * (rounds[j + 1] - rounds[j]))

    def distance_after(self, n_rounds: int, eta: float) -> float:
        """What is left of the distance after so many rounds."""
        rounds = self.rounds(eta)
        beyond = max(0.0, n_rounds - rounds[-1]) * np.log1p(-eta * (1 - self.rate))
        return float(np.exp(np.interp(n_rounds, rounds, np.log(self.distance)) + beyond))

    def change_at(self, distance: float) -> float:
        """The change where the distance is down to this."""
        far = np.flatnonzero(self.distance > distance)
        j = int(far[-1]) if far.size else 0
        return float(self.moves[j] * min(1.0, distance / self.distance[j]))
