"""EM on the whole sample (and semi-EM, with labels): the yardstick, equations (1) and (2) of the paper.

All sites must be in one process: the moments are summed over the site axis, as if the rows were pooled.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from gaussip.algorithms import acceleration
from gaussip.algorithms.base import POOLED, Algorithm, Info, register
from gaussip.algorithms.site import Site
from gaussip.algorithms.summed import Pooled
from gaussip.arrays import Array, namespace, to_numpy
from gaussip.exchange import Message
from gaussip.kernels.shaping import shaped
from gaussip.mixture.covariance_types import FULL, LINEAR
from gaussip.mixture.theta import Psi, Theta, broadcast, consensus, first_site, pack, to_psi, to_theta
from gaussip.mixture.units import Unit, measure, unit_of
from gaussip.rows.moments import Moments

_ALL = slice(None)


class Course(NamedTuple):
    """What acceleration adds."""

    past: acceleration.Past
    best: Theta  #: the estimate, as the rows' library has it
    unit: Unit  #: the start's: moves are measured in it
    change: Array  #: (...), EM's move from the last point that was not refused
    refused: Array  #: (...), whether the last point was


class State(NamedTuple):
    """Where moments are wanted next; one mixture for all sites has a site axis of length one."""

    theta: Theta
    sites: Array  #: (..., M), as many entries as there are sites
    course: Course | tuple[()]  #: nothing in plain EM


@register
@dataclass(frozen=True)
class EM(Algorithm):
    """Whole-sample EM; every site gets the same, pooled estimate, whatever the network and the weighting."""

    accelerate: bool = True
    covariance_type: str = FULL
    name = "em"
    network_sets_target = False
    source = POOLED
    one_estimate = True
    replicated = True

    @property
    def looks_ahead(self) -> bool:
        """Whether steps are accelerated: sums of Cholesky factors must have the covariance type."""
        return self.accelerate and self.covariance_type in LINEAR

    @property
    def steady(self) -> bool:  # type: ignore[override]
        """Only where every step is EM's."""
        return not self.looks_ahead

    @property
    def shows_contraction(self) -> bool:  # type: ignore[override]
        """Only where every step is EM's."""
        return not self.looks_ahead

    def init(self, start: Theta, site: Site) -> State:
        """Begin at the start; at the sites' consensus where they start apart."""
        xp = namespace(start.means)
        start = shaped(self.covariance_type, self.common(start, site.share))
        if not self.looks_ahead:
            return State(start, site.share, ())
        none = xp.zeros_like(start.weights[..., 0, 0])
        past, unit = acceleration.begin(_host(start)), unit_of(first_site(start))
        return State(start, site.share, Course(past, start, unit, none + xp.inf, none > 0))

    def common(self, start: Theta, share: Array) -> Theta:
        """One mixture for all sites."""
        xp, first = namespace(start.means), first_site(start)
        same = xp.all(pack(start) == pack(first), axis=(-3, -2, -1))
        middle = consensus(start, share)
        return Theta(
            *(
                xp.where(xp.reshape(same, same.shape + (1,) * (one.ndim - same.ndim)), one, other[..., None, *rest])
                for one, other, rest in zip(first, middle, ((_ALL,), (_ALL,) * 2, (_ALL,) * 3), strict=True)
            )
        )

    def message(self, state: State) -> Message:
        """Nothing is exchanged: the rows are pooled."""
        return {}

    def absorb(self, state: State, heard: Message) -> tuple[State, Theta]:
        """Moments are wanted at the current point."""
        return state, _everywhere(state.theta, state.sites)

    def update(self, state: State, moments: Moments) -> State:
        """The M-step, equations (1) and (2), and where to go from there."""
        return self.follow(state, self.gather(state, moments), moments)

    def gather(self, state: State, moments: Moments) -> Pooled:
        """The sum over sites."""
        xp = namespace(moments.mass)
        mass = xp.sum(moments.mass, axis=-1, keepdims=True)
        sums = xp.sum(moments.sums, axis=-3, keepdims=True)
        height = xp.sum(moments.log_likelihood, axis=-1, keepdims=True)
        return Pooled(sums / mass[..., None, None], mass, height / mass)

    def follow(self, state: State, pooled: Pooled, rule: Moments) -> State:
        """The State after all rows' moments; ``rule`` is any site's, for how they were regularised."""
        image = shaped(self.covariance_type, self.image(state.theta, pooled, rule.own))
        if not state.course:
            return state._replace(theta=image)
        return state._replace(**self._accelerated(state, state.course, image, pooled.log_likelihood, rule))

    def image(self, theta: Theta, pooled: Pooled, own: float) -> Theta:
        """The M-step for full covariances."""
        return m_step(pooled.psi, theta.means, own)

    def _accelerated(
        self, state: State, course: Course, image: Theta, log_likelihood: Array, rule: Moments
    ) -> dict[str, Any]:
        """Where to evaluate next, and what is known of the map."""
        xp = namespace(image.means)
        p = image.means.shape[-1]
        if rule.shrinkage is None:
            regular = acceleration.Regular.of(rule.reg_covar, 0.0, 0.0, p)
        else:
            share, target = rule.shrinkage
            towards = to_numpy(xp.broadcast_to(target, (*state.sites.shape, p, p))[..., 0, :, :])
            regular = acceleration.Regular.of(rule.reg_covar, share, towards, p)
        height = to_numpy(log_likelihood[..., 0])
        past, following = acceleration.after(course.past, _host(image), height, regular)
        best, point = (_placed(theta, image) for theta in (past.best, following))
        refused = xp.asarray(past.refused > course.past.refused, device=image.means.device)
        move = measure(image, course.unit, course.unit.standard(to_psi(state.theta)))[1]
        change = xp.where(refused, course.change, move)
        return {"theta": point, "course": Course(past, best, course.unit, change, refused)}

    def info(self, state: State) -> Info:
        """The last step of EM itself, and whether the last evaluation was in vain."""
        if not state.course:
            return Info(self.eta)
        course = state.course
        return Info(
            self.eta, course.past.refused[..., None], change=course.change, refused=course.refused[..., None],
            log_likelihood=course.past.memory.log_likelihood,
        )  # fmt: skip

    def estimate(self, state: State) -> Theta:
        """EM's last image that was not refused."""
        return _everywhere(state.course.best if state.course else state.theta, state.sites)


def _everywhere(theta: Theta, sites: Array) -> Theta:
    """One mixture at all sites; each site's own as it is."""
    return theta if theta.weights.shape[:-1] == sites.shape else broadcast(theta, sites.shape)


def _host(theta: Theta) -> Theta:
    """The first site's, in NumPy, without a site axis."""
    weights, means, covariances = first_site(theta)
    return Theta(to_numpy(weights[..., 0, :]), to_numpy(means[..., 0, :, :]), to_numpy(covariances[..., 0, :, :, :]))


def _placed(theta: Theta, like: Theta) -> Theta:
    """A mixture of the host in the library, and on the device, of another, with a site axis of length one."""
    xp = namespace(like.means)
    to = {"dtype": like.means.dtype, "device": like.means.device}
    weights, means, covariances = (xp.asarray(part, **to) for part in theta)
    return Theta(weights[..., None, :], means[..., None, :, :], covariances[..., None, :, :, :])


def m_step(psi: Psi, about: Array, own: float = 1.0) -> Theta:
    """Theta of (A, B, G) with G about other means than the new: Sigma = G/A - own (mu - about)(mu - about)'.

    ``own`` is the share of G that is the rows'; the rest is a target's, which was about no mean.
    """
    theta = to_theta(psi)
    moved = theta.means - about
    return theta._replace(covariances=theta.covariances - own * moved[..., :, None] * moved[..., None, :])
