"""Starting values, as sites without a server can agree on them: from labels, from shared centres, or given."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import StartError, Text
from gaussip.kernels.array.algebra import about_means
from gaussip.mixture.theta import Theta, overall, unpack
from gaussip.rows.rows import Rows
from gaussip.settings import default

MIN_COUNT: int = default("min_count")  # no site shares a group of fewer rows than this
MAX_LEFT_OUT = 0.1  # share of a site's rows, those in groups too small to share, that a start may do without


class Centres(NamedTuple):
    """What a site shares of its rows for a start: a few groups of rows."""

    counts: NDArray  #: (k,), row weights of each group
    means: NDArray  #: (k, p)
    within: NDArray  #: (p, p), squares and products about the groups' means, summed over all groups


class Classes(NamedTuple):
    """The labelled rows by class."""

    counts: NDArray  #: (K,)
    means: NDArray  #: (K, p)
    scatters: NDArray  #: (K, p, p), sums of squares and products about the class's mean


class Extent(NamedTuple):
    """Where rows lie; of one site (p,), or of several (M, p)."""

    mass: NDArray  #: () or (M,)
    mean: NDArray
    variance: NDArray


def extent_of(X: NDArray, weights: NDArray | None = None) -> Extent:
    """What a site shares for an agreed scale: its count (or mass), mean and variance."""
    mass = np.asarray(len(X) if weights is None else weights.sum(), dtype=float)
    return Extent(mass, X.mean(axis=0), X.var(axis=0))


def location_and_spread(sites: Extent) -> tuple[NDArray, NDArray]:
    """The overall mean and standard deviation of each feature, from all sites' extents."""
    total = sites.mass.sum()
    centre = sites.mass @ sites.mean / total
    spread = np.sqrt(sites.mass @ (sites.variance + (sites.mean - centre) ** 2) / total)
    return centre, np.where(spread > 0, spread, 1.0)


def extents_of(values: Sequence[NDArray], weights: Sequence[NDArray] | None = None) -> Extent:
    """The extents of all sites' rows."""
    sites = [extent_of(x, None if weights is None else weights[m]) for m, x in enumerate(values)]
    return Extent(*map(np.stack, zip(*sites, strict=True)))


def spread_of(values: Sequence[NDArray], weights: Sequence[NDArray] | None = None) -> NDArray:
    """The overall standard deviation of each feature of the sites' rows."""
    return location_and_spread(extents_of(values, weights))[1]


def site_centres(
    X: NDArray,
    n_components: int,
    spread: NDArray,
    seed: int,
    weights: NDArray | None = None,
    min_count: int = MIN_COUNT,
) -> Centres:
    """A site's contribution to the start: k-means on its own rows.

    No group of fewer than ``min_count`` rows is shared. A few outlying rows are left out and the others grouped
    again; where that would leave out more than a tenth of the rows, there are fewer groups than components; and a
    site with fewer rows than ``min_count`` contributes nothing.

    Parameters
    ----------
    X : (n, p)
    spread : (p,), the agreed scale of the features
    weights : (n,); rows of weight zero do not count
    """
    v = np.ones(len(X)) if weights is None else weights
    left = np.flatnonzero(v > 0)
    least = max(min_count, (1 - MAX_LEFT_OUT) * left.size)
    k = n_components
    while left.size >= min_count and k > 0:
        k = min(k, left.size // min_count, len(np.unique(X[left], axis=0)))
        groups = grouped(X[left] / spread, v[left], k, n_init=3, seed=seed)
        big_enough = np.bincount(groups, minlength=k)[groups] >= min_count
        if big_enough.all():
            return _groups(X[left], v[left], groups, k)
        if big_enough.sum() >= least:
            left = left[big_enough]
        else:
            k -= 1
    p = X.shape[1]
    return Centres(np.empty(0), np.empty((0, p)), np.zeros((p, p)))


def grouped(points: NDArray, weights: NDArray, n_groups: int, n_init: int, seed: int) -> NDArray:
    """The group of each point (n,) by k-means.

    On one thread: the same groups on every machine, and no threads that wait for each other where others compute too.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        fitted = KMeans(n_groups, n_init=n_init, random_state=seed).fit(points, sample_weight=weights)
    return np.asarray(fitted.labels_)


def _groups(X: NDArray, v: NDArray, group: NDArray, k: int) -> Centres:
    member = (group == np.arange(k)[:, None]) * v
    counts = member.sum(axis=1)
    means = member @ X / counts[:, None]
    apart = X - means[group]
    return Centres(counts, means, (v[:, None] * apart).T @ apart)


def from_centres(shared: Sequence[Centres], n_components: int, spread: NDArray, seed: int) -> Theta:
    """The start that everyone computes from the same list of centres: k-means over the weighted centres."""
    counts = np.concatenate([site.counts for site in shared])
    means = np.concatenate([site.means for site in shared])
    distinct = len(np.unique(means, axis=0)) if len(means) else 0
    if distinct < n_components:
        raise StartError(
            f"the sites can share only {distinct} distinct centres, each of at least {MIN_COUNT} rows, too few to "
            f"start {n_components} components",
            setting="init_params",
            remedy=Text("use {init_params:'labels'}, or give {means_init, weights_init and covariances_init}"),
        )
    group = grouped(means / spread, counts, n_components, n_init=10, seed=seed)
    member = (group == np.arange(n_components)[:, None]) * counts
    totals = member.sum(axis=1)
    centres = member @ means / totals[:, None]
    apart = means - centres[group]
    between = np.stack([(r[:, None] * apart).T @ apart for r in member])
    return _shrunk(totals, centres, between + totals[:, None, None] * common_within(shared), spread)


def common_within(shared: Sequence[Centres]) -> NDArray:
    """The covariance (p, p) that all sites' groups have in common."""
    return np.asarray(sum(site.within for site in shared) / np.concatenate([site.counts for site in shared]).sum())


def all_centres(
    values: Sequence[NDArray], n_groups: int, spread: NDArray, seed: int, weights: Sequence[NDArray] | None = None
) -> list[Centres]:
    """The centres of all sites; with one site nothing is shared, and `MIN_COUNT` does not apply."""
    least = MIN_COUNT if len(values) > 1 else 1
    by_site = zip(values, [None] * len(values) if weights is None else weights, strict=True)
    return [site_centres(x, n_groups, spread, seed, v, least) for x, v in by_site]


def kmeans(
    values: Sequence[NDArray], n_components: int, seed: int, weights: Sequence[NDArray] | None = None
) -> Theta:  # fmt: skip
    """The decentralised k-means start: every site shares centres once, and all compute the same start."""
    spread = spread_of(values, weights)
    return from_centres(all_centres(values, n_components, spread, seed, weights), n_components, spread, seed)


def labelled_classes(rows: Rows) -> Classes:
    """The labelled rows of all sites by class; see `classes_of`."""
    if rows.labelled is None:
        raise StartError(
            Text("a start from labels needs labels: give {y}, or use {init_params:'kmeans'}"), setting="init_params"
        )
    return classes_of(to_numpy(rows.labelled), to_numpy(rows.centres))


def classes_of(sums: NDArray, centres: NDArray) -> Classes:
    """The labelled rows by class, from the sums (M, K, f) of their features about their site's centre (M, p).

    Classes without rows have count and mean zero.
    """
    zeros = np.zeros((sums.shape[-2], centres.shape[-1]))
    counts, totals, _ = unpack(about_means(sums, centres, zeros).sum(axis=0))
    means = totals / np.where(counts > 0, counts, 1.0)[:, None]
    return Classes(counts, means, unpack(about_means(sums, centres, means).sum(axis=0)).covariances)


def from_labels(rows: Rows, spread: NDArray) -> Theta:
    """The start from every site's labelled moments: one component for each class."""
    return from_classes(labelled_classes(rows), spread)


def from_classes(classes: Classes, spread: NDArray) -> Theta:
    """The start that everyone computes from the labelled rows' moments."""
    empty = np.flatnonzero(classes.counts <= 0)
    if empty.size:
        raise StartError(
            f"a start from labels needs labelled rows for every component: {empty.size} of {len(classes.counts)} "
            "have none",
            setting="init_params",
            remedy=Text("use {init_params:'kmeans'}, or fewer components"),
        )
    return _shrunk(*classes, spread)


def order_by(theta: Theta, targets: NDArray, numbers: NDArray) -> NDArray:
    """The order of components that puts, for each target mean (c, p), the nearest component at its number (c,).

    Matched optimally, in units of the mixture's overall spread; other components keep their order.
    """
    scale = np.sqrt(np.diagonal(overall(theta)[1]))
    apart = (targets[:, None, :] - theta.means[None, :, :]) / scale
    target, component = linear_sum_assignment((apart**2).sum(axis=-1))
    order = np.full(len(theta.weights), -1)
    order[numbers[target]] = component
    order[order < 0] = np.setdiff1d(np.arange(len(order)), component)
    return order


def class_order(theta: Theta, rows: Rows) -> NDArray:
    """The order of components in which component k lies nearest to labelled class k."""
    return order_of(theta, labelled_classes(rows))


def order_of(theta: Theta, classes: Classes) -> NDArray:
    """The same, for the classes of all sites."""
    seen = np.flatnonzero(classes.counts > 0)
    return order_by(theta, classes.means[seen], seen)


def checked(theta: Theta, n_components: int, n_features: int) -> Theta:
    """A user's starting values, refused where they are no mixture of that many components and features."""
    sizes = {
        "weights_init": (n_components,),
        "means_init": (n_components, n_features),
        "covariances_init": (n_components, n_features, n_features),
    }
    for (name, size), part in zip(sizes.items(), theta, strict=True):
        if part.shape != size:
            what = f"{n_components} components and {n_features} features need {size}"
            raise StartError(Text(f"{{{name}}} has shape {part.shape}; {what}"), setting=name)
        if not np.isfinite(part).all():
            raise StartError(Text(f"{{{name}}} has entries that are not finite"), setting=name)
    if (theta.weights <= 0).any() or abs(theta.weights.sum() - 1) > 1e-6:
        text = Text(
            "{weights_init} must be positive and sum to one; they sum to {total:.6g}", total=theta.weights.sum()
        )
        raise StartError(text, setting="weights_init")
    for k, covariance in enumerate(theta.covariances):
        close = {"rtol": 1e-8, "atol": 1e-12 * np.abs(covariance).max()}
        if not np.allclose(covariance, covariance.T, **close) or np.linalg.eigvalsh(covariance)[0] <= 0:
            text = Text("{covariances_init}[{k}] is not symmetric positive definite", k=k)
            raise StartError(text, setting="covariances_init")
    return theta


def _shrunk(counts: NDArray, means: NDArray, scatters: NDArray, spread: NDArray) -> Theta:
    """Theta of groups; each covariance is drawn towards the common variances with the force of p + 1 rows.

    The common variances are drawn towards the overall ones in the same way, so that covariances of few rows, even of
    one, or of constant features, are usable.
    """
    p = means.shape[1]
    common = (np.diagonal(scatters.sum(axis=0)) + (p + 1) * spread**2) / (counts.sum() + p + 1)
    target = np.diag(common)
    covariances = (scatters + (p + 1) * target) / (counts + p + 1)[:, None, None]
    return Theta(counts / counts.sum(), means, covariances)
