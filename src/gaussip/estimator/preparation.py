"""What a fit does before it begins: check the settings, lay out the rows by site, state each site's task."""

from collections.abc import Callable, Sequence
from typing import Any

from gaussip.arrays import NDArray
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta
from gaussip.phases.task import Task, make_task
from gaussip.privacy import Privacy
from gaussip.rows.frames import by_column_name, validated
from gaussip.rows.labels import check_components_per_class
from gaussip.rows.problem import Problem, prepare
from gaussip.rows.streaming import on_disk, prepare_on_disk
from gaussip.settings import SETTINGS, check
from gaussip.starts.rare import without_rare


def check_settings(mixture: Any) -> None:
    """Refuse settings of an estimator that cannot work."""
    given = {name: value for name, value in mixture.get_params().items() if name in SETTINGS}
    check_components_per_class(given.pop("components_per_class"))
    check(**given)


def prepared(
    mixture: Any,
    X: Any,
    y: Any,
    sites: Any,
    sample_weight: Any,
    seed: int,
    min_count: int = 1,
    count: Callable[[int], None] = lambda words: None,
) -> Problem:
    """The checked problem, of rows in memory or on disk; the estimator keeps the features' names.

    In memory, groups of fewer rows than ``min_count`` are left out as between sites; ``count`` is called with the
    words of each sum that finds them.
    """
    settings = {
        "n_components": mixture.n_components, "network": mixture.network, "mixing": mixture.mixing, "seed": seed,
        "device": mixture.device, "unlabelled_weight": mixture.unlabelled_weight,
        "components_per_class": mixture.components_per_class,
    }  # fmt: skip
    X, y, sites, sample_weight = by_column_name(X, y, sites, sample_weight)
    if on_disk(X):
        problem = prepare_on_disk(X, y, sites, sample_weight, **settings)
        mixture.n_features_in_ = problem.values[0].shape[1]
        if hasattr(mixture, "feature_names_in_"):
            del mixture.feature_names_in_
        return problem
    X = validated(mixture, X, reset=True)
    columns = getattr(mixture, "feature_names_in_", None)
    X, y, sites, sample_weight = without_rare(X, y, sites, sample_weight, min_count, count)
    return prepare(X, y, sites, sample_weight, columns=columns, **settings)


def task_of(
    mixture: Any,
    *,
    sites: NDArray,
    features: Sequence[str] | None,
    n_features: int,
    classes: NDArray,
    owners: Owners | None,
    start: str | Theta,
    seeds: Sequence[int],
    privacy: Privacy | None,
) -> Task:
    """What the sites have to do for an estimator's fit, each with its own rows.

    Parameters
    ----------
    sites : (M,), their names
    classes, owners : the labels, and the components of each
    seeds : of the network and of the start
    """
    return make_task(
        tuple(sites.tolist()), network=mixture.network, mixing=mixture.mixing, network_seed=seeds[0],
        algorithm=mixture.algorithm, eta=mixture.eta, accelerate=mixture.accelerate,
        covariance_type=mixture.covariance_type, n_components=mixture.n_components, n_features=n_features,
        owners=owners, start=start, seed=seeds[1], scale=False, classes=tuple(classes.tolist()),
        reg_covar=mixture.reg_covar, weighting=mixture.weighting, max_rounds=mixture.max_rounds, tol=mixture.tol,
        min_count=mixture.min_count, shrinkage=mixture.shrinkage, unlabelled_weight=mixture.unlabelled_weight,
        degenerate=mixture.degenerate, features=None if features is None else tuple(features), privacy=privacy,
    )  # fmt: skip
