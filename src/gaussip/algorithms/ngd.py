"""Network gradient descent (NGD; Yuan, Ling and Yin 2016, Wu, Huang and Wang 2023), a competitor in the paper."""

from dataclasses import dataclass
from typing import NamedTuple

from gaussip.algorithms.base import Algorithm, register
from gaussip.algorithms.site import Site
from gaussip.arrays import Array, namespace, precision_factor
from gaussip.errors import SettingError, Text
from gaussip.exchange import Message
from gaussip.kernels.shaping import projected
from gaussip.mixture.covariance_types import FULL, LINEAR
from gaussip.mixture.theta import Theta, pack, unpack, unvech
from gaussip.mixture.validity import healthy
from gaussip.rows.moments import Moments, summary


class State(NamedTuple):
    """The estimate, packed, and the factor on the site's gradient."""

    theta: Array
    factor: Array  #: (..., 1, 1)


@register
@dataclass(frozen=True)
class NGD(Algorithm):
    """theta <- theta~ - eta grad L_m(theta~), theta~ the neighbourhood average; the weights stay on the simplex.

    Under a covariance type the covariances stay in its linear space.
    """

    eta: float = 0.01
    covariance_type: str = FULL
    name = "ngd"

    def __post_init__(self) -> None:
        """Refuse types that are no linear space."""
        if self.covariance_type not in LINEAR:
            raise SettingError(
                Text("ngd steps along gradients: it has no {covariance_type:{name!r}}", name=self.covariance_type),
                setting="covariance_type", remedy=Text("use {algorithm:'masked'}"),
            )  # fmt: skip

    def init(self, start: Theta, site: Site) -> State:
        """Begin at the start."""
        return State(pack(projected(self.covariance_type, start)), (site.share / site.balance)[..., None, None])

    def message(self, state: State) -> Message:
        """Theta."""
        return {"mean": state.theta}

    def check(self, message: Message, state: State) -> bool:
        """A neighbour's message is a mixture."""
        return bool(namespace(message["mean"]).all(healthy(unpack(message["mean"]))))

    def absorb(self, state: State, heard: Message) -> tuple[State, Theta]:
        """Moments are wanted at the neighbourhood average theta~."""
        state = state._replace(theta=heard["mean"])
        return state, self.estimate(state)

    def update(self, state: State, moments: Moments) -> State:
        """A gradient step from theta~; weights are projected back onto the simplex, covariances onto their type."""
        slope = state.factor * gradient(self.estimate(state), moments)
        theta = state.theta - self.eta * slope
        weights = onto_simplex(theta[..., 0])[..., None]
        theta = namespace(theta).concat([weights, theta[..., 1:]], axis=-1)
        if self.covariance_type != FULL:
            theta = pack(projected(self.covariance_type, unpack(theta)))
        return state._replace(theta=theta)

    def estimate(self, state: State) -> Theta:
        """The current estimate."""
        return unpack(state.theta)


def gradient(theta: Theta, moments: Moments) -> Array:
    """Gradient of L = -(log-likelihood) / n in the coordinates (alpha, mu, vech Sigma), (..., K, f).

    A coordinate of vech off the diagonal moves two entries of Sigma, so its derivative counts twice.
    """
    xp = namespace(theta.means)
    p = theta.means.shape[-1]
    mapped = summary(moments)
    A, B, G = mapped[..., 0], mapped[..., 1 : 1 + p], unvech(mapped[..., 1 + p :])
    factor = precision_factor(theta.covariances)
    precision = xp.matrix_transpose(factor) @ factor
    score = B - A[..., None] * theta.means
    by_covariance = 0.5 * (A[..., None, None] * precision - precision @ G @ precision)
    twice = 2.0 - xp.eye(p, dtype=G.dtype, device=G.device)
    return pack(Theta(-A / theta.weights, -(precision @ score[..., None])[..., 0], by_covariance * twice))


def onto_simplex(weights: Array) -> Array:
    """The nearest point of the simplex, (..., K)."""
    xp = namespace(weights)
    K = weights.shape[-1]
    falling = -xp.sort(-weights, axis=-1)
    rank = xp.arange(1, K + 1, dtype=weights.dtype, device=weights.device)
    excess = (xp.cumulative_sum(falling, axis=-1) - 1.0) / rank
    n_positive = xp.sum(xp.astype(falling > excess, weights.dtype), axis=-1, keepdims=True)
    at_last = xp.astype(rank == n_positive, weights.dtype)
    return xp.clip(weights - xp.sum(at_last * excess, axis=-1, keepdims=True), 0.0, None)
