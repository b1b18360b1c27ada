"""What is recorded of a run, round by round."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import Array, NDArray, namespace, to_numpy
from gaussip.moments import Moments
from gaussip.parameters import Theta, pack, to_psi, unit_of


class History(NamedTuple):
    """What is recorded of each round; arrays over rounds, then over replicates where there are any."""

    round: NDArray  #: counted from 1
    log_likelihood: NDArray  #: mean per unit of row weight, at the thetas the round's moments were taken at
    change: NDArray  #: largest move of psi at any site, divided by eta, in the start's standard units
    disagreement: NDArray  #: root mean square distance of the sites' psi from their mean, same units
    bytes: NDArray  #: bytes sent over the whole network since the first round


class Progress(NamedTuple):
    """One round as a watcher sees it; see `History`."""

    theta: Theta  #: each site's estimate
    round: int
    log_likelihood: NDArray
    change: NDArray
    disagreement: NDArray
    bytes: int


class Recorder:
    """Measures each round of a run with leading axes (..., M).

    Moves are measured in units in which the start's mixture has mean zero and unit variances: all sites know
    the start, so all measure in one unit, and a tolerance means the same for ages and for cell counts.
    """

    def __init__(self, start: Theta, mass: Array, eta: float) -> None:
        xp = namespace(mass)
        axis = mass.ndim - 1
        middle = Theta(*(xp.mean(part, axis=axis, keepdims=True) for part in start))
        self._unit = unit_of(middle)
        self._mass = xp.sum(mass, axis=-1)
        self._eta = eta
        self._last = self._psi(start)
        self._rounds: list[tuple[Any, ...]] = []

    def _psi(self, theta: Theta) -> Array:
        return pack(self._unit.standard(to_psi(theta)))

    def record(self, number: int, theta: Theta, found: Moments, sent: int) -> Progress:
        """Measure one round."""
        now = self._psi(theta)
        xp = namespace(now)
        apart = now - xp.mean(now, axis=-2, keepdims=True)
        measured = (
            xp.sum(found.log_likelihood, axis=-1) / self._mass,
            xp.max(xp.abs(now - self._last), axis=(-2, -1)) / self._eta,
            xp.sqrt(xp.mean(xp.sum(apart * apart, axis=-1), axis=-1)),
        )
        self._last = now
        self._rounds.append((number, *map(to_numpy, measured), sent))
        return Progress(theta, *self._rounds[-1])

    def history(self) -> History:
        """All rounds recorded so far."""
        return History(*(np.asarray([one[j] for one in self._rounds]) for j in range(len(History._fields))))
