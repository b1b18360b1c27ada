"""What is recorded of a run, round by round."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import Array, NDArray, compiled, namespace
from gaussip.parameters import Psi, Theta, Unit, to_psi, unit_of


class History(NamedTuple):
    """What is recorded of each round; arrays over rounds, then over replicates where there are any."""

    round: NDArray  #: counted from 1
    log_likelihood: NDArray  #: mean per unit of row weight, at the thetas the round's moments were taken at
    change: NDArray  #: largest move of psi at any site, divided by eta, in the start's standard units
    disagreement: NDArray  #: root mean square distance of the sites' psi from their mean, same units
    bytes: NDArray  #: bytes sent over the whole network since the first round

    @classmethod
    def of(cls, rounds: list[tuple[Any, ...]]) -> History:
        """The history of rounds given one after the other."""
        return cls(*(np.asarray([one[j] for one in rounds]) for j in range(len(cls._fields))))


class Progress(NamedTuple):
    """One round as a watcher sees it; see `History`."""

    theta: Theta  #: each site's estimate
    round: int
    log_likelihood: NDArray
    change: NDArray
    disagreement: NDArray
    bytes: int


def unit_of_start(start: Theta) -> Unit:
    """The unit of a run with leading axes (..., M): the start's mixture has mean zero and unit variances in it.

    All sites know the start, so all measure in one unit, and a tolerance means the same for ages and for cell counts.
    """
    xp = namespace(start.means)
    axis = start.means.ndim - 3
    return unit_of(Theta(*(xp.mean(part, axis=axis, keepdims=True) for part in start)))


def measure(theta: Theta, unit: Unit, last: Psi) -> tuple[Psi, Array, Array]:
    """psi in the unit, its largest move since the last, and the sites' root mean square distance from their mean.

    For leading axes (..., M): (..., M, K, f), (...) and (...).
    """
    small = compiled(last)
    if small is not None:
        now, change, disagreement = small.measure(*theta, *unit, last)
        return now, change, disagreement
    xp = namespace(last)
    now = unit.standard(to_psi(theta))
    apart = now - xp.mean(now, axis=-3, keepdims=True)
    change = xp.max(xp.abs(now - last), axis=(-3, -2, -1))
    return now, change, xp.sqrt(xp.mean(xp.sum(apart * apart, axis=(-2, -1)), axis=-1))
