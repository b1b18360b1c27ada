"""What an algorithm is: a small pure module over the moments of the hot function.

One round is one exchange with the neighbours. Whatever needs several exchanges is a stage in a State, not a loop
inside a step: `Algorithm.absorb` then returns None and the round ends there.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from gaussip.algorithms.site import Site
from gaussip.arrays import Array
from gaussip.errors import PooledTargetWarning, SettingError, Text
from gaussip.exchange import Message
from gaussip.mixture.covariance_types import FULL
from gaussip.mixture.theta import Theta
from gaussip.networks import degree_shares, stationary_weights
from gaussip.rows.moments import Moments

NEIGHBOURS, SUMS, POOLED, ALONE = "neighbours", "sums", "pooled", "alone"  # how an algorithm learns of other rows


class Info(NamedTuple):
    """What the rest of a run needs to know of a State; arrays of the leading shape, or plain numbers."""

    step: Array | float  #: the step in force
    restarts: Array | float = 0  #: how often all sites went back to an earlier State
    settled: Array | None = None  #: the largest move anywhere that all sites know of; None: sites do not exchange it
    fault: Array | float = 0  #: one plus the index of a site that all know to have failed; zero if there is none
    failing: Array | bool = False  #: whether this site's mixture was impossible in a recent step
    change: Array | None = None  #: the last move, (...); None: from the last estimate to this one
    refused: Array | bool = False  #: whether moments were taken where nothing was gained, and the estimate stays
    log_likelihood: Array | None = None  #: (...), per row, where the estimate came from; None: at the last theta
    pending: Array | bool = False  #: whether some site failed for good, and not all know of it yet
    support: Array | None = None  #: (..., K), rows of all sites by component; None: sites do not know them
    short: Array | bool = False  #: (...), whether some component has too few of them


class Algorithm(ABC):
    """Pure functions over a State of arrays and integers, with any leading axes.

    The attributes declare what an algorithm can do; a class overrides those that differ.
    """

    name: str
    title: str = ""  #: the name as people write it; in capitals by default
    eta: float = 1.0  #: the step; one where an algorithm has none
    source: str = NEIGHBOURS
    #: NEIGHBOURS: by gossip; SUMS: by sums over all sites; POOLED: all rows in one process; ALONE: not at all
    two_way: bool = False  #: whether it mixes by Metropolis weights, and so needs a two-way network
    network_sets_target: bool = True  #: whether it aims at the rows weighted by W's stationary weights
    one_estimate: bool = False  #: whether it brings all sites to one estimate
    replicated: bool = False  #: whether all sites hold the same estimate, to the last bit, in every round
    steady: bool = True  #: whether its changes fall at a constant rate in the end
    shows_contraction: bool = False  #: whether its late decay is 1 - step (1 - L), with L EM's contraction
    shows_site_maps: bool = False  #: whether it ends where psi = (1 - eta) psi~ + eta F_m(psi~), which shows each F_m
    stops_together: bool = False  #: whether its sites find out by exchanges that all have settled, or that one failed
    most_restarts: int = 0  #: after how many an impossible mixture is a collapse
    covariance_type: str = FULL  #: of its mixtures; `making.Shaped` gives algorithms a type that have none

    @abstractmethod
    def init(self, start: Theta, site: Site) -> Any:
        """The State before the first round."""

    @abstractmethod
    def message(self, state: Any) -> Message:
        """What the neighbours get this round."""

    @abstractmethod
    def absorb(self, state: Any, heard: Message) -> tuple[Any, Theta | None]:
        """Take in the neighbours' messages; the theta at which moments are wanted, None to exchange again first."""

    @abstractmethod
    def update(self, state: Any, moments: Moments) -> Any:
        """Take in the moments of the site's own rows: the State after the round."""

    @abstractmethod
    def estimate(self, state: Any) -> Theta:
        """The site's current estimate."""

    def info(self, state: Any) -> Info:
        """What others need to know of a State."""
        return Info(self.eta)

    def attempt(self, state: Any, moments: Moments) -> Theta:
        """The estimate that an update leads to, impossible or not: for naming the component that collapsed."""
        return self.estimate(self.update(state, moments))

    def check(self, message: Message, state: Any) -> bool:
        """Whether a neighbour can have sent this; a site rejects other messages."""
        return True


class Step(NamedTuple):
    """What a round that passed over the rows computed."""

    theta: Theta  #: where the moments were taken
    moments: Moments
    info: Info  #: of the State after the round


Measure = Callable[[Theta], Moments]
Combine = Callable[[Message], Message]  # a message in, the neighbours' out, combined channel by channel


def one_round(algorithm: Algorithm, state: Any, exchange: Combine, measure: Measure) -> tuple[Any, Step | None]:
    """One exchange and, where the algorithm wants it, one pass over the rows."""
    return finish_round(algorithm, state, exchange(algorithm.message(state)), measure)


def finish_round(algorithm: Algorithm, state: Any, heard: Message, measure: Measure) -> tuple[Any, Step | None]:
    """The rest of a round, after its exchange."""
    state, theta = algorithm.absorb(state, heard)
    if theta is None:
        return state, None
    moments = measure(theta)
    state = algorithm.update(state, moments)
    return state, Step(theta, moments, algorithm.info(state))


REGISTRY: dict[str, type[Algorithm]] = {}
_Class = TypeVar("_Class", bound=type[Algorithm])


def register(algorithm: _Class) -> _Class:
    """Class decorator: makes an algorithm available under its name everywhere."""
    algorithm.title = algorithm.title or algorithm.name.upper()
    REGISTRY[algorithm.name] = algorithm
    return algorithm


def between_sites() -> list[str]:
    """The names of the algorithms that run between sites."""
    return sorted(name for name, kind in REGISTRY.items() if kind.source in (NEIGHBOURS, SUMS))


def warn_if_not_pooled(algorithm: Algorithm, W: Any, weighting: str, sites: Sequence[Any]) -> None:
    """Warn where the network keeps ``weighting="rows"`` from aiming at the pooled estimate."""
    if weighting != "rows" or not algorithm.network_sets_target:
        return
    shares = degree_shares(W) / len(sites)
    if np.abs(sparse.csr_array(W).T @ shares - shares).max() <= 1e-12:  # these are the stationary weights
        return
    counted = stationary_weights(W) / shares
    if np.abs(counted - 1).max() > 1e-6:
        low, high = int(counted.argmin()), int(counted.argmax())
        warnings.warn(
            f"on this network a row does not count the same at every site: {counted[low]:.2f} times at site "
            f"{sites[low]!r}, {counted[high]:.2f} times at site {sites[high]!r}, so {algorithm.name} does not aim "
            "at the pooled estimate. Use a circle, a complete network, or a two-way network (ring, grid, "
            "random-regular, ...), or give a weight matrix whose columns sum to one.",
            PooledTargetWarning,
            stacklevel=3,
        )


def refuse_unpooled_sums(algorithm: Algorithm, weighting: str) -> None:
    """Refuse a weighting that sums do not have."""
    if algorithm.source == SUMS and weighting != "rows":
        raise SettingError(
            Text("{name} counts every row alike: it needs {weighting:'rows'}", name=algorithm.name),
            setting="weighting",
        )
