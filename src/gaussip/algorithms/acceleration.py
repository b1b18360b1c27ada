"""EM in fewer evaluations: Anderson's acceleration, which never goes on from where EM itself would lose.

Near its end EM's map is nearly linear. From the last points and EM's steps from them, one sees where it is going, and
the next evaluation is there, not one step further. It is refused where it lost against the point before: the run then
goes on at EM's own image of that point. What counts is what EM's step from there raises: the log-likelihood, less a
penalty where covariances are regularised; see `gaussip.kernels.cpu.anderson`, which computes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.kernels.cpu import anderson
from gaussip.mixture.theta import Theta, width

HELD = 11  # points


class Memory(NamedTuple):
    """What is known of the map; arrays of NumPy with leading axes ``...``, one entry for each replicate."""

    points: NDArray  #: (..., HELD, K, f), coordinates of the last points evaluated
    steps: NDArray  #: (..., HELD, K, f), EM's from each of them
    held: NDArray  #: (...), how many of these there are; -1 where the next point has no coordinates
    length: NDArray  #: (...), of the last step
    log_likelihood: NDArray  #: (...), per row, at the last point that was not refused
    extrapolated: NDArray  #: (...), whether the point to evaluate next is
    at: NDArray  #: (..., K, f), its coordinates
    left: NDArray  #: (...), what the log-likelihood per row may still gain; infinite where that is not known


class Past(NamedTuple):
    """The evaluations so far."""

    memory: Memory
    best: Theta  #: EM's image of the last point that was not refused
    refused: NDArray  #: (...), how many were


class Regular(NamedTuple):
    """How an M-step regularises covariances: Sigma_k = (S2_k / S0_k + towards) / (1 + ratio)."""

    towards: NDArray  #: (..., p, p)
    ratio: float

    @classmethod
    def of(cls, reg_covar: NDArray | float, share: float, target: NDArray | float, n_features: int) -> Regular:
        """Of reg_covar, a number or one for each feature, and then shrinkage."""
        ratio = share / (1 - share)
        ridge = np.diag(np.zeros(n_features) + reg_covar)
        return cls(ridge + ratio * target if share else ridge, ratio)


def begin(start: Theta) -> Past:
    """Before the first evaluation."""
    *leading, K, p = start.means.shape
    at, known = np.zeros((*leading, K, width(p))), np.zeros(leading, dtype=bool)
    for place in np.ndindex(*leading):
        known[place] = anderson.coordinates(*(np.ascontiguousarray(part[place]) for part in start), at[place])
    empty, unknown = np.zeros((*leading, HELD, K, width(p))), np.full(leading, np.inf)
    held = np.where(known, 0, -1)
    return Past(Memory(empty, empty, held, unknown, -unknown, np.zeros_like(known), at, unknown), start, 0 * held)


def after(past: Past, image: Theta, log_likelihood: NDArray, regular: Regular) -> tuple[Past, Theta]:
    """What is known after one evaluation, and the point to evaluate next.

    Parameters
    ----------
    image : where EM leads from the point evaluated
    log_likelihood : (...), there, per row
    """
    *leading, _, p = image.means.shape
    S, replicates = math.prod(leading), len(leading)

    def flat(parts: Iterable[NDArray]) -> tuple[NDArray, ...]:
        """With one leading axis; views of new arrays."""
        return tuple(part.reshape(S, *part.shape[replicates:]) for part in parts)

    memory = Memory(*(np.array(part, order="C") for part in past.memory))
    best = Theta(*(np.array(part, order="C") for part in past.best))
    following = Theta(*map(np.empty_like, best))
    towards = np.zeros((*leading, p, p)) + regular.towards
    reached = flat(np.asarray(part, order="C") for part in (*image, log_likelihood, towards))
    anderson.advance(flat(memory), flat(best), reached[:3], *reached[3:], regular.ratio, flat(following))
    return Past(memory, best, past.refused + (past.memory.extrapolated & (memory.held == 0))), following
