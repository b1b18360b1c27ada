"""Starting values when nothing is known in advance: from shared centres, from labels, and by splitting components."""

from collections.abc import Sequence

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import StartError
from gaussip.mixture.theta import Theta, reorder
from gaussip.starts import shared as start
from gaussip.starts.search.moves import split
from gaussip.starts.shared import Centres, Classes


def candidates(
    n_components: int,
    shared: Sequence[Centres],
    classes: Classes | None,
    seeds: Sequence[int],
    fewer: Theta | None = None,
) -> list[Theta]:
    """Starts of K components, all in the same order of classes.

    Parameters
    ----------
    shared : each site's centres, in standard units
    classes : the labelled rows, in standard units; component k is class k
    seeds : for each, a start by k-means over the centres and another from centres drawn far apart
    fewer : a mixture of K - 1 components; each of them is split in turn
    """
    spread = np.ones(shared[0].means.shape[1])
    starts = []
    if fewer is not None:
        starts += [split(fewer, k) for k in range(n_components - 1)]
    if classes is not None and np.count_nonzero(classes.counts) == n_components:
        starts.append(start.from_classes(Classes(*(part[:n_components] for part in classes)), spread))
    others = []
    for seed in seeds:
        try:
            others += [start.from_centres(shared, n_components, spread, seed), drawn(shared, n_components, seed)]
        except StartError:
            if not starts:
                raise
    if classes is not None:
        others = [reorder(theta, start.order_of(theta, classes)) for theta in others]
    return starts + others


def drawn(shared: Sequence[Centres], n_components: int, seed: int) -> Theta:
    """Centres drawn in turn, with probability growing with the distance to the others (k-means++); one covariance."""
    rng = np.random.default_rng(seed)
    counts = np.concatenate([site.counts for site in shared])
    means = np.concatenate([site.means for site in shared])
    apart = np.ones(len(means))
    chosen: list[NDArray] = []
    for _ in range(n_components):
        share = np.cumsum(counts * apart)
        if not share[-1] > 0:
            raise StartError(f"the sites share too few different centres to draw {n_components} of them")
        chosen.append(means[np.searchsorted(share, rng.random() * share[-1], side="right")])
        apart = np.min([((means - centre) ** 2).sum(axis=1) for centre in chosen], axis=0)
    nearest = np.argmin([((means - centre) ** 2).sum(axis=1) for centre in chosen], axis=0)
    totals = np.bincount(nearest, weights=counts, minlength=n_components)
    within = start.common_within(shared)
    between = np.diag(counts @ (means - np.stack(chosen)[nearest]) ** 2 / counts.sum())
    return Theta(
        totals / totals.sum(),
        np.stack(chosen),
        np.broadcast_to(within + between, (n_components, *within.shape)).copy(),
    )
