"""Starting values when nothing is known in advance: from groups of rows, from labels, and by splitting components."""

from collections.abc import Sequence

import numpy as np

from gaussip.mixture.theta import Theta, reorder
from gaussip.starts.facts import Classes
from gaussip.starts.lloyd import Groups
from gaussip.starts.mixtures import from_classes, from_groups, order_of
from gaussip.starts.search.moves import split


def candidates(
    n_components: int, grouped: Sequence[Groups], classes: Classes | None, fewer: Theta | None = None
) -> list[Theta]:
    """Starts of K components, all in the same order of classes.

    Parameters
    ----------
    grouped : groups of rows by k-means, in standard units, from several draws
    classes : the labelled rows, in standard units; component k is class k
    fewer : a mixture of K - 1 components; each of them is split in turn
    """
    starts = []
    if fewer is not None:
        starts += [split(fewer, k) for k in range(n_components - 1)]
    if classes is not None and np.count_nonzero(classes.counts) == n_components:
        starts.append(from_classes(Classes(*(part[:n_components] for part in classes)), n_components))
    half = -(-len(grouped) // 2)
    others = [from_groups(groups) for groups in grouped[:half]] + [alike(groups) for groups in grouped[half:]]
    if classes is not None:
        others = [reorder(theta, order_of(theta, classes)) for theta in others]
    return starts + others


def alike(groups: Groups) -> Theta:
    """One component for each group, all with the same covariance: that within the groups."""
    theta = from_groups(groups)
    within = groups.scatters.sum(axis=0) / groups.counts.sum()
    ridge = np.diagonal(theta.covariances.mean(axis=0)) * RIDGE
    return theta._replace(covariances=np.stack([within + np.diag(ridge)] * len(theta.weights)))


RIDGE = 1e-3  # of the variances: what covariances of few rows, or of constant features, need
