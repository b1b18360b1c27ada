"""What is recorded of a run, round by round."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.mixture.theta import Theta

WHOLE_SAMPLE, SIMULATION, MPI, SITE = "whole sample", "simulation", "mpi", "site"  # where a fit comes from


class History(NamedTuple):
    """What is recorded of each round; arrays over rounds, then over replicates where there are any."""

    round: NDArray  #: counted from 1
    log_likelihood: (
        NDArray  #: mean per unit of row weight, at the last thetas that moments were taken at and that were kept
    )
    change: NDArray  #: largest move of psi at any site, divided by eta, in the start's units; accelerated, EM's own
    disagreement: NDArray  #: root mean square distance of the sites' psi from their mean, same units
    step: NDArray  #: the step in force
    restarts: NDArray  #: how often all sites went back so far
    exchanges: NDArray  #: of messages so far: one in a round of gossip, several in a sum
    bytes: NDArray  #: sent so far over the whole network; by a real site, its own

    @classmethod
    def of(cls, rounds: list[tuple[Any, ...]]) -> History:
        """The history of rounds given one after the other."""
        return cls(*(np.asarray([record[j] for record in rounds]) for j in range(len(cls._fields))))


class Progress(NamedTuple):
    """One round as a watcher sees it; see `History`."""

    theta: Theta  #: each site's estimate
    round: int
    log_likelihood: NDArray
    change: NDArray
    disagreement: NDArray
    step: NDArray
    restarts: NDArray
    exchanges: int
    bytes: int
