"""EM on the whole sample (and semi-EM, with labels): the yardstick, equations (1) and (2) of the paper.

All sites must be in one process: the moments are summed over the site axis, as if the rows were pooled.
"""

from dataclasses import dataclass
from typing import NamedTuple

from gaussip.algorithms import acceleration
from gaussip.algorithms.base import POOLED, Algorithm, Info, register
from gaussip.algorithms.site import Site
from gaussip.arrays import Array, namespace, to_numpy
from gaussip.exchange import Message
from gaussip.mixture.theta import Psi, Theta, broadcast, pack, to_psi, to_theta
from gaussip.mixture.units import Unit, measure, unit_of_start
from gaussip.rows.moments import Moments, summary


class Course(NamedTuple):
    """What acceleration adds."""

    past: acceleration.Past
    best: Theta  #: the estimate, as the rows' library has it
    unit: Unit  #: the start's: moves are measured in it
    change: Array  #: (...), EM's move from the last point that was not refused
    refused: Array  #: (...), whether the last point was


class State(NamedTuple):
    """Where moments are wanted next."""

    theta: Theta
    course: Course | tuple[()]  #: nothing in plain EM


@register
@dataclass(frozen=True)
class EM(Algorithm):
    """Whole-sample EM; every site gets the same, pooled estimate, whatever the network and the weighting."""

    accelerate: bool = True
    name = "em"
    network_sets_target = False
    source = POOLED
    one_estimate = True

    @property
    def steady(self) -> bool:  # type: ignore[override]
        """Only where every step is EM's."""
        return not self.accelerate

    @property
    def shows_contraction(self) -> bool:  # type: ignore[override]
        """Only where every step is EM's."""
        return not self.accelerate

    def init(self, start: Theta, site: Site) -> State:
        """Begin at the start."""
        if not self.accelerate:
            return State(start, ())
        xp = namespace(start.means)
        first = _host(start)
        same = pack(start) == pack(start)[..., :1, :, :]
        past = acceleration.begin(first, to_numpy(xp.all(same, axis=(-3, -2, -1))))
        none = xp.zeros_like(start.weights[..., 0, 0])
        return State(start, Course(past, start, unit_of_start(start), none + xp.inf, none > 0))

    def message(self, state: State) -> Message:
        """Nothing is exchanged: the rows are pooled."""
        return {}

    def absorb(self, state: State, heard: Message) -> tuple[State, Theta]:
        """Moments are wanted at the current point."""
        return state, state.theta

    def update(self, state: State, moments: Moments) -> State:
        """The M-step, equations (1) and (2), and where to go from there."""
        pooled = self.gather(moments)
        image = m_step(summary(pooled), state.theta.means, moments.own)
        if not state.course:
            return State(image, ())
        return self._accelerated(state, state.course, image, pooled)

    def _accelerated(self, state: State, course: Course, image: Theta, pooled: Moments) -> State:
        xp = namespace(image.means)
        height = to_numpy((pooled.log_likelihood / pooled.mass)[..., 0])
        share, target = pooled.shrinkage or (0.0, xp.zeros_like(image.covariances[..., 0, :, :]))
        first = xp.broadcast_to(target, (*image.means.shape[:-2], *target.shape[-2:]))[..., 0, :, :]
        regular = acceleration.Regular.of(pooled.reg_covar, share, to_numpy(first), target.shape[-1])
        past, following = acceleration.after(course.past, _host(image), height, regular)

        like = {"dtype": image.means.dtype, "device": image.means.device}

        def everywhere(theta: Theta) -> Theta:
            weights, means, covariances = (xp.asarray(part, **like) for part in theta)
            one = Theta(weights[..., None, :], means[..., None, :, :], covariances[..., None, :, :, :])
            return broadcast(one, image.means.shape[:-2])

        refused = xp.asarray(past.refused > course.past.refused, device=image.means.device)
        before = course.unit.standard(to_psi(state.theta))
        _, move, _ = measure(image, course.unit, before)
        change = xp.where(refused, course.change, move)
        new = Course(past, everywhere(past.best), course.unit, change, refused)
        return State(everywhere(following), new)

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
        return state.course.best if state.course else state.theta

    def gather(self, moments: Moments) -> Moments:
        """The sum over sites, given back to every site."""
        xp = namespace(moments.mass)
        axis = moments.mass.ndim - 1
        mass, sums, log_likelihood = (
            xp.broadcast_to(xp.sum(x, axis=axis, keepdims=True), x.shape) for x in moments[:3]
        )
        return moments._replace(mass=mass, sums=sums, log_likelihood=log_likelihood)


def _host(theta: Theta) -> Theta:
    """The first site's, in NumPy."""
    weights, means, covariances = theta
    return Theta(to_numpy(weights[..., 0, :]), to_numpy(means[..., 0, :, :]), to_numpy(covariances[..., 0, :, :, :]))


def m_step(psi: Psi, about: Array, own: float = 1.0) -> Theta:
    """Theta of (A, B, G) with G about other means than the new: Sigma = G/A - own (mu - about)(mu - about)'.

    ``own`` is the share of G that is the rows'; the rest is a target's, which was about no mean.
    """
    theta = to_theta(psi)
    moved = theta.means - about
    return theta._replace(covariances=theta.covariances - own * moved[..., :, None] * moved[..., None, :])
