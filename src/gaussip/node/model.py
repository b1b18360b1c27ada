"""A site's model as the same file that a fit writes, so that everything that reads one reads it."""

import warnings
from typing import Any

import networkx as nx
import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import FileError
from gaussip.estimator import NetworkGaussianMixture
from gaussip.estimator.ending import set_theta
from gaussip.federation.description import Description
from gaussip.federation.folders import SiteFolder
from gaussip.mixture.owners import Owners
from gaussip.node import history_log
from gaussip.node.local_data import sorted_classes
from gaussip.node.run_store import RunStore
from gaussip.phases.fit import Fitted
from gaussip.phases.private_fit import Private
from gaussip.rows.basis import reduced_names
from gaussip.simulation.history import SITE, History


def mixture_of(folder: SiteFolder, end: Fitted) -> NetworkGaussianMixture:
    """A fitted estimator with the site's estimate and the rounds that it kept."""
    d, store = folder.description, RunStore(folder.run)
    network: Any = d.network if isinstance(d.network, str) else nx.Graph(d.network)
    mixture = NetworkGaussianMixture(
        len(end.theta.weights), algorithm=d.algorithm, network=network, mixing=d.mixing, eta=d.eta,
        max_rounds=d.max_rounds, tol=d.tol, reg_covar=d.reg_covar, shrinkage=d.shrinkage, degenerate=d.degenerate,
        components_per_class=d.components_per_class, covariance_type=d.covariance_type,
        unlabelled_weight=d.unlabelled_weight, weighting=d.weighting, random_state=d.seed,
        init_params=d.start if isinstance(d.start, str) else "kmeans", privacy=d.privacy,
    )  # fmt: skip
    set_theta(mixture, end.theta)
    mixture.site_weights_, mixture.site_means_, mixture.site_covariances_ = (part[None] for part in end.theta)
    mixture.sites_ = np.array([folder.site])
    mixture.classes_ = np.array(sorted_classes(d))
    mixture.class_of_component_ = _owners(d).classes(len(end.theta.weights))
    mixture.n_rounds_, mixture.converged_ = end.rounds, end.converged
    mixture.origin_ = SITE
    mixture.n_features_in_ = end.theta.means.shape[1]
    names = d.features if d.reduce is None else reduced_names(mixture.n_features_in_)
    mixture.feature_names_in_ = np.array(names, dtype=object)
    mixture.shrinkage_target_ = store.result("start").target if d.shrinkage else None
    if d.privacy is not None:
        _tell_nothing_but_sums(mixture, store.result("private"), d)
    else:
        mixture.site_mass_, mixture.history_ = np.array([store.mass()]), _history(folder, end)
    return mixture


def _tell_nothing_but_sums(mixture: NetworkGaussianMixture, private: Private, description: Description) -> None:
    """What a private model says of its guarantee, and not of the site's rows."""
    n_sites, rounds = len(description.names), len(private.changes)
    mixture.privacy_ = private.guarantee(description.task())
    mixture.private_covariance_ = private.covariance if private.covariance.size else None
    mixture.site_mass_ = np.array([private.rows / n_sites])
    of_rounds = {"round": np.arange(1, rounds + 1), "change": private.changes, "step": np.ones(rounds)}
    zeros = {"disagreement": np.zeros(rounds), "restarts": np.zeros(rounds, dtype=int)}
    unknown = {name: np.full(rounds, np.nan) for name in History._fields}
    mixture.history_ = unknown | of_rounds | zeros


def _owners(description: Description) -> Owners:
    return description.owners() or Owners(())


def _history(folder: SiteFolder, end: Fitted) -> dict[str, NDArray]:
    """The rounds that the site kept; where its log is damaged a warning, and the last round alone."""
    try:
        kept = history_log.read(folder.run)
    except FileError as error:  # it must not hold back the model, or the neighbours
        warnings.warn(f"{error}; the model holds the last round alone", stacklevel=2)
        last = {**end._asdict(), "round": end.rounds, "exchanges": np.nan, "bytes": np.nan}
        return {name: np.array([last[name]]) for name in History._fields}
    return {name: kept[name] for name in History._fields}


def keep(folder: SiteFolder, end: Fitted) -> None:
    """Write the model and, where the features were reduced, the basis in which it is."""
    mixture_of(folder, end).save(folder.model)
    if folder.description.reduce is not None:
        RunStore(folder.run).result("basis").save(folder.basis, folder.description.features)
