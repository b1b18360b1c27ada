"""What sites tell all others once, before the first round: who is how large, where the features lie, where to start.

Every site's piece is flooded: each exchange takes the largest of what the neighbours know, and what is not known is
minus infinity. All then compute the same from the same list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.mixture.theta import Theta, reorder, width
from gaussip.phases.task import Own, Task
from gaussip.rows.rows import Rows
from gaussip.starts import shared as start
from gaussip.starts.shared import Centres, Classes, Extent


class Facts(NamedTuple):
    """The first pieces of all sites."""

    extents: Extent
    classes: Classes | None  #: the labelled rows of all sites; None where there are none

    @property
    def spread(self) -> NDArray:
        """The agreed scale of the features."""
        return start.location_and_spread(self.extents)[1]


def table_of(piece: NDArray, index: int, n_sites: int) -> NDArray:
    """What is known before the first exchange: one's own piece, (M, size)."""
    table = np.full((n_sites, len(piece)), -np.inf)
    table[index] = piece
    return table


def can_be_told(told: NDArray, known: NDArray) -> bool:
    """Whether a neighbour's table agrees with one's own: whole rows, the same where both know, mine among them."""
    there, here = np.isfinite(told), np.isfinite(known)
    rows = there.all(axis=1)
    if not (rows | (told == -np.inf).all(axis=1)).all():
        return False
    both = rows & here.all(axis=1)
    return bool((told[both] == known[both]).all())


def facts_piece(own: Own, rows: Rows) -> NDArray:
    """A site's mass, mean and variances, and the sums of its labelled rows by class."""
    extent = start.extent_of(own.X, own.weights)
    labelled = [] if rows.labelled is None else [np.ravel(rows.centres), np.ravel(rows.labelled)]
    return np.concatenate([[float(rows.mass)], [float(extent.mass)], extent.mean, extent.variance, *labelled])


def facts_of(table: NDArray, task: Task) -> Facts:
    """All sites' pieces; each array in one piece, as in a simulation: sums of strided ones may end otherwise."""
    p, K = task.n_features, task.n_components
    _, mass, means, variances, centres, sums = np.split(
        table, np.cumsum([1, 1, p, p, p if task.labelled else 0]), axis=1
    )
    extents = Extent(mass[:, 0].copy(), means.copy(), variances.copy())
    if not task.labelled:
        return Facts(extents, None)
    centres, sums = centres.copy(), sums.copy().reshape(-1, K, width(p))
    return Facts(extents, start.classes_of(sums, centres) if sums[..., 0].any() else None)


def centres_piece(own: Own, spread: NDArray, task: Task) -> NDArray:
    """A site's contribution to a k-means start: counts, means and the scatter within, zeros for what it has not."""
    K, p = task.n_components, task.n_features
    found = start.site_centres(own.X, K, spread, task.seed, own.weights, task.min_count)
    counts, means = np.zeros(K), np.zeros((K, p))
    counts[: len(found.counts)], means[: len(found.counts)] = found.counts, found.means
    return np.concatenate([counts, means.ravel(), found.within.ravel()])


def shared_of(centres: NDArray, task: Task) -> list[Centres]:
    """All sites' centres."""
    K, p = task.n_components, task.n_features
    shared = []
    for piece in centres:
        here = piece[:K] > 0
        means = piece[K : K + K * p].reshape(K, p)
        shared.append(Centres(piece[:K][here], means[here], piece[K + K * p :].reshape(p, p)))
    return shared


def start_of(facts: Facts, centres: NDArray | None, task: Task) -> Theta:
    """The start that all sites compute."""
    K, p = task.n_components, task.n_features
    if isinstance(task.start, Theta):
        return start.checked(task.start, K, p)
    if centres is None:
        classes = facts.classes or Classes(np.zeros(K), np.zeros((K, p)), np.zeros((K, p, p)))
        return start.checked(start.from_classes(classes, facts.spread), K, p)
    theta = start.from_centres(shared_of(centres, task), K, facts.spread, task.seed)
    if facts.classes is not None:
        theta = reorder(theta, start.order_of(theta, facts.classes))
    return start.checked(theta, K, p)
