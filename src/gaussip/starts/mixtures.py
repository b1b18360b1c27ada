"""Starting mixtures from groups or classes of rows, in standard units; and whether given ones can work."""

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import StartError, Text
from gaussip.mixture.theta import Theta, overall
from gaussip.starts.facts import Classes
from gaussip.starts.lloyd import Groups


def from_groups(groups: Groups | Classes) -> Theta:
    """The start with one component for each group.

    Each covariance is drawn towards the common variances with the force of p + 1 rows, and these towards those of all
    rows in the same way, so that covariances of few rows, even of one, or of constant features, are usable.
    """
    counts, means, scatters = groups
    p = means.shape[1]
    common = (np.diagonal(scatters.sum(axis=0)) + (p + 1)) / (counts.sum() + p + 1)
    covariances = (scatters + (p + 1) * np.diag(common)) / (counts + p + 1)[:, None, None]
    return Theta(counts / counts.sum(), means, covariances)


def from_classes(classes: Classes, n_components: int) -> Theta:
    """The start with one component for each class of labelled rows."""
    unlabelled = n_components - np.count_nonzero(classes.counts > 0)
    if unlabelled:
        raise StartError(
            f"a start from labels needs labelled rows for every component: {unlabelled} of {n_components} have none",
            setting="init_params",
            remedy=Text("use {init_params:'kmeans'}, or fewer components"),
        )
    return from_groups(classes)


def order_by(theta: Theta, targets: NDArray, numbers: NDArray) -> NDArray:
    """The order of components that puts, for each target mean (c, p), the nearest component at its number (c,).

    Matched optimally, in units of the mixture's overall spread; other components keep their order.
    """
    from scipy.optimize import linear_sum_assignment  # not when a site starts

    scale = np.sqrt(np.diagonal(overall(theta)[1]))
    apart = (targets[:, None, :] - theta.means[None, :, :]) / scale
    target, component = linear_sum_assignment((apart**2).sum(axis=-1))
    order = np.full(len(theta.weights), -1)
    order[numbers[target]] = component
    order[order < 0] = np.setdiff1d(np.arange(len(order)), component)
    return order


def order_of(theta: Theta, classes: Classes) -> NDArray:
    """The order of components in which component k lies nearest to labelled class k."""
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
        spread = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(float).tiny))
        correlation = covariance / spread[:, None] / spread  # features may be in unlike units
        if not np.allclose(correlation, correlation.T, rtol=1e-8, atol=1e-12) or (
            (np.diagonal(covariance) <= 0).any() or np.linalg.eigvalsh(correlation)[0] <= 0
        ):
            text = Text("{covariances_init}[{k}] is not symmetric positive definite", k=k)
            raise StartError(text, setting="covariances_init")
    return theta
