"""Algorithms by name, with the settings and the covariance type they are to have."""

from inspect import signature
from typing import Any

from gaussip.algorithms.base import REGISTRY, Algorithm, Info
from gaussip.algorithms.site import Site
from gaussip.errors import SettingError
from gaussip.exchange import Message
from gaussip.kernels.shaping import shaped
from gaussip.mixture.covariance_types import FULL, named
from gaussip.mixture.theta import Theta
from gaussip.rows.moments import Moments
from gaussip.settings import check, default


def make(
    name: str,
    eta: float,
    accelerate: bool = True,
    min_count: int = default("min_count"),
    covariance_type: str = FULL,
) -> Algorithm:
    """The algorithm of that name; the settings go to those that have them.

    An algorithm that has no ``covariance_type`` of its own gets it from `Shaped`.
    """
    if not isinstance(name, str) or name not in REGISTRY:
        known = ", ".join(sorted(REGISTRY))
        raise SettingError(f"there is no algorithm {name!r}; there are: {known}", setting="algorithm")
    check(eta=eta, accelerate=accelerate, min_count=min_count, covariance_type=covariance_type)
    kind = named(covariance_type)
    given = {"eta": float(eta), "accelerate": bool(accelerate), "min_count": min_count, "covariance_type": kind}
    wanted = signature(REGISTRY[name]).parameters
    made: Algorithm = REGISTRY[name](**{key: value for key, value in given.items() if key in wanted})
    return made if kind == FULL or "covariance_type" in wanted else Shaped(made, kind)


def has_step(name: str) -> bool:
    """Whether the algorithm of that name has a step eta."""
    return "eta" in signature(REGISTRY[name]).parameters


class Shaped(Algorithm):
    """An algorithm whose mixtures have covariances of one type.

    Sites exchange full moments, as without it; each takes its moments at the mixture that the type makes of them.
    Where all sites agree, that is a fixed point of pooled EM under the type.
    """

    shows_site_maps = False  # the type hides what was mixed

    def __init__(self, inner: Algorithm, covariance_type: str) -> None:
        self.inner, self.covariance_type = inner, covariance_type
        self.name, self.title, self.eta, self.source = inner.name, inner.title, inner.eta, inner.source
        self.two_way, self.network_sets_target = inner.two_way, inner.network_sets_target
        self.one_estimate, self.replicated, self.steady = inner.one_estimate, inner.replicated, inner.steady
        self.shows_contraction, self.stops_together = inner.shows_contraction, inner.stops_together
        self.most_restarts = inner.most_restarts

    def __repr__(self) -> str:
        return f"Shaped({self.inner!r}, {self.covariance_type!r})"

    def init(self, start: Theta, site: Site) -> Any:
        """Begin at the start, shaped."""
        return self.inner.init(shaped(self.covariance_type, start), site)

    def message(self, state: Any) -> Message:
        """The algorithm's own."""
        return self.inner.message(state)

    def absorb(self, state: Any, heard: Message) -> tuple[Any, Theta | None]:
        """Moments are wanted at the shaped mixture."""
        state, theta = self.inner.absorb(state, heard)
        return state, None if theta is None else shaped(self.covariance_type, theta)

    def update(self, state: Any, moments: Moments) -> Any:
        """The algorithm's own."""
        return self.inner.update(state, moments)

    def estimate(self, state: Any) -> Theta:
        """The shaped mixture."""
        return shaped(self.covariance_type, self.inner.estimate(state))

    def info(self, state: Any) -> Info:
        """The algorithm's own."""
        return self.inner.info(state)

    def attempt(self, state: Any, moments: Moments) -> Theta:
        """The shaped mixture that an update leads to."""
        return shaped(self.covariance_type, self.inner.attempt(state, moments))

    def check(self, message: Message, state: Any) -> bool:
        """The algorithm's own."""
        return self.inner.check(message, state)
