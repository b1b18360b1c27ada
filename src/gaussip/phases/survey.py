"""What sites share once, before the first round: how large they are, where the features lie, and where to start.

Every site's piece is flooded; all then compute the same from the same table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import GaussipError, StartError
from gaussip.exchange import Message
from gaussip.mixture.theta import Theta, reorder, width
from gaussip.phases.base import Context, Phase
from gaussip.phases.flooding import Flood
from gaussip.phases.task import LocalData, Task
from gaussip.rows.moments import mean_covariance
from gaussip.rows.rows import Rows
from gaussip.starts import shared as starts
from gaussip.starts.shared import Centres, Classes, Extent


class Table(NamedTuple):
    """All sites' pieces."""

    pieces: NDArray  #: (M, size)


class Facts(NamedTuple):
    """What the survey's pieces say."""

    mass: NDArray  #: (M,), of the rows as they count in the fit
    extents: Extent
    classes: Classes | None  #: the labelled rows of all sites; None where there are none

    @property
    def spread(self) -> NDArray:
        """The agreed scale of the features."""
        return starts.location_and_spread(self.extents)[1]


class FloodPhase(Phase):
    """A phase in which every site floods one piece."""

    doing = "surveying"
    memory: Flood

    def __init__(self, context: Context, piece: NDArray) -> None:
        self._diameter = context.task.diameter
        self.memory = Flood.of_site(piece, context.index, len(context.task.sites))

    @property
    def over(self) -> bool:
        """After as many exchanges as the network is wide."""
        return self.memory.stage == self._diameter

    @property
    def result(self) -> Table:
        """The same table at all sites."""
        return Table(self.memory.table)

    def message(self) -> Message:
        """The table as far as it is known."""
        return self.memory.message()

    def check(self, message: Message) -> bool:
        """Whether a neighbour's table agrees with what is known."""
        return self.memory.agrees(message)

    def absorb(self, heard: Message) -> None:
        """One exchange of the flood."""
        self.memory = self.memory.after(heard)


class Survey(FloodPhase):
    """Every site's mass, mean and variances, and the sums of its labelled rows by class."""

    name = "survey"

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> Survey:
        """From the site's own rows."""
        rows = rows_of(context.local, context.task, context.task.n_components)
        return cls(context, facts_piece(context.local, rows))


class SharedCentres(FloodPhase):
    """Every site's centres by k-means."""

    name = "centres"

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> SharedCentres | None:
        """Where the start is made of centres."""
        if context.resumed is not None or context.task.start not in ("kmeans", "search"):
            return None
        facts = facts_of(results["survey"].pieces, context.task)
        return cls(context, centres_piece(context.local, facts.spread, context.task))


class Agreed(NamedTuple):
    """What all sites agreed on before the first round; the fit needs nothing else of the phases before."""

    pieces: NDArray  #: (M, size), the survey's
    weights: NDArray  #: of the start, in the units of the table, or of the basis
    means: NDArray
    covariances: NDArray
    target: NDArray  #: (p, p), what shrinkage draws covariances towards, in the same units

    @property
    def start(self) -> Theta:
        """The start as a mixture."""
        return Theta(self.weights, self.means, self.covariances)


def agreed_start(context: Context, results: dict[str, Any]) -> Agreed:
    """From what was shared, the search's choice, or the checkpoint that the run continues: the same at all sites."""
    pieces = results["survey"].pieces
    if context.resumed is not None:
        return Agreed(pieces, *context.resumed.start, context.resumed.target)
    if "search" in results:
        start = Theta(*results["search"])
    else:
        centres = results["centres"].pieces if "centres" in results else None
        try:
            start = start_of(facts_of(pieces, context.task), centres, context.task)
        except GaussipError:
            raise
        except ValueError as error:
            raise StartError(f"the sites' pieces do not give a start: {error}") from error
    return Agreed(pieces, *start, mean_covariance(start))


def rows_of(local: LocalData, task: Task, n_components: int) -> Rows:
    """A site's rows, ready for the hot function."""
    X, labels, weights = local
    return Rows.of_sites(
        [X], None if labels is None else [labels], None if weights is None else [weights], n_components,
        unlabelled_weight=task.unlabelled_weight,
    ).site(0)  # fmt: skip


def facts_piece(local: LocalData, rows: Rows) -> NDArray:
    """A site's mass, mean and variances, and the sums of its labelled rows by class."""
    extent = starts.extent_of(local.X, local.weights)
    labelled = [] if rows.labelled is None else [np.ravel(rows.centres), np.ravel(rows.labelled)]
    return np.concatenate([[float(rows.mass)], [float(extent.mass)], extent.mean, extent.variance, *labelled])


def facts_of(pieces: NDArray, task: Task) -> Facts:
    """What all sites' pieces say; arrays are contiguous, as in a simulation: strided sums may round otherwise."""
    p, K = task.n_features, task.n_components
    mass, counts, means, variances, centres, sums = np.split(
        pieces, np.cumsum([1, 1, p, p, p if task.labelled else 0]), axis=1
    )
    extents = Extent(counts[:, 0].copy(), means.copy(), variances.copy())
    if not task.labelled:
        return Facts(mass[:, 0].copy(), extents, None)
    centres, sums = centres.copy(), sums.copy().reshape(-1, K, width(p))
    classes = starts.classes_of(sums, centres) if sums[..., 0].any() else None
    return Facts(mass[:, 0].copy(), extents, classes)


def centres_piece(local: LocalData, spread: NDArray, task: Task) -> NDArray:
    """A site's contribution to a k-means start: counts, means and the scatter within, zeros for what it has not."""
    K, p = task.n_components, task.n_features
    centres = starts.site_centres(local.X, K, spread, task.seed, local.weights, task.min_count)
    counts, means = np.zeros(K), np.zeros((K, p))
    counts[: len(centres.counts)], means[: len(centres.counts)] = centres.counts, centres.means
    return np.concatenate([counts, means.ravel(), centres.within.ravel()])


def centres_of(pieces: NDArray, task: Task) -> list[Centres]:
    """All sites' centres."""
    K, p = task.n_components, task.n_features
    shared = []
    for piece in pieces:
        here = piece[:K] > 0
        means = piece[K : K + K * p].reshape(K, p)
        shared.append(Centres(piece[:K][here], means[here], piece[K + K * p :].reshape(p, p)))
    return shared


def start_of(facts: Facts, centres: NDArray | None, task: Task) -> Theta:
    """The start that all sites compute."""
    K, p = task.n_components, task.n_features
    if isinstance(task.start, Theta):
        return starts.checked(task.start, K, p)
    if centres is None:
        classes = facts.classes or Classes(np.zeros(K), np.zeros((K, p)), np.zeros((K, p, p)))
        return starts.checked(starts.from_classes(classes, facts.spread), K, p)
    theta = starts.from_centres(centres_of(centres, task), K, facts.spread, task.seed)
    if facts.classes is not None:
        theta = reorder(theta, starts.order_of(theta, facts.classes))
    return starts.checked(theta, K, p)
