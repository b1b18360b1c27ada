"""What a site has to do, whatever carries its messages: all sites have the same task."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gaussip import algorithms
from gaussip.algorithms import Algorithm
from gaussip.algorithms.base import NEIGHBOURS, warn_if_not_pooled
from gaussip.algorithms.stopping import stopping_together
from gaussip.arrays import NDArray
from gaussip.errors import DataError, LabelError, SettingError
from gaussip.mixture.theta import Theta, width
from gaussip.networks import diameter, mixing_weights, two_way_weights
from gaussip.phases.averaging import Plan, plan_of
from gaussip.rows.checks import check_mean_weight

LONGEST = 1 << 14  # numbers in a message of sums
CHUNK = 2**17  # numbers in a message of a basis, a megabyte


class LocalData(NamedTuple):
    """A site's own rows."""

    X: NDArray  #: (n, p)
    labels: NDArray | None  #: (n,), component numbers, -1 where unlabelled
    weights: NDArray | None  #: (n,)


class Reduction(NamedTuple):
    """How features are to be reduced."""

    keep: float | int  #: components, or the share of the variance that they exceed
    standardise: bool  #: whether features are first divided by their standard deviations
    most: int  #: the most components that may be kept


class Wanted(NamedTuple):
    """The basis that is to be agreed on, and over what network."""

    keep: float | int  #: as in `Reduction`
    standardise: bool
    most: int
    n_features: int
    sites: tuple[str, ...]
    plan: Plan
    diameter: int

    @property
    def longest(self) -> int:
        """Numbers that no message exceeds."""
        largest = max(self.n_covariances, self.flat_size(self.most))
        return max(min(CHUNK, largest), len(self.sites), 1 + self.n_features)

    @property
    def room(self) -> int:
        """Bytes that no memory exceeds."""
        return 8 * (2 * self.longest + 1 + self.n_features + self.n_covariances + self.flat_size(self.most)) + 1024

    @property
    def n_covariances(self) -> int:
        """Variances, and covariances of two features."""
        return self.n_features * (self.n_features + 1) // 2

    def flat_size(self, d: int) -> int:
        """Numbers that a basis of d components takes."""
        return 2 + 2 * self.n_features + d * (1 + self.n_features)


def wanted_of(reduction: Reduction, n_features: int, sites: tuple[str, ...], W: Any) -> Wanted:
    """What sites over a network are to agree on."""
    return Wanted(*reduction, n_features, sites, plan_of(W), max(1, diameter(W)))


class Task(NamedTuple):
    """The settings of a run, checked."""

    sites: tuple[str, ...]  #: sorted
    W: sparse.csr_array
    diameter: int  #: exchanges in which all hear from all
    algorithm: Algorithm  #: one whose sites stop together
    n_components: int
    n_features: int
    labelled: bool  #: whether there are labels
    start: str | Theta  #: "kmeans", "labels", "search" or given
    seed: int  #: of k-means
    scale: bool  #: whether features are standardised, by an agreed location and spread, before the fit
    reg_covar: float
    weighting: str
    max_rounds: int
    tol: float
    min_count: int  #: the fewest rows a shared statistic may stand for
    shrinkage: float = 0.0  #: the share of every covariance that is the start's mean covariance
    unlabelled_weight: float = 1.0  #: what an unlabelled row counts against a labelled one
    wanted: Wanted | None = None  #: the basis that the sites agree on first, if they reduce their features
    at_least: int | None = None  #: components, where their number is to be chosen up to n_components
    criterion: str = "bic"  #: by which it is chosen
    intervals: str = "none"  #: "plain" or "robust", where standard errors are wanted
    classes: tuple[str, ...] = ()  #: names of the classes, in the order of their components

    @property
    def numbers(self) -> range:
        """The numbers of components that a search looks at."""
        return range(self.n_components if self.at_least is None else self.at_least, self.n_components + 1)

    @property
    def piece(self) -> int:
        """Numbers of a long part that sites sum at a time."""
        return max(1, LONGEST // len(self.sites))

    @property
    def longest_message(self) -> int:
        """Bytes that no message of the run exceeds."""
        p = self.n_features if self.wanted is None else self.wanted.most
        M, K, f = len(self.sites), self.n_components, width(p)
        piece = 2 + 4 * p + K * (1 + f) + p**2
        reducing = 0 if self.wanted is None else self.wanted.longest
        fitting = M * piece + M * (M // 24 + 2) + 4 * K * f
        summing = 0 if self.intervals == "none" else M * self.piece
        return 8 * max(fitting, reducing, summing) + 1024


def make_task(
    sites: tuple[str, ...],
    *,
    network: Any,
    mixing: str,
    network_seed: int,
    algorithm: str,
    eta: float,
    reduction: Reduction | None = None,
    **rest: Any,
) -> Task:
    """The task of these settings; refuses networks and algorithms with which sites cannot work."""
    if len(sites) < 2:
        raise SettingError(f"sites that work together are at least two, not {len(sites)}")
    made = algorithms.make(algorithm, eta)
    if made.source != NEIGHBOURS:
        able = ", ".join(algorithms.between_sites())
        raise SettingError(
            f"algorithm {algorithm!r} does not run between sites; use one of {able}", setting="algorithm"
        )
    W = mixing_weights(network, sites, mixing, network_seed)
    if made.two_way:
        W = two_way_weights(W, sites, made.name)
    warn_if_not_pooled(made, W, rest["weighting"], sites)
    across = diameter(W)
    wanted = None if reduction is None else wanted_of(reduction, rest["n_features"], sites, W)
    return Task(sites, W, across, stopping_together(made, across, len(sites)), wanted=wanted, **rest)


def refuse_few(local: LocalData, task: Task) -> None:
    """Refuse to share statistics of fewer rows than agreed: one row's mean is that row."""
    counts = local.weights > 0 if local.weights is not None else np.ones(len(local.X), dtype=bool)
    if counts.sum() < task.min_count:
        raise DataError(
            f"the table has {counts.sum()} rows that count, fewer than min_count={task.min_count}: what the site "
            "sends would reveal too much of them"
        )
    if task.start == "search" and local.weights is not None:
        check_mean_weight([local.weights])
    if local.labels is None:
        return
    of_class = np.bincount(local.labels[(local.labels >= 0) & counts], minlength=task.n_components)
    for k, n in enumerate(of_class.tolist()):
        if 0 < n < task.min_count:
            name = repr(task.classes[k]) if k < len(task.classes) else f"number {k + 1}"
            raise LabelError(
                f"class {name} has {n} labelled row{'s' * (n > 1)} here, fewer than min_count={task.min_count}: "
                "what the site sends would reveal too much of them; leave their labels out at this site",
                label=task.classes[k] if k < len(task.classes) else None,
            )
