"""Starting values as a user asks for them: found by k-means, from labels or by a search, or given."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.errors import StartError, Text
from gaussip.mixture.theta import Theta, reorder
from gaussip.rows.problem import Problem
from gaussip.settings import check
from gaussip.starts import shared as start
from gaussip.starts.search import searched


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
    check(init_params=init_params)
    try:
        given = Given(*(None if part is None else np.asarray(part, dtype=float) for part in given))
    except (TypeError, ValueError) as error:
        text = Text("{weights_init}, {means_init} and {covariances_init} must be arrays of numbers: {e}", e=error)
        raise StartError(text, setting="means_init") from error
    if all(part is not None for part in given):
        thetas = [Theta(*given)]
    elif init_params == "labels":
        thetas = [start.from_labels(problem.rows, start.spread_of(problem.values, problem.weights))]
    else:
        if init_params == "search":
            shared = (problem.values, problem.weights, problem.rows)
            thetas = [searched(*shared, n_components, seed, reg_covar, shrinkage) for seed in seeds]
        else:
            thetas = [start.kmeans(problem.values, n_components, seed, problem.weights) for seed in seeds]
        if given.means is not None and given.means.shape == thetas[0].means.shape:
            numbers = np.arange(n_components)
            thetas = [reorder(theta, start.order_by(theta, given.means, numbers)) for theta in thetas]
        elif problem.rows.labelled is not None and init_params == "kmeans":
            thetas = [reorder(theta, start.class_order(theta, problem.rows)) for theta in thetas]
    merged = (
        Theta(*(part if wanted is None else wanted for part, wanted in zip(theta, given, strict=True)))
        for theta in thetas
    )
    return [start.checked(theta, n_components, problem.values[0].shape[1]) for theta in merged]
