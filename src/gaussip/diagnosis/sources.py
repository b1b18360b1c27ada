"""The evidence of a run, wherever it lies: a fitted estimator, a model file, or a real site's folder."""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gaussip.errors import FederationError, ModelFileError, PooledTargetWarning
from gaussip.estimator import NetworkGaussianMixture
from gaussip.federation.folders import read
from gaussip.findings import Finding, examine
from gaussip.findings.evidence import FILE, SITE, Evidence, of_estimator
from gaussip.mixture.owners import Owners
from gaussip.node import history_log
from gaussip.node.local_data import sorted_classes
from gaussip.node.run_store import RunStore
from gaussip.node.shutdown import error_of
from gaussip.simulation.history import SITE as SITE_MODEL


def evidence_of(run: Any) -> Evidence:
    """The evidence of a fitted estimator, a model file, or a site's folder."""
    if not isinstance(run, str | os.PathLike):
        return of_estimator(run)
    path = Path(run)
    if path.is_dir():
        return of_site(path)
    mixture = NetworkGaussianMixture.load(path)
    if mixture.origin_ == SITE_MODEL:
        raise ModelFileError(f"{path} is a real site's model, which holds one estimate; give the site's folder")
    return of_estimator(mixture)._replace(source=FILE, path=str(path))


def of_site(path: Path) -> Evidence:
    """The evidence in a site's folder, of the run that it runs or ran last."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PooledTargetWarning)  # one of the findings
        folder = read(path)
        W = folder.description.task().W
    store, d = RunStore(folder.run), folder.description
    history, end, kept = history_log.read(folder.run), store.end(), store.checkpoints()
    if not history["round"].size:
        why = " yet; see gaussip site status"
        if end is not None:
            failed = end["failure"]
            why = f": the run failed before its first round: {failed['text']}" if failed else ": they were lost"
        raise FederationError(f"{path} holds no history of rounds{why}")
    failed = None if end is None else end["failure"]
    names = (
        "eta", "tol", "max_rounds", "weighting", "mixing", "network", "reg_covar", "shrinkage", "scale", "accelerate",
        "covariance_type", "privacy",
    )  # fmt: skip
    theta = store.checkpoint(kept[-1]) if kept else None
    owners = d.owners() or Owners(())
    return Evidence(
        source=SITE, path=str(path), settings={name: getattr(d, name) for name in names}, algorithm=d.algorithm,
        rounds=int(history["round"][-1]), round=history["round"].astype(int), passes=history["passes"],
        log_likelihood=history["log_likelihood"],
        change=history["change"], disagreement=history["disagreement"],
        eta=float(history["step"][-1]), restarts=int(history["restarts"][-1]),
        converged=end is not None and failed is None and store.result("fit").converged, over=end is not None,
        failure="" if failed is None else str(error_of(failed)),
        theta=theta, sites=None, names=list(d.names), by_site=True,
        classes=list(sorted_classes(d)),
        class_of_component=owners.classes(owners.owned if theta is None else len(theta.weights)),
        features=[] if d.reduce is not None else list(d.features),
        mass=np.full(len(d.names), _all_rows(store, len(d.names)) / len(d.names)), W=W,
    )  # fmt: skip


def _all_rows(store: RunStore, n_sites: int) -> float:
    """The rows of all sites, where they are known; else about, from the site's own."""
    for name in ("fit", "facts"):
        if (result := store.known_result(name)) is not None:
            return float(result.mass)
    return n_sites * store.mass()


def diagnose(run: Any) -> list[Finding]:
    """What went wrong with a fit, or makes it untrustworthy; empty where nothing was found.

    Parameters
    ----------
    run : a fitted `gaussip.NetworkGaussianMixture`, the path of a model file, or that of a real site's folder
    """
    return examine(evidence_of(run)).findings
