"""EM on all rows, by sums of which no site learns another's part: every site takes the same steps.

One round is one sum over all sites: each adds its moments at the mixture that all hold, and all take the same step
from the total. Before the first, and where a component may have too few rows, one more sum counts them. Nothing else
is exchanged, so that what EM on one machine can do, every site does by itself: take longer steps, go back, stop. In
this process the sum is that of whole numbers which real sites add as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms import em
from gaussip.algorithms.base import SUMS, Algorithm, Info, register
from gaussip.algorithms.em import EM, m_step
from gaussip.algorithms.site import Site
from gaussip.algorithms.summed import LIMBS, Pooled, Summed, scarce, together, total_of
from gaussip.arrays import Array, NDArray, namespace
from gaussip.errors import CollapseError
from gaussip.exchange import Message
from gaussip.mixture.theta import Theta
from gaussip.rows.checks import column_name, enough
from gaussip.rows.moments import Moments
from gaussip.settings import default


class State(NamedTuple):
    """EM's State, and what all sites know of their rows."""

    inner: em.State
    sums: int  #: so far
    mass: Array  #: (...), of all rows; not known before the first round
    log_likelihood: Array  #: (...), of all rows, per row, at the last mixture that was not refused
    support: Array  #: (..., K, p), rows of all sites by component and feature; NaN where a site has no moments
    incomplete: bool = False  #: whether cells are missing


@register
@dataclass(frozen=True)
class Masked(EM):
    """Whole-sample EM between sites; a component that too few rows of all sites support ends the run."""

    min_count: int = default("min_count")
    name = "masked"
    title = "masked"
    source = SUMS

    def init(self, start: Theta, site: Site) -> State:  # type: ignore[override]
        """Begin at the start."""
        inner = super().init(start, site)
        unknown = namespace(start.means).zeros_like(inner.theta.means[..., 0, :, :]) + namespace(start.means).inf
        return State(inner, 0, unknown[..., 0, 0], -unknown[..., 0, 0], unknown)

    def message(self, state: State) -> Message:  # type: ignore[override]
        """Whether rows are counted before this round's moments are summed."""
        weights, mass = state.inner.theta.weights, state.mass[..., None, None]
        first = not state.sums or scarce(weights, mass, self.min_count, state.support)
        return {"counting": np.asarray(first)}

    def absorb(self, state: State, heard: Message) -> tuple[State, Theta]:  # type: ignore[override]
        """Moments are wanted at the current point."""
        inner, theta = super().absorb(state.inner, heard)
        return state._replace(inner=inner), theta

    def update(self, state: State, moments: Moments) -> State:  # type: ignore[override]
        """The sum over all sites, in this process, and the step that follows from it."""
        if not state.sums:
            mass = total_of(moments.mass[..., None], LIMBS)[..., 0]
            state = state._replace(mass=mass, incomplete=moments.observed is not None)
        return self.step(state, together(self.summed(state), moments), moments)

    def summed(self, state: State) -> Summed:
        """How the moments at the current point are summed."""
        return Summed(state.inner.theta, state.mass, state.incomplete)

    def step(self, state: State, pooled: Pooled, rule: Moments) -> State:
        """What all sites do with a total; ``rule`` is any site's moments, for how they were regularised."""
        xp = namespace(pooled.psi)
        support = pooled.seen
        if support is None:
            rows = pooled.mass[..., None] * pooled.psi[..., 0]
            support = xp.broadcast_to(rows[..., None], state.inner.theta.means.shape)
        support = support[..., 0, :, :]
        beyond = xp.asarray(self.extrapolated(state), device=support.device) & self._short(support)
        height = pooled.log_likelihood[..., 0]
        height = xp.where(beyond, xp.full_like(height, xp.nan), height)  # refused: EM's own image may have enough
        inner = self.follow(state.inner, pooled._replace(log_likelihood=height[..., None]), rule)
        refused = inner.course.refused if inner.course else xp.zeros_like(height) > 0
        support = xp.where(xp.isfinite(height)[..., None, None], support, xp.full_like(support, xp.nan))
        support = xp.where(refused[..., None, None], state.support, support)
        height = xp.where(refused, state.log_likelihood, height)
        return State(inner, state.sums + 1, pooled.mass[..., 0], height, support, state.incomplete)

    def extrapolated(self, state: State) -> NDArray:
        """Whether the current point is not EM's image of the last one, (...)."""
        course = state.inner.course
        return course.past.memory.extrapolated if course else np.zeros(state.mass.shape, dtype=bool)

    def _short(self, support: Array) -> Array:
        return namespace(support).any(~enough(support, self.min_count), axis=(-2, -1))

    def image(self, theta: Theta, pooled: Pooled, own: float) -> Theta:
        """EM's M-step for full covariances from moments about the means."""
        moved = m_step(pooled.psi, namespace(theta.means).zeros_like(theta.means), own)
        return moved._replace(means=theta.means + moved.means)

    def info(self, state: State) -> Info:  # type: ignore[override]
        """EM's, and how many rows support each component."""
        short = self._short(state.support)
        known = {"support": state.support, "short": short, "log_likelihood": state.log_likelihood}
        return super().info(state.inner)._replace(**known)

    def estimate(self, state: State) -> Theta:  # type: ignore[override]
        """EM's last image that was not refused."""
        return super().estimate(state.inner)


def support_error(
    number: int,
    support: NDArray,
    algorithm: Algorithm,
    classes: Sequence[Any] = (),
    features: Sequence[str] | None = None,
) -> CollapseError:
    """The error for a component that too few rows of all sites support, by component and feature, in a round."""
    assert isinstance(algorithm, Masked)
    if not np.isfinite(support).all():
        cause = (
            "some site's moments are not finite, or too large: its rows lie too far from the start, for its spread"
        )
        remedy = "give starting values nearer to the rows, or divide features by their standard deviations"
        return CollapseError(None, None, number, cause, remedy)
    k, j = (int(n) for n in np.unravel_index(support.argmin(), support.shape))
    few, fewer = support[k, j], f"fewer than min_count={algorithm.min_count}"
    cause = f"{few:.4g} rows of all sites together support it, {fewer}"
    remedy = "try fewer components or another start, look for outliers, or label rows of it"
    if enough(support[k].max(), algorithm.min_count):
        name = column_name(j, features)
        cause = f"{name!r} is observed in {few:.3g} rows of it at all sites together, {fewer}"
        remedy = f"try fewer components, or leave {name!r} out"
    return CollapseError(None, k, number, cause, remedy, classes[k] if k < len(classes) else None)
