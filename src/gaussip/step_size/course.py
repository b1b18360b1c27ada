"""How many rounds MNEM takes, from the path that its map for small eta follows from the start.

For small eta the sites' psi follows psi' = F(psi) - psi, with F the sites' average map, and a round is a step of eta
along that path. The path is computed once, in steps of one half; from each step follows how many rounds it takes at
any eta.
"""

from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError
from gaussip.mixture.theta import Psi
from gaussip.step_size.bias import SiteMaps, fixed_point

STRIDE = 0.5
NEAR = 1e-5  # the path ends when psi moves by less in a unit of time
LONGEST = 20_000  # steps of a path
EVERY, THEN = 64, 1.05  # points that are kept: the first 64, then each 1.05 times as far along as the last


class Path(NamedTuple):
    """Points on the path from the start to MNEM's limit for small eta."""

    steps: NDArray  #: (J,), the number of steps of one half before each point
    points: list[Psi]
    moves: NDArray  #: (J,), the largest entry of F(psi) - psi there: what a run calls its change
    end: Psi  #: the fixed point of F

    @property
    def rate(self) -> float:
        """The rate of F, estimated from the last steps."""
        if len(self.moves) < 2:
            return 0.0
        left = (self.moves[-1] / self.moves[-2]) ** (1 / (self.steps[-1] - self.steps[-2]))
        return float(np.clip(1 - (1 - left) / STRIDE, 0.0, 1 - 1e-9))


def path_from(maps: SiteMaps, start: Psi) -> Path:
    """The path from a start."""
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
            "EM on the rows of all sites does not converge from this start, so there is no pooled estimate: a "
            "component vanishes, or components cannot be distinguished. Use fewer components, another start, labels "
            "or shrinkage"
        )
    steps, points, moves = zip(*kept, strict=True)
    return Path(np.array(steps), list(points), np.array(moves), end)


class Course(NamedTuple):
    """The distance to the end along the path, and its extrapolation beyond."""

    steps: NDArray  #: (J,)
    distance: NDArray  #: (J,)
    moves: NDArray  #: (J,), the change there
    rate: float  #: of F, by which the distance shrinks beyond the last point

    def rounds(self, eta: float) -> NDArray:
        """Rounds of MNEM at this eta to each point, (J,).

        A step that leaves the share s of the distance takes log(s) / log(1 - eta (1 - s) / h) rounds, h = 1/2.
        """
        n = np.diff(self.steps)
        pull = (1 - (self.distance[1:] / self.distance[:-1]) ** (1 / n)) / STRIDE  # 1 - rate on this stretch
        pull = np.clip(np.where(np.abs(pull) < 1e-9, 1e-9, pull), None, 0.99)
        return np.concatenate([[0.0], np.cumsum(n * np.log1p(-STRIDE * pull) / np.log1p(-eta * pull))])

    def rounds_to(self, distance: float, eta: float) -> float:
        """Rounds after which the distance stays below this."""
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
        """The distance left after this many rounds."""
        rounds = self.rounds(eta)
        beyond = max(0.0, n_rounds - rounds[-1]) * np.log1p(-eta * (1 - self.rate))
        return float(np.exp(np.interp(n_rounds, rounds, np.log(self.distance)) + beyond))

    def change_at(self, distance: float) -> float:
        """The change at the point where the distance falls below this."""
        far = np.flatnonzero(self.distance > distance)
        j = int(far[-1]) if far.size else 0
        return float(self.moves[j] * min(1.0, distance / self.distance[j]))
