"""A private fit as all sites compute it: from noisy sums, and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import CollapseError, GaussipError, SettingError, Text, UncertaintyError
from gaussip.exchange.questions import Replicated
from gaussip.kernels.shaping import shaped
from gaussip.mixture.covariance_types import directions
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta, broadcast, pack, unpack
from gaussip.mixture.units import Unit
from gaussip.privacy.clipped import clipped_moments
from gaussip.privacy.guarantee import Guarantee, Privacy
from gaussip.privacy.look import LOST, Look, ask_look, at_least, doubled, labels_needed
from gaussip.privacy.newton import Drawing, covariance_of_one_row, noise_of, score_of, stepped
from gaussip.privacy.noised import Releases
from gaussip.privacy.plan import Plan
from gaussip.privacy.rows import BoundedRows, cut, standard
from gaussip.privacy.start import ask_private_start
from gaussip.rows.groups import Allowed
from gaussip.starts.agreed import confirmed

TURNED = (0.2, 5.0)  # the least and the largest factor of a variance in one step
HEAVIER = 2.0  # the largest factor of a weight
STILL = 4.0  # times the number of parameters: a score this high in its noise's metric is not noise alone
SWALLOWED = 0.01  # of a feature's variance, which reg_covar must not exceed
FURTHEST = 1.5  # the longest way of a mean, in its component's standard deviations


Moments: TypeAlias = tuple[NDArray, NDArray, NDArray]  # of whitened rows: zeroth, first, second


class Model(NamedTuple):
    """What is fitted, beside the rows."""

    n_components: int
    features: Sequence[str]
    owners: Owners
    classes: Sequence[Any]  #: names of the first components' classes, for messages
    allowed: Allowed | None
    covariance_type: str
    reg_covar: float
    unlabelled_weight: float
    seed: int
    start: Theta | None = None  #: given, in the data's units

    @property
    def class_names(self) -> list[Any]:
        """Of the classes."""
        return [self.classes[self.owners.of(c)[0]] for c in range(len(self.owners.counts))]


class PrivateFit(NamedTuple):
    """What a private fit ends with."""

    theta: Theta
    rows: float  #: with noise
    changes: list[float]  #: the largest move of each round, in standard units
    settled: bool  #: whether the last round's score was no more than noise
    covariance: NDArray | None  #: (q, q) of the packed theta, noise included; None where it is not known
    guarantee: Guarantee

    @property
    def beware(self) -> str | None:
        """Why the guarantee means less than it seems, if it does."""
        delta = self.guarantee.delta
        if delta * self.rows < 1 or not self.guarantee.private:
            return None
        return (
            f"delta={delta:g} is more than one over the number of {self.guarantee.counted}, about {self.rows:.0f}: "
            f"even a fit that showed all of a few could have it. Give a delta well below {1 / self.rows:.1g}"
        )


def ask_private(privacy: Privacy, model: Model, n_sites: int) -> Replicated[PrivateFit]:
    """The fit; the sites hold `BoundedRows`. Where it fails, the error says what was spent."""
    limits = privacy.limits(model.features)
    releases = Releases(n_sites, privacy.shares(n_sites), privacy.randomness())
    try:
        return (yield from _fitted(privacy, model, limits, releases))
    except GaussipError as error:
        if releases.made:
            error.spent = Guarantee.of(privacy, releases.made)
            said = f"this attempt has spent {error.spent}"
            error.remedy = said if error.remedy is None else f"{error.remedy}; {said}"
        raise


def plan_of(privacy: Privacy, model: Model) -> Plan:
    """How the budget is spent."""
    start = "given" if model.start is not None else "labels" if model.owners.owned else "kmeans"
    return Plan.of(privacy.mu, model.n_components, len(model.features), start, model.covariance_type)


class Needed(NamedTuple):
    """What a fit needs at least, from what all may know."""

    rows: int  #: of all sites together
    labelled: int  #: of each class


def needed_for(privacy: Privacy, model: Model, n_sites: int) -> Needed:
    """What a fit needs so as not to be refused."""
    plan, releases = plan_of(privacy, model), Releases(n_sites, privacy.shares(n_sites), privacy.randomness())
    labelled = labels_needed(plan.look[0], releases.excess)
    return Needed(plan.rows_needed(model.n_components, releases.excess), labelled)


def _fitted(privacy: Privacy, model: Model, limits: NDArray, releases: Releases) -> Replicated[PrivateFit]:
    plan = plan_of(privacy, model)
    needed = plan.rows_needed(model.n_components, releases.excess)
    look = yield from ask_look(
        releases, plan.look, limits, model.features, model.class_names, needed, privacy.counted
    )
    plan.refuse_hopeless(look.rows, model.n_components, privacy.epsilon, releases.excess, privacy.counted)
    unit = look.unit
    _refuse_large_regularisation(model, unit)
    if model.start is None:
        start = yield from ask_private_start(releases, plan.start, look, model.n_components, model.owners, model.seed)
    else:
        start = unit.standard_theta(model.start)
    theta = yield from _agreed(_regular(start, model, unit), unit)
    changes, average, weight, step = [], np.zeros(0), 0.0, None
    drawing = _drawing(model, look, theta)
    for number, mu in enumerate(plan.rounds):
        noisy = yield from _ask_moments(releases, plan, mu, theta, unit)
        _refuse_lost(noisy[0], mu / releases.excess, plan, model, number + 1)
        ending, actual = number >= plan.approach, mu / releases.excess
        step = _newton_step(theta, noisy, actual, plan, drawing) if ending and plan.solved else None
        near = pack(_within(_em_step(theta, *noisy) if step is None else step.theta, theta))
        if ending:
            if step is not None and step.far:  # what came before is not about the end
                weight = 0.0
            weight += mu * mu
            average = near if weight == mu * mu else average + (near - average) * (mu * mu / weight)
            near = average
        new = yield from _agreed(_regular(unpack(near), model, unit), unit)
        changes.append(float(np.abs(pack(new) - pack(theta)).max()))
        theta = new
    covariance = None
    if plan.solved and model.unlabelled_weight == 1:
        covariance = _covariance(theta, look, _noise(theta, plan, weight**0.5 / releases.excess), drawing, unit)
    guarantee = Guarantee.of(privacy, releases.made)
    settled = step is None or not step.far
    return PrivateFit(unit.original_theta(theta), look.rows, changes, settled, covariance, guarantee)


def _agreed(theta: Theta, unit: Unit) -> Replicated[Theta]:
    """The first site's, in standard units."""
    agreed = yield from confirmed(theta, unit)
    return unit.standard_theta(agreed)


def _ask_moments(releases: Releases, plan: Plan, mu: float, theta: Theta, unit: Unit) -> Replicated[Moments]:
    """The noisy moments at theta of all rows; the second in units in which clipping has taken nothing."""

    def part(held: BoundedRows) -> list[NDArray]:
        table = held.components(len(theta.weights))

        def of_site(x: NDArray, y: NDArray, v: NDArray) -> tuple[NDArray, ...]:
            return clipped_moments(standard(x, unit), table[y], v, theta, plan.radius)

        return held.summed(of_site)

    blocks = plan.radius.blocks(len(theta.weights), plan.shares)
    zeroth, first, second = yield from releases.ask("moments", mu, blocks, part)
    return zeroth, first, second / plan.radius.kept(plan.radius.n_features)


def _em_step(theta: Theta, zeroth: NDArray, first: NDArray, second: NDArray) -> Theta:
    """Where EM's step leads."""
    p = theta.means.shape[1]
    factors = np.linalg.cholesky(theta.covariances)
    d = first / zeroth[:, None]
    inner = np.eye(p) + doubled(second / zeroth[:, None], p) - d[:, :, None] * d[:, None, :]
    covariances = factors @ inner @ np.swapaxes(factors, -1, -2)
    means = theta.means + (factors @ d[..., None])[..., 0]
    return Theta(zeroth / zeroth.sum(), means, covariances)


class _Step(NamedTuple):
    """Newton's."""

    theta: Theta  #: where it leads
    far: bool  #: whether the score is more than noise


def _newton_step(theta: Theta, noisy: Moments, mu: float, plan: Plan, drawing: Drawing) -> _Step | None:
    """None where the mixture says too little of some parameter; mu is that of all sites' noise."""
    zeroth, first, second = noisy
    rows = float(zeroth.sum())
    factors = np.linalg.cholesky(theta.covariances)
    score = score_of(theta, factors, zeroth - rows * theta.weights, first, second)
    try:
        of_one_row = covariance_of_one_row(theta, drawing)
    except UncertaintyError:
        return None
    basis = directions(drawing.covariance_type, *theta.means.shape)
    along, noise = basis.T @ score.ravel(), basis.T @ _noise(theta, plan, mu) @ basis
    height = float(along @ np.linalg.solve(noise, along))
    return _Step(stepped(theta, of_one_row, score, rows), height > STILL * len(along))


def _noise(theta: Theta, plan: Plan, mu: float) -> NDArray:
    """The covariance of the score's noise in a release of this mu."""
    zeroth, first, second = (block.deviation(mu) for block in plan.radius.blocks(len(theta.weights), plan.shares))
    return noise_of(theta, (zeroth, first, second), plan.radius.kept(plan.radius.n_features))


def _within(theta: Theta, last: Theta) -> Theta:
    """A mixture no further from the last one than a step may lead, so that noise breaks none."""
    factors = np.linalg.cholesky(last.covariances)
    inverse, turned = np.linalg.inv(factors), np.swapaxes(factors, -1, -2)
    inner = at_least(inverse @ theta.covariances @ np.swapaxes(inverse, -1, -2), *TURNED)
    covariances = factors @ inner @ turned
    moved = cut((inverse @ (theta.means - last.means)[..., None])[..., 0], FURTHEST)
    weights = np.clip(theta.weights, last.weights / HEAVIER, last.weights * HEAVIER)
    return Theta(
        weights / weights.sum(), last.means + (factors @ moved[..., None])[..., 0],
        (covariances + np.swapaxes(covariances, -1, -2)) / 2,
    )  # fmt: skip


def _regular(theta: Theta, model: Model, unit: Unit) -> Theta:
    """A mixture of the covariance type, with reg_covar."""
    own = model.reg_covar / unit.spread**2
    original = unit.original_theta(theta)
    of_type = shaped(model.covariance_type, broadcast(original, (1,)))
    theta = unit.standard_theta(Theta(*(part[0] for part in of_type)))
    return theta._replace(covariances=theta.covariances + np.diag(own))


def _drawing(model: Model, look: Look, theta: Theta) -> Drawing:
    """How rows are drawn that are labelled as often as the sites' are."""
    of_component = model.owners.classes(model.n_components)
    labelled = np.zeros(model.n_components)
    for c, known in enumerate(look.labelled.tolist()):
        mine = of_component == c
        labelled[mine] = np.clip(known / (look.rows * theta.weights[mine].sum()), 0.0, 1.0)
    return Drawing(
        np.where(look.seen > 1 - 1e-3, 1.0, look.seen), labelled, of_component, model.allowed,
        model.covariance_type, model.seed,
    )  # fmt: skip


def _covariance(theta: Theta, look: Look, noise: NDArray, drawing: Drawing, unit: Unit) -> NDArray | None:
    """The covariance of the packed theta in the data's units: of sampling, and of the averaged noise.

    None where the mixture says too little of some parameter.
    """
    try:
        inverse = covariance_of_one_row(theta, drawing) / look.rows
    except UncertaintyError:
        return None
    covariance = inverse + inverse @ noise @ inverse
    factor = np.broadcast_to(unit.factor, pack(theta).shape).ravel()
    return np.asarray(factor[:, None] * covariance * factor)


def _refuse_large_regularisation(model: Model, unit: Unit) -> None:
    """Refuse a reg_covar that would hide the variance of a feature."""
    share = model.reg_covar / unit.spread**2
    j = int(share.argmax())
    if share[j] > SWALLOWED:
        text = Text("{reg_covar:{reg:g}} is {share:.2g} of the variance of {name!r}", reg=model.reg_covar,
                    share=float(share[j]), name=model.features[j])  # fmt: skip
        raise SettingError(
            text, setting="reg_covar", column=model.features[j],
            remedy="give the feature in a smaller unit, or make it smaller",
        )  # fmt: skip


def _refuse_lost(zeroth: NDArray, mu: float, plan: Plan, model: Model, number: int) -> None:
    """Refuse a component of which no more than noise is left."""
    noise = plan.radius.blocks(1, plan.shares)[0].deviation(mu)
    k = int(zeroth.argmin())
    if not zeroth[k] > LOST * noise:
        label = model.classes[k] if k < len(model.classes) else None
        raise CollapseError(
            None, k, number, f"its rows, about {max(zeroth[k], 0):.0f}, are lost in noise of {noise:.0f}",
            "fit fewer components, find more rows, or allow a larger epsilon", label,
        )  # fmt: skip
