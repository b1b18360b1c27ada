"""Starting values, as sites without a server can agree on them: from labels, from shared centres, or given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from gaussip.arrays import to_numpy
from gaussip.errors import StartError
from gaussip.parameters import Theta, overall, reorder, unvech
from gaussip.rows import Rows

MIN_COUNT = 5  # no site shares a centre of fewer rows than this
FloatArray = np.ndarray[Any, Any]


class Centres(NamedTuple):
    """What a site shares of its rows for a start: a few groups of rows, each by its moments."""

    counts: FloatArray  #: (k,), rows (or row weights) of each group
    means: FloatArray  #: (k, p)
    scatters: FloatArray  #: (k, p, p), sums of squares about the group's mean


def spread_of(values: Sequence[FloatArray]) -> FloatArray:
    """The overall standard deviation of each feature, from every site's count, mean and variance."""
    counts = np.array([len(x) for x in values], dtype=float)
    means = np.stack([x.mean(axis=0) for x in values])
    centre = counts @ means / counts.sum()
    variances = np.stack([x.var(axis=0) for x in values]) + (means - centre) ** 2
    spread = np.sqrt(counts @ variances / counts.sum())
    return np.asarray(np.where(spread > 0, spread, 1.0))


def site_centres(
    X: FloatArray,
    n_components: int,
    spread: FloatArray,
    seed: int,
    weights: FloatArray | None = None,
    min_count: int = MIN_COUNT,
) -> Centres:
    """A site's contribution to the start: k-means on its own rows.

    Groups are as many as components, or fewer until none has fewer than ``min_count`` rows; a site with fewer
    rows than that contributes nothing.

    Parameters
    ----------
    X : (n, p)
    spread : (p,), the agreed scale of the features
    """
    from sklearn.cluster import KMeans

    p = X.shape[1]
    v = np.ones(len(X)) if weights is None else weights
    scaled = X / spread
    most = min(n_components, len(X) // min_count, len(np.unique(X, axis=0)))
    for k in range(most, 0, -1):
        group = KMeans(k, n_init=3, random_state=seed).fit(scaled, sample_weight=weights).labels_
        if np.bincount(group, minlength=k).min() >= min_count:
            return _groups(X, v, group, k)
    return Centres(np.empty(0), np.empty((0, p)), np.empty((0, p, p)))


def _groups(X: FloatArray, v: FloatArray, group: FloatArray, k: int) -> Centres:
    member = (group == np.arange(k)[:, None]) * v
    counts = member.sum(axis=1)
    kept = counts > 0
    member, counts = member[kept], counts[kept]
    means = member @ X / counts[:, None]
    scatters = np.stack([(r[:, None] * (X - m)).T @ (X - m) for r, m in zip(member, means, strict=True)])
    return Centres(counts, means, scatters)


def from_centres(shared: Sequence[Centres], n_components: int, spread: FloatArray, seed: int) -> Theta:
    """The start that everyone computes from the same list of centres: k-means over the weighted centres."""
    from sklearn.cluster import KMeans

    counts = np.concatenate([c.counts for c in shared])
    means = np.concatenate([c.means for c in shared])
    scatters = np.concatenate([c.scatters for c in shared])
    distinct = len(np.unique(means, axis=0)) if len(means) else 0
    if distinct < n_components:
        raise StartError(
            f"the sites can share only {distinct} distinct centres, too few to start {n_components} components; "
            "use fewer components, or give means_init"
        )
    scaled = means / spread
    group = KMeans(n_components, n_init=10, random_state=seed).fit(scaled, sample_weight=counts).labels_
    member = (group == np.arange(n_components)[:, None]) * counts
    totals = member.sum(axis=1)
    centres = member @ means / totals[:, None]
    within = np.zeros((n_components, means.shape[1], means.shape[1]))
    for count, mean, scatter, k in zip(counts, means, scatters, group, strict=True):
        apart = mean - centres[k]
        within[k] += scatter + count * np.outer(apart, apart)
    return _shrunk(totals, centres, within, spread)


def kmeans(
    values: Sequence[FloatArray],
    n_components: int,
    seed: int,
    weights: Sequence[FloatArray] | None = None,
    min_count: int = MIN_COUNT,
) -> Theta:
    """The decentralised k-means start: every site shares centres once, and all compute the same start.

    With one site nothing is shared, and ``min_count`` does not apply.
    """
    spread = spread_of(values)
    least = min_count if len(values) > 1 else 1
    shared = [
        site_centres(x, n_components, spread, seed, None if weights is None else weights[m], least)
        for m, x in enumerate(values)
    ]
    return from_centres(shared, n_components, spread, seed)


def labelled_classes(rows: Rows) -> Centres:
    """The labelled rows of all sites by class: counts (K,), means and scatters, summed over sites."""
    if rows.labelled is None:
        raise StartError("a start from labels needs labels: give y, or use init_params='kmeans'")
    sums, centres = to_numpy(rows.labelled), to_numpy(rows.centres)[:, None, :]
    p = centres.shape[-1]
    counts = sums[..., 0].sum(axis=0)
    with np.errstate(invalid="ignore"):
        means = (sums[..., 1 : 1 + p] + sums[..., :1] * centres).sum(axis=0) / counts[:, None]
    means = np.where(counts[:, None] > 0, means, 0.0)
    apart = means - centres
    cross = apart[..., :, None] * sums[..., None, 1 : 1 + p]
    outer = sums[..., 0, None, None] * (apart[..., :, None] * apart[..., None, :])
    scatters = (unvech(sums[..., 1 + p :]) - cross - cross.swapaxes(-1, -2) + outer).sum(axis=0)
    return Centres(counts, means, scatters)


def from_labels(rows: Rows, spread: FloatArray) -> Theta:
    """The start from every site's labelled moments: one component for each class."""
    classes = labelled_classes(rows)
    empty = np.flatnonzero(classes.counts <= 0)
    if empty.size:
        raise StartError(
            f"a start from labels needs labelled rows for every component; {empty.size} of {len(classes.counts)} "
            "have none. Use init_params='kmeans', or fewer components"
        )
    return _shrunk(*classes, spread)


def match_to_classes(theta: Theta, rows: Rows) -> Theta:
    """The components of a start renumbered so that component k lies nearest to labelled class k."""
    classes = labelled_classes(rows)
    seen = np.flatnonzero(classes.counts > 0)
    scale = np.sqrt(np.diagonal(overall(theta)[1]))
    apart = (classes.means[seen][:, None, :] - theta.means[None, :, :]) / scale
    found, component = linear_sum_assignment((apart**2).sum(axis=-1))
    order = np.full(len(classes.counts), -1)
    order[seen[found]] = component
    order[order < 0] = np.setdiff1d(np.arange(len(order)), component)
    return reorder(theta, order)


def given(start: Theta, weights: Any = None, means: Any = None, covariances: Any = None) -> Theta:
    """A start with the given parts in place of its own, checked."""
    K, p = start.means.shape
    sizes = {"weights_init": (K,), "means_init": (K, p), "covariances_init": (K, p, p)}
    parts = []
    for (name, size), mine, wanted in zip(sizes.items(), start, (weights, means, covariances), strict=True):
        part = mine if wanted is None else np.asarray(wanted, dtype=float)
        if part.shape != size:
            raise StartError(f"{name} has shape {part.shape}; {K} components and {p} features need {size}")
        if not np.isfinite(part).all():
            raise StartError(f"{name} has entries that are not finite")
        parts.append(part)
    theta = Theta(*parts)
    if (theta.weights <= 0).any() or abs(theta.weights.sum() - 1) > 1e-6:
        raise StartError(f"weights_init must be positive and sum to one; they sum to {theta.weights.sum():.6g}")
    for k, covariance in enumerate(theta.covariances):
        symmetric = np.allclose(covariance, covariance.T, rtol=1e-8, atol=0)
        if not symmetric or np.linalg.eigvalsh(covariance)[0] <= 0:
            raise StartError(f"covariances_init[{k}] is not symmetric positive definite")
    return theta


def _shrunk(counts: FloatArray, means: FloatArray, scatters: FloatArray, spread: FloatArray) -> Theta:
    """Theta of groups; each covariance is drawn towards the common variances with the force of p + 1 rows.

    That makes a covariance of few rows, or of constant features, usable.
    """
    p = means.shape[1]
    common = np.diagonal(scatters.sum(axis=0)) / counts.sum()
    target = np.diag(np.maximum(common, 1e-6 * spread**2))
    covariances = (scatters + (p + 1) * target) / (counts + p + 1)[:, None, None]
    return Theta(counts / counts.sum(), means, covariances)
