"""A site's model as the same file that a fit writes, so that everything that reads one reads it."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import UncertaintyError
from gaussip.estimator import NetworkGaussianMixture
from gaussip.federation.folders import SiteFolder
from gaussip.inference import Uncertainty
from gaussip.inference.information import concluded
from gaussip.node.local_data import sorted_classes
from gaussip.node.run_store import Keeping
from gaussip.node.shutdown import End
from gaussip.phases.program import Program
from gaussip.rows.basis import reduced_names
from gaussip.rows.tables import write_table
from gaussip.simulation.history import History

LEVEL = 0.95
SELECTION_FILE, INTERVALS_FILE = "selection.json", "intervals.csv"  # what a run may leave in the site's folder


def mixture_of(folder: SiteFolder, end: End) -> NetworkGaussianMixture:
    """A fitted estimator with the site's estimate; its history is the last round."""
    d = folder.description
    network: Any = d.network if isinstance(d.network, str) else nx.Graph(d.network)
    mixture = NetworkGaussianMixture(
        len(end.theta.weights), algorithm=d.algorithm, network=network, mixing=d.mixing, eta=d.eta,
        max_rounds=d.max_rounds, tol=d.tol, reg_covar=d.reg_covar, shrinkage=d.shrinkage,
        unlabelled_weight=d.unlabelled_weight, weighting=d.weighting, random_state=d.seed,
        init_params=d.start if isinstance(d.start, str) else "kmeans",
    )  # fmt: skip
    mixture.weights_, mixture.means_, mixture.covariances_ = end.theta
    mixture.site_weights_, mixture.site_means_, mixture.site_covariances_ = (part[None] for part in end.theta)
    mixture.sites_ = np.array([folder.site])
    mixture.classes_ = np.array(sorted_classes(d))
    mixture.n_rounds_, mixture.converged_ = end.rounds, end.converged
    last: dict[str, float | None] = {
        "round": end.rounds, "log_likelihood": end.log_likelihood, "change": end.change,
        "disagreement": end.disagreement, "bytes": float("nan"),
    }  # fmt: skip
    mixture.history_ = {name: _one(last[name]) for name in History._fields}
    mixture.n_features_in_ = end.theta.means.shape[1]
    names = d.features if d.reduce is None else reduced_names(mixture.n_features_in_)
    mixture.feature_names_in_ = np.array(names, dtype=object)
    agreed = Keeping(folder.run).agreed()
    mixture.shrinkage_target_ = agreed.target if d.shrinkage else None
    mixture.site_mass_ = agreed.facts[[d.names.index(folder.site)], 0]
    return mixture


def _one(value: float | None) -> NDArray:
    return np.array([np.nan if value is None else value])


def keep_intervals(folder: SiteFolder, program: Program) -> str:
    """Write standard errors and 95% intervals, where the information allows them; what to tell of it."""
    informing, path = program.informing, folder.path / INTERVALS_FILE
    if informing is None:
        return "no standard errors: the fit has not converged"
    if informing.information is None:
        return "no standard errors: a site's information is too large a number; see `gaussip intervals --help`"
    d, theta, robust = folder.description, program.estimate(), program.task.intervals == "robust"
    K, p = theta.means.shape
    features = d.features if d.reduce is None else reduced_names(p)
    try:
        found = concluded(informing.information, informing.scale, features, robust=robust)
    except UncertaintyError as error:
        return f"no standard errors: {error}"
    classes = [str(name) for name in sorted_classes(d)]
    components = classes + [f"component {k}" for k in range(len(classes), K)]
    write_table(path, Uncertainty(theta, *found, robust).table(components, features, LEVEL))
    return f"standard errors in {path.name}"


def keep(folder: SiteFolder, end: End) -> None:
    """Write the model and, where the features were reduced, the basis in which it is."""
    mixture_of(folder, end).save(folder.model)
    if folder.description.reduce is not None:
        Keeping(folder.run).basis()[0].save(folder.basis, folder.description.features)
