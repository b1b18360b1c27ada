"""What an algorithm is: a small pure module over the moments of the hot function.

One round is one exchange with the neighbours. Whatever needs several exchanges is a phase in a State, not
a loop inside a step: `Algorithm.absorb` then returns None and the round ends there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, Protocol, TypeVar

import numpy as np

from gaussip.algorithms.site import Site
from gaussip.errors import PooledTargetWarning, SettingError
from gaussip.exchange import Exchange, Message
from gaussip.mixture.theta import Theta
from gaussip.networks import degree_shares, stationary_weights
from gaussip.rows.moments import Moments
from gaussip.settings import check


class Algorithm(Protocol):
    """Pure functions over a State of arrays and integers, with any leading axes.

    An algorithm whose sites find out by exchanges that all have settled, or that one of them failed, also has
    ``known_move(state)``, the largest move, (...), that all know of, and ``known_fault(state)``, one plus the index
    of a site where a component collapsed, or zero. A simulation then stops by the former, else by the moves that it
    sees itself; sites stop by both, and `gaussip.algorithms.stopping` gives both to the others. Sites also refuse a
    neighbour's message of which ``check(message, state)``, where there is one, says False.
    """

    name: str
    eta: float  #: the step; one where an algorithm has none
    two_way: bool  #: whether it mixes by Metropolis weights, whatever W's are, and so needs a two-way network
    exchanges: bool  #: whether it works without pooling rows, by what sites tell each other
    network_sets_target: bool  #: whether it aims at the rows weighted by W's stationary weights, so that W decides

    def init(self, start: Theta, site: Site) -> Any:
        """The State before the first round."""
        ...

    def message(self, state: Any) -> Message:
        """What the neighbours get this round."""
        ...

    def absorb(self, state: Any, heard: Message) -> tuple[Any, Theta | None]:
        """Take in what was heard; the theta at which moments are wanted, None to exchange again first."""
        ...

    def update(self, state: Any, moments: Moments) -> Any:
        """Take in the moments of the site's own rows: the State after the round."""
        ...

    def estimate(self, state: Any) -> Theta:
        """The site's current estimate."""
        ...


def one_round(
    algorithm: Algorithm, state: Any, exchange: Exchange, measure: Callable[[Theta], Moments]
) -> tuple[Any, Theta | None, Moments | None]:
    """One exchange and, where the algorithm wants it, one pass over the rows.

    Returns the State, and the theta and moments of the pass (None where there was none).
    """
    state, theta = algorithm.absorb(state, exchange(algorithm.message(state)))
    if theta is None:
        return state, None, None
    moments = measure(theta)
    return algorithm.update(state, moments), theta, moments


REGISTRY: dict[str, type[Any]] = {}
_Class = TypeVar("_Class", bound=type[Any])


def register(algorithm: _Class) -> _Class:
    """Class decorator: makes an algorithm available under its name everywhere."""
    REGISTRY[algorithm.name] = algorithm
    return algorithm


def make(name: str, eta: float) -> Algorithm:
    """The algorithm of that name; ``eta`` goes to those that have one."""
    if not isinstance(name, str) or name not in REGISTRY:
        known = ", ".join(sorted(REGISTRY))
        raise SettingError(f"there is no algorithm {name!r}; there are: {known}", setting="algorithm")
    check(eta=eta)
    algorithm = REGISTRY[name]
    made: Algorithm = algorithm(eta=float(eta)) if has_step(name) else algorithm()
    return made


def has_step(name: str) -> bool:
    """Whether the algorithm of that name has a step eta."""
    return "eta" in signature(REGISTRY[name]).parameters


def warn_if_not_pooled(algorithm: Algorithm, W: Any, weighting: str, sites: Sequence[Any]) -> None:
    """Say so where the network keeps ``weighting="rows"`` from aiming at the pooled estimate."""
    if weighting != "rows" or not algorithm.network_sets_target:
        return
    counted = len(sites) * stationary_weights(W) / degree_shares(W)
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
