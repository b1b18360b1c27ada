"""A fit with differential privacy, all sites being in this process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gaussip.arrays import NDArray
from gaussip.errors import CollapseError, DataError, PrivacyWarning, SettingError, StartError, Text
from gaussip.estimator.ending import keep, refuse_if_degenerate
from gaussip.estimator.preparation import prepared, task_of
from gaussip.exchange.questions import Spent, announced, answered, cost
from gaussip.mixture.covariance_types import as_full
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta, broadcast
from gaussip.phases.private_fit import model_of
from gaussip.privacy import BoundedRows, Privacy, PrivateFit, ask_private
from gaussip.privacy.fit import plan_of
from gaussip.privacy.patients import shares_of_patients
from gaussip.privacy.rows import refuse_heavy, refuse_narrow
from gaussip.rows.checks import check_row_weights, feature_names
from gaussip.rows.frames import by_column_name, names_of, selected
from gaussip.rows.problem import seeds_of
from gaussip.rows.sites import site_of_rows
from gaussip.rows.streaming import by_name, on_disk
from gaussip.simulation.history import SIMULATION, History
from gaussip.simulation.run import Run
from gaussip.starts.mixtures import checked

ALONE = {
    "algorithm": ("masked", "its sums are what noise is added to"),
    "n_init": (1, "every further start would spend privacy"),
    "shrinkage": (0.0, "the target would be another release"),
    "warm_start": (False, "a second fit spends privacy again"),
    "device": ("cpu", "private sums are computed there"),
    "weighting": ("rows", "every row has the same guarantee"),
}  #: settings that a private fit takes one value of, and why


def fit_privately(
    mixture: Any, X: Any, y: Any, sites: Any, sample_weight: Any, watch: Callable[[int, int], None]
) -> None:
    """Fit an estimator that has ``privacy``."""
    privacy = Privacy.of(mixture.privacy)
    refuse_other_settings(mixture)
    if on_disk(X) or by_name(X):
        raise DataError("a private fit needs the rows in one array", remedy="read them into memory")
    if sites is None:
        raise DataError(Text("a private fit needs {sites}: noise is added to what each site sends"))
    X, y, sites, sample_weight = by_column_name(X, y, sites, sample_weight)
    if privacy.patient is not None:
        X, sample_weight = by_patient(X, sites, sample_weight, privacy.patient)
    seeds = seeds_of(mixture.random_state, 1)
    problem = prepared(mixture, X, y, sites, sample_weight, seeds[0])
    features = feature_names(mixture)
    limits = privacy.limits(features)
    privacy.shares(len(problem.sites))  # refused where there are too few sites
    for m, name in enumerate(problem.sites.tolist()):
        own = None if problem.weights is None else problem.weights[m]
        refuse_narrow(limits, problem.values[m], own, features, name, own=False)
    if problem.weights is not None:
        refuse_heavy(problem.weights)
    held = BoundedRows.within(
        limits, problem.values, problem.labels, problem.weights, problem.allowed, float(mixture.unlabelled_weight)
    )
    task = task_of(
        mixture, sites=problem.sites, features=features, n_features=len(features), classes=problem.classes,
        owners=None if problem.labels is None else problem.owners, start=_start(mixture, len(features)),
        seeds=seeds, privacy=privacy,
    )  # fmt: skip
    model, network = model_of(task), task.network
    sent: list[Spent] = [announced(network)]

    most = plan_of(privacy, model).most_sums

    def count(words: int) -> None:
        sent.append(sent[-1].plus(cost(network, words)))
        watch(len(sent), most)

    found = answered(ask_private(privacy, model, len(problem.sites)), held, len(problem.sites), count)
    rounds = len(found.changes)
    of_rounds = sent[-2 * rounds + 1 :: 2]  # each round is a noisy sum, and the first site's mixture to all
    keep_private(
        mixture, found, of_rounds, sites=problem.sites, classes=problem.classes, owners=problem.owners,
        origin=SIMULATION,
    )  # fmt: skip
    mixture.sum_plan_ = str(network.plan(len(features)))


def keep_private(
    mixture: Any,
    found: PrivateFit,
    of_rounds: Sequence[Spent],
    *,
    sites: NDArray,
    classes: NDArray,
    owners: Owners,
    origin: str,
) -> None:
    """Set the attributes: nothing that is not in noisy sums goes into them.

    Parameters
    ----------
    of_rounds : what was sent until the end of each round
    sites, classes, owners, origin : as of another fit
    """
    M, nan = len(sites), float("nan")
    history = History.of(
        [
            (number + 1, nan, change, 0.0, 1.0, 0, *spent)
            for number, (change, spent) in enumerate(zip(found.changes, of_rounds, strict=True))
        ]
    )
    run = Run(
        broadcast(found.theta, (M,)), history, len(found.changes), np.array(found.settled), None, np.array(0), None
    )
    mass = np.full(M, found.rows / M)
    try:
        of_components = np.repeat(classes, owners.counts).tolist()
        refuse_if_degenerate(mixture, run, mass, feature_names(mixture), of_components)
    except CollapseError as error:
        error.remedy = f"{error.remedy}; this attempt has spent {found.guarantee}"
        raise
    keep(mixture, run, sites=sites, mass=mass, classes=classes, owners=owners, target=None, origin=origin)
    if not found.settled:
        warnings.warn(
            "the last round of the private fit still moved by more than its noise: components that are not Gaussian, "
            "or too many of them, or rows beyond the bounds",
            ConvergenceWarning, stacklevel=4,
        )  # fmt: skip
    if found.beware is not None:
        warnings.warn(found.beware, PrivacyWarning, stacklevel=4)
    mixture.privacy_ = found.guarantee
    mixture.private_covariance_ = found.covariance


def _start(mixture: Any, n_features: int) -> str | Theta:
    """How the fit begins; a start that is given is taken for public."""
    parts = (mixture.weights_init, mixture.means_init, mixture.covariances_init)
    if all(part is None for part in parts):
        return str(mixture.init_params)
    if any(part is None for part in parts):
        text = Text("a private fit takes {weights_init}, {means_init} and {covariances_init} together, or none")
        raise StartError(text, setting="means_init")
    K = mixture.n_components
    covariances = as_full(mixture.covariance_type, mixture.covariances_init, (K, n_features))
    return checked(Theta(*(np.asarray(part, dtype=float) for part in (*parts[:2], covariances))), K, n_features)


def by_patient(X: Any, sites: Any, sample_weight: Any, column: str) -> tuple[Any, NDArray]:
    """The rows without the column of patients, and their weights."""
    names = names_of(X)
    if names is None or column not in names:
        what = "X has no columns with names" if names is None else f"the columns are {', '.join(map(str, names))}"
        raise DataError(
            f"there is no column {column!r}, which privacy names for the patient", column=column, remedy=what
        )
    shares = shares_of_patients(X[column], site_of_rows(sites, len(X))[0], column)
    weights = check_row_weights(sample_weight, len(shares))
    if weights is not None:
        refuse_heavy([weights])  # before the rows of a patient share it
    return selected(X, [name for name in names if name != column]), shares if weights is None else weights * shares


def refuse_other_settings(mixture: Any) -> None:
    """Refuse settings that do not go with privacy."""
    for name, (value, why) in ALONE.items():
        if getattr(mixture, name) != value:
            raise SettingError(
                Text(f"a private fit needs {{{name}:{{value!r}}}}: {{why}}", value=value, why=why), setting=name
            )
    if mixture.init_params == "search":
        text = Text("a private fit begins from labels or by k-means: a search would spend privacy on every trial")
        raise SettingError(text, setting="init_params", remedy=Text("use {init_params:'kmeans'}"))
