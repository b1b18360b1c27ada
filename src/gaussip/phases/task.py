"""What a site has to do, whatever carries its messages: all sites have the same task."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gaussip import algorithms
from gaussip.algorithms import Algorithm
from gaussip.algorithms.base import warn_if_not_pooled
from gaussip.algorithms.stopping import stopping_together
from gaussip.arrays import NDArray
from gaussip.errors import DataError, LabelError, SettingError
from gaussip.mixture.theta import Theta, width
from gaussip.networks import diameter, mixing_weights, two_way_weights
from gaussip.phases.basis import Reduction, Wanted, wanted_of
from gaussip.rows.checks import check_mean_weight

LONGEST = 1 << 14  # numbers in a message of sums


class Own(NamedTuple):
    """A site's own rows."""

    X: NDArray  #: (n, p)
    labels: NDArray | None  #: (n,), component numbers, -1 where unlabelled
    weights: NDArray | None  #: (n,)


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
    if not made.exchanges:
        able = ", ".join(sorted(name for name, kind in algorithms.REGISTRY.items() if kind.exchanges))
        text = f"algorithm {algorithm!r} does not run between sites; use one of {able}"
        raise SettingError(text, setting="algorithm")
    W = mixing_weights(network, sites, mixing, network_seed)
    if made.two_way:
        W = two_way_weights(W, sites, made.name)
    warn_if_not_pooled(made, W, rest["weighting"], sites)
    across = diameter(W)
    wanted = None if reduction is None else wanted_of(reduction, rest["n_features"], sites, W)
    return Task(sites, W, across, stopping_together(made, across), wanted=wanted, **rest)


def refuse_few(own: Own, task: Task) -> None:
    """Refuse to share statistics of fewer rows than agreed: one row's mean is that row."""
    counts = own.weights > 0 if own.weights is not None else np.ones(len(own.X), dtype=bool)
    if counts.sum() < task.min_count:
        raise DataError(
            f"the table has {counts.sum()} rows that count, fewer than min_count={task.min_count}: what the site "
            "sends would tell too much of them"
        )
    if task.start == "search" and own.weights is not None:
        check_mean_weight([own.weights])
    if own.labels is None:
        return
    of_class = np.bincount(own.labels[(own.labels >= 0) & counts], minlength=task.n_components)
    few = [(k, n) for k, n in enumerate(of_class.tolist()) if 0 < n < task.min_count]
    if few:
        k, n = few[0]
        raise LabelError(
            f"class number {k + 1} has {n} labelled row{'s' * (n > 1)} here, fewer than min_count={task.min_count}: "
            "what the site sends would tell too much of them; leave their labels out at this site"
        )
