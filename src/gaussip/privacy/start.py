"""A private start: from labels, or by k-means on noisy sums; all components then have one covariance."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from gaussip.arrays import NDArray
from gaussip.exchange.questions import Replicated
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta
from gaussip.privacy.look import Look, at_least
from gaussip.privacy.noised import Block, Releases
from gaussip.privacy.plan import STEPS_OF_KMEANS
from gaussip.privacy.rows import BoundedRows, cut, standard

TRIALS = 4  # sets of centres that k-means begins from
BEYOND = 1.5  # of the root of p: where rows in standard units are cut
LEAST_SHARE = 0.02  # of an equal share of the rows: components begin with no fewer
NARROW = 0.05  # the least variance left within groups, in standard units
TOWARDS = 0.5  # how far from their class's mean its components begin, on the way to their group's
APART = 0.5  # spread of the first centres of a class with several components


class _Centres(NamedTuple):
    """Sums over groups of rows."""

    counts: NDArray  #: (..., K)
    sums: NDArray  #: (..., K, p)


def ask_private_start(
    releases: Releases, mu: float, look: Look, n_components: int, owners: Owners, seed: int
) -> Replicated[Theta]:
    """A start in standard units."""
    rng = np.random.default_rng(seed)
    K, radius = n_components, math.sqrt(len(look.seen)) + BEYOND
    single = look.labels and owners.single and owners.owned == K
    known = look.labels and owners.owned == K  # whose components lie where labelled rows are
    steps = 1 if single else STEPS_OF_KMEANS + 1 + look.labels
    each = mu / math.sqrt(steps)
    if look.labels:
        classes = yield from _ask_classes(releases, each, look, radius, len(owners.counts))
        centres = _means(classes[0], classes[1], look.rows * 1e-3, radius)[None]
        groups = _Centres(*classes)
        if not single:
            trials = 1 if known else TRIALS
            centres = np.stack([_spread_over(centres[0], owners, K, look, rng) for _ in range(trials)])
    else:
        centres = _first_centres(look, K, rng)
    if not single:
        for _ in range(STEPS_OF_KMEANS):
            counts, sums, _ = yield from _ask_lloyd(releases, each, look, radius, centres, known)
            centres = _means(counts, sums, LEAST_SHARE * look.rows / K, radius)
        counts, sums, inertia = yield from _ask_lloyd(releases, each, look, radius, centres, known)
        best = int(inertia.argmin())
        groups = _Centres(counts[best], sums[best])
    counts = np.maximum(groups.counts, LEAST_SHARE * look.rows / K)
    means = _means(counts, groups.sums, 1.0, radius)
    shares = counts / counts.sum()
    apart = means - shares @ means
    if known and not single:  # the halves of one group say too little of what lies between classes
        numbers = owners.classes(K)
        of_class = _means(classes[0], classes[1], 1.0, radius)
        shares = np.maximum(classes[0], LEAST_SHARE * look.rows / K)
        shares, apart = shares / shares.sum(), of_class - (shares / shares.sum()) @ of_class
        between = (apart.T * shares) @ apart
        means = of_class[numbers] + TOWARDS * (means - of_class[numbers])
        shares = shares[numbers] / np.array(owners.counts)[numbers]
    else:
        between = (apart.T * shares) @ apart
    within = at_least(look.correlations - between, NARROW)
    return Theta(shares, means - shares @ means, np.repeat(within[None], K, axis=0))


def _ask_classes(
    releases: Releases, mu: float, look: Look, radius: float, n_classes: int
) -> Replicated[list[NDArray]]:
    """How many rows each class has, and the sums of its rows."""
    p = len(look.seen)

    def by_class(held: BoundedRows) -> list[NDArray]:
        def of_site(x: NDArray, y: NDArray, v: NDArray) -> tuple[NDArray, ...]:
            z = cut(np.nan_to_num(standard(x, look.unit)), radius)
            member = v[:, None] * (y[:, None] == np.arange(n_classes))
            return member.sum(axis=0), member.T @ z

        return held.summed(of_site)

    blocks = [Block((n_classes,), 1.0, 0.2), Block((n_classes, p), radius, 0.8)]
    return (yield from releases.ask("labelled rows", mu, blocks, by_class))


def _ask_lloyd(
    releases: Releases, mu: float, look: Look, radius: float, centres: NDArray, labelled_alone: bool
) -> Replicated[list[NDArray]]:
    """For several sets of centres (T, K, p): rows and sums of each group, and the squared distances."""
    trials, K, p = centres.shape
    root = math.sqrt(trials)

    def nearest(held: BoundedRows) -> list[NDArray]:
        table = held.components(K)

        def of_site(x: NDArray, y: NDArray, v: NDArray) -> tuple[NDArray, ...]:
            there = ~np.isnan(x)
            z = cut(np.nan_to_num(standard(x, look.unit)), radius)
            v = np.where(y >= 0, v, 0.0) if labelled_alone else v
            found = []
            for own in centres:
                apart = (z * z).sum(axis=1)[:, None] - 2 * z @ own.T + there @ (own * own).T
                apart = np.where(table[y], apart, np.inf)
                group = apart.argmin(axis=1)
                member = v[:, None] * (group[:, None] == np.arange(K))
                filled = cut(np.where(there, z, own[group]), radius)
                far = np.clip(apart[np.arange(len(z)), group], 0, radius**2)
                found.append((member.sum(axis=0), member.T @ filled, v @ (2 * far / radius**2 - 1)))
            counts, sums, far = (np.stack(part) for part in zip(*found, strict=True))
            return counts, sums, far

        return held.summed(of_site)

    blocks = [
        Block((trials, K), root, 0.15), Block((trials, K, p), root * radius, 0.75), Block((trials,), root, 0.1),
    ]  # fmt: skip
    return (yield from releases.ask("k-means", mu, blocks, nearest))


def _means(counts: NDArray, sums: NDArray, least: float, radius: float) -> NDArray:
    """Means of groups, no further out than rows."""
    means = sums / np.maximum(counts, least)[..., None]
    return np.asarray(cut(means.reshape(-1, means.shape[-1]), radius).reshape(means.shape))


def _axes(look: Look) -> NDArray:
    """The principal axes as rows, the widest first, as long as their standard deviations."""
    variances, axes = np.linalg.eigh(look.correlations)
    return np.asarray((axes * np.sqrt(variances)).T[::-1])


def _first_centres(look: Look, n_components: int, rng: np.random.Generator) -> NDArray:
    """One set of centres along the widest axis, and others drawn from a Gaussian of the rows' covariance."""
    axes = _axes(look)
    quantiles = ndtri((np.arange(n_components) + 0.5) / n_components)
    drawn = rng.standard_normal((TRIALS - 1, n_components, len(axes))) @ axes
    return np.concatenate([(quantiles[:, None] * axes[0])[None], drawn])


def _spread_over(
    classes: NDArray, owners: Owners, n_components: int, look: Look, rng: np.random.Generator
) -> NDArray:
    """Centres about the means of the components' classes; those of free components anywhere."""
    drawn = rng.standard_normal((n_components, classes.shape[1])) @ _axes(look)
    of_component = owners.classes(n_components)
    owned = of_component >= 0
    several = np.array([c >= 0 and owners.counts[c] > 1 for c in of_component])
    about = np.where(owned[:, None], classes[of_component], 0.0)
    size = np.where(several, APART, np.where(owned, 0.0, 1.0))
    return np.asarray(about + size[:, None] * drawn)
