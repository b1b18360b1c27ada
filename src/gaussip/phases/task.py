"""What a site has to do, whatever carries its messages: all sites have the same task."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gaussip import algorithms
from gaussip.algorithms import Algorithm
from gaussip.algorithms.base import NEIGHBOURS, SUMS, refuse_unpooled_sums, warn_if_not_pooled
from gaussip.algorithms.stopping import stopping_together
from gaussip.arrays import NDArray
from gaussip.errors import DataError, SettingError
from gaussip.exchange.plan import Network
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta
from gaussip.networks import mixing_weights, two_way_weights
from gaussip.privacy import Privacy
from gaussip.rows.checks import check_mean_weight
from gaussip.rows.groups import Allowed
from gaussip.rows.held import Held
from gaussip.rows.labels import allowed_by
from gaussip.rows.rare import Grouped, Rare
from gaussip.rows.rows import Rows


class LocalData(NamedTuple):
    """A site's own rows."""

    X: NDArray  #: (n, p)
    labels: NDArray | None  #: (n,), component numbers, -1 where unlabelled
    weights: NDArray | None  #: (n,)
    sets: tuple[tuple[int, ...], ...] = ()  #: of classes: the numbers of labels after the classes

    def rows(self, task: "Task", n_components: int) -> Rows:
        """The rows (1,) as they count in the fit, ready for the hot function."""
        X, labels, weights, _ = self
        labels = np.full(len(X), -1) if labels is None and task.owners is not None else labels
        return Rows.of_sites(
            [X], None if labels is None else [labels], None if weights is None else [weights], n_components,
            unlabelled_weight=task.unlabelled_weight, allowed=self.allowed(task),
        )  # fmt: skip

    def grouped(self, task: "Task") -> Grouped:
        """The rows of which others may have too few."""
        return Grouped.of(self.X, self.labels, self.sets, task.n_classes, self.weights)

    def without(self, rare: Rare, task: "Task") -> "LocalData":
        """The rows that are not left out."""
        stay = self.grouped(task).kept(rare.few)
        X, labels, weights = (None if part is None else part[stay] for part in self[:3])
        assert X is not None
        return LocalData(X, labels, weights, self.sets)

    def allowed(self, task: "Task") -> Allowed | None:
        """The components of each label; None where label k is component k."""
        return None if task.owners is None else allowed_by(task.owners, self.sets)

    def held(self, task: "Task", index: int) -> Held:
        """The rows as the questions of all sites want them."""
        weights = None if self.weights is None else [self.weights]
        labels = None if task.owners is None else [np.full(len(self.X), -1) if self.labels is None else self.labels]
        rows = self.rows(task, task.n_components)
        return Held(rows, [self.X], weights, labels, task.owners, np.array([index]), len(task.sites))


class Reduction(NamedTuple):
    """How features are to be reduced."""

    keep: float | int  #: components, or the share of the variance that they exceed
    standardise: bool  #: whether features are first divided by their standard deviations
    most: int  #: the most components that may be kept


class Task(NamedTuple):
    """The settings of a run, checked."""

    sites: tuple[str, ...]  #: sorted
    W: sparse.csr_array
    network: Network  #: the same, as sums travel over it
    algorithm: Algorithm  #: one whose sites stop together
    n_components: int
    n_features: int
    owners: Owners | None  #: the components of each class; None where there are no labels
    start: str | Theta  #: "kmeans", "labels", "search" or given
    seed: int  #: of k-means
    scale: bool  #: whether features are standardised, by an agreed location and spread, before the fit
    reg_covar: float
    weighting: str
    max_rounds: int
    tol: float
    min_count: int  #: the fewest rows, of all sites, whose sums may be known
    shrinkage: float = 0.0  #: the share of every covariance that is the start's mean covariance
    unlabelled_weight: float = 1.0  #: weight of an unlabelled row; a labelled one has weight 1
    reduction: Reduction | None = None  #: how the sites reduce their features first
    at_least: int | None = None  #: components, where their number is to be chosen up to n_components
    criterion: str = "bic"  #: by which it is chosen
    degenerate: str = "refuse"  #: or "keep" a fit with a degenerate component
    intervals: str = "none"  #: "plain" or "robust", where standard errors are wanted
    classes: tuple[Any, ...] = ()  #: names of the classes, in the order of their components
    features: tuple[str, ...] | None = None  #: names of the features
    hide: bool = True  #: whether parts of sums are masked, between real sites
    reveals: str = "nothing"  #: what of a site others may know: "nothing", "row counts" or "site moments"
    privacy: Privacy | None = None  #: what a private fit is to guarantee

    @property
    def n_classes(self) -> int:
        """Classes that rows may be labelled with."""
        return 0 if self.owners is None else len(self.owners.counts)

    @property
    def allowed(self) -> Allowed | None:
        """The components of each class; None where class k is component k."""
        return None if self.owners is None else allowed_by(self.owners, ())

    @property
    def class_of_component(self) -> tuple[Any, ...]:
        """The names of the classes of components; those after them are free."""
        counts = () if self.owners is None else self.owners.counts
        return tuple(name for name, count in zip(self.classes, counts, strict=False) for _ in range(count))

    @property
    def numbers(self) -> range:
        """The numbers of components that a search looks at."""
        return range(self.n_components if self.at_least is None else self.at_least, self.n_components + 1)

    @property
    def needs_mass(self) -> bool:
        """Whether the number of all rows must be known before the fit."""
        return self.algorithm.source != SUMS or self.intervals != "none" or self.unlabelled_weight == 0


def make_task(
    sites: tuple[str, ...],
    *,
    network: Any,
    mixing: str,
    network_seed: int,
    algorithm: str,
    eta: float,
    accelerate: bool,
    covariance_type: str,
    **rest: Any,
) -> Task:
    """The task of these settings; refuses networks and algorithms with which sites cannot work."""
    if len(sites) < 2:
        raise SettingError(f"sites that work together are at least two, not {len(sites)}")
    made = algorithms.make(algorithm, eta, accelerate, rest["min_count"], covariance_type)
    if made.source not in (NEIGHBOURS, SUMS):
        able = ", ".join(algorithms.between_sites())
        raise SettingError(
            f"algorithm {algorithm!r} does not run between sites; use one of {able}", setting="algorithm"
        )
    W = mixing_weights(network, sites, mixing, network_seed)
    if made.two_way:
        W = two_way_weights(W, sites, made.name)
    warn_if_not_pooled(made, W, rest["weighting"], sites)
    refuse_unpooled_sums(made, rest["weighting"])
    links = Network(W)
    stopping = made if made.source == SUMS else stopping_together(made, links.diameter, len(sites))
    return Task(sites, W, links, stopping, **rest)


def refuse_few(local: LocalData, task: Task) -> None:
    """Refuse rows that a run cannot use, or that gossip would reveal: one row's mean is that row."""
    counts = local.weights > 0 if local.weights is not None else np.ones(len(local.X), dtype=bool)
    if task.algorithm.source == NEIGHBOURS and counts.sum() < task.min_count:
        raise DataError(
            f"the table has {counts.sum()} rows that count, fewer than min_count={task.min_count}: what the site "
            f"sends its neighbours under {task.algorithm.name} would reveal too much of them; use algorithm masked"
        )
    if task.start == "search" and local.weights is not None:
        check_mean_weight([local.weights])
