"""What an algorithm is: a small pure module over the moments of the hot function.

One round is one exchange with the neighbours. Whatever needs several exchanges is a phase in a State, not
a loop inside a step: `Algorithm.absorb` then returns None and the round ends there.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from numbers import Real
from typing import Any, NamedTuple, Protocol, TypeVar

from gaussip.arrays import Array
from gaussip.errors import SettingError
from gaussip.exchange import Exchange, Message
from gaussip.moments import Moments
from gaussip.parameters import Theta


class Site(NamedTuple):
    """What a site knows of itself and its place in the network; arrays of the leading shape."""

    share: Array  #: nu_m, the factor on its map F_m: n_m / mean n, or one where sites count equally
    balance: Array  #: M pi_m as far as its own degree tells, one otherwise; see `gaussip.networks.degree_shares`
    degree: Array  #: how many others it hears
    index: Array  #: its place among the sites in sorted order
    links: Array  #: (..., M), one at the places of those it hears


class Algorithm(Protocol):
    """Pure functions over a State of arrays and integers, with any leading axes.

    An algorithm whose sites find out by exchanges that all have settled, or that one of them failed, also has
    ``known_move(state)``, the largest move, (...), that all know of, and ``known_fault(state)``, one plus the index
    of a site where a component collapsed, or zero. A simulation then stops by the former, else by the moves that it
    sees itself; sites stop by both, and `gaussip.algorithms.together` gives both to the others. Sites also refuse a
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
        raise SettingError(f"there is no algorithm {name!r}; there are: {', '.join(sorted(REGISTRY))}")
    if not isinstance(eta, Real) or isinstance(eta, bool) or not 0 < float(eta) <= 1:
        raise SettingError(f"eta={eta!r} must be a number in (0, 1]")
    algorithm = REGISTRY[name]
    made: Algorithm = algorithm(eta=float(eta)) if has_step(name) else algorithm()
    return made


def has_step(name: str) -> bool:
    """Whether the algorithm of that name has a step eta."""
    return "eta" in signature(REGISTRY[name]).parameters
