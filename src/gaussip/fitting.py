"""From a user's arrays to a checked problem over sites, and to its starting values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gaussip import start
from gaussip.arrays import NDArray, to_device
from gaussip.data.split import by_column
from gaussip.errors import DataError, StartError
from gaussip.networks import mixing_weights
from gaussip.parameters import Theta, reorder
from gaussip.rows import Rows
from gaussip.search import searched
from gaussip.validation import (
    check_cells,
    check_choice,
    check_row_weights,
    check_sites_filled,
    check_unlabelled_weight,
    encode_labels,
)

INITS = ("kmeans", "labels", "search")


def seeds_of(random_state: Any, n_init: int) -> list[int]:
    """The seed of a random network, and one for each start, from what scikit-learn takes for a random state."""
    from sklearn.utils import check_random_state

    return [int(s) for s in check_random_state(random_state).randint(2**31 - 1, size=1 + n_init)]


class Problem(NamedTuple):
    """Checked input: rows by site, labels as component numbers, and the weights of the network."""

    rows: Rows
    values: list[NDArray]  #: (n_m, p) of each site
    weights: list[NDArray] | None  #: (n_m,) row weights of each site
    sites: NDArray  #: (M,), sorted names
    classes: NDArray  #: (C,), component k is class k
    W: sparse.csr_array


def prepare(
    X: NDArray,
    y: Any = None,
    sites: Any = None,
    sample_weight: Any = None,
    *,
    n_components: int,
    network: Any = "circle",
    mixing: str = "row",
    seed: int = 0,
    device: str = "cpu",
    columns: Sequence[str] | None = None,
    unlabelled_weight: float = 1.0,
) -> Problem:
    """Check everything a fit is given and lay it out by site.

    Parameters
    ----------
    X : (n, p) floats
    y : (n,) labels or None
    sites : (n,) names or None for one site
    columns : (p,) names for errors
    unlabelled_weight : what an unlabelled row counts against a labelled one
    """
    n, p = X.shape
    check_cells(X, columns if columns is not None else [f"column {j}" for j in range(p)])
    if n < n_components:
        raise DataError(f"n_components={n_components} is more than the n_samples={n} rows")
    v = check_row_weights(sample_weight, n)
    labels, classes = encode_labels(y, n, n_components)
    check_unlabelled_weight(unlabelled_weight, labels is not None, n_components - len(classes))
    codes, names = (np.zeros(n, dtype=int), np.array([0])) if sites is None else by_column(sites)
    if len(codes) != n:
        raise DataError(f"sites has {len(codes)} entries for {n} rows")
    W = mixing_weights(network, names.tolist(), mixing, seed)

    order = np.argsort(codes, kind="stable")
    cuts = np.cumsum(np.bincount(codes))[:-1]

    def by_site(column: NDArray) -> list[NDArray]:
        return np.split(column[order], cuts)

    values = by_site(X)
    weights = None if v is None else by_site(v)
    if weights is not None:
        check_sites_filled(np.array([w.sum() for w in weights]), names.tolist())
    rows = Rows.of_sites(
        [to_device(x, device) for x in values],
        None if labels is None else by_site(labels),
        None if weights is None else [to_device(w, device) for w in weights],
        n_components,
        unlabelled_weight=unlabelled_weight,
    )
    return Problem(rows, values, weights, names, classes, W)


class Given(NamedTuple):
    """Starting values a user gives; None where they are to be found."""

    weights: Any = None
    means: Any = None
    covariances: Any = None


def starts(
    problem: Problem,
    n_components: int,
    init_params: str,
    seeds: Sequence[int],
    given: Given,
    reg_covar: float = 0.0,
    shrinkage: float = 0.0,
) -> list[Theta]:
    """Starting values: one per seed from k-means or a search, one from labels, with what is given in their place."""
    check_choice("init_params", init_params, INITS)
    try:
        given = Given(*(None if part is None else np.asarray(part, dtype=float) for part in given))
    except (TypeError, ValueError) as error:
        raise StartError(
            f"weights_init, means_init and covariances_init must be arrays of numbers: {error}"
        ) from error
    if all(part is not None for part in given):
        found = [Theta(*given)]
    elif init_params == "labels":
        found = [start.from_labels(problem.rows, start.spread_of(problem.values, problem.weights))]
    else:
        if init_params == "search":
            shared = (problem.values, problem.weights, problem.rows)
            found = [searched(*shared, n_components, seed, reg_covar, shrinkage) for seed in seeds]
        else:
            found = [start.kmeans(problem.values, n_components, seed, problem.weights) for seed in seeds]
        if given.means is not None and given.means.shape == found[0].means.shape:
            numbers = np.arange(n_components)
            found = [reorder(theta, start.order_by(theta, given.means, numbers)) for theta in found]
        elif problem.rows.labelled is not None and init_params == "kmeans":
            found = [reorder(theta, start.class_order(theta, problem.rows)) for theta in found]
    merged = (
        Theta(*(mine if theirs is None else theirs for mine, theirs in zip(theta, given, strict=True)))
        for theta in found
    )
    return [start.checked(theta, n_components, problem.values[0].shape[1]) for theta in merged]
