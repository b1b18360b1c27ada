"""What a fit does when it ends: keep the estimates, and warn of what may be wrong with them."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gaussip import algorithms
from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import DiagnosisWarning, Text
from gaussip.findings.at_fit import certain, rounds_needed, swings
from gaussip.kernels.shaping import shaped
from gaussip.mixture.covariance_types import as_public
from gaussip.mixture.degenerate import refuse_degenerate
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta, consensus, pack
from gaussip.rows.checks import column_name
from gaussip.settings import REFUSE
from gaussip.simulation.run import Run


def keep(
    mixture: Any,
    run: Run,
    *,
    sites: NDArray,
    mass: NDArray,
    classes: NDArray,
    owners: Owners,
    target: NDArray | None,
    origin: str,
) -> None:
    """Set the attributes of a fitted estimator.

    Parameters
    ----------
    sites, mass : (M,), the sites' names, and their rows by weight
    classes, owners : the labels, and the components of each
    target : what covariances were shrunk towards
    origin : where the fit comes from
    """
    estimates = Theta(*map(to_numpy, run.theta))
    mixture.site_weights_, mixture.site_means_, mixture.site_covariances_ = estimates
    set_theta(mixture, _middle(mixture, estimates, mass))
    mixture.sites_, mixture.site_mass_, mixture.origin_ = sites, mass, origin
    mixture.classes_, mixture.class_of_component_ = classes, owners.classes(mixture.n_components)
    mixture.shrinkage_target_ = target
    mixture.n_rounds_ = run.n_rounds
    mixture.converged_ = bool(run.converged)
    mixture.history_ = run.history._asdict()


def refuse_if_degenerate(
    mixture: Any, run: Run, mass: NDArray, features: list[str] | None, classes: list[Any]
) -> None:
    """Refuse a run whose consensus has a degenerate component, unless such a fit is to be kept.

    ``classes`` are the names of the first components' classes.
    """
    if mixture.degenerate != REFUSE:
        return
    theta = _middle(mixture, Theta(*map(to_numpy, run.theta)), mass)
    p = theta.means.shape[1]
    refuse_degenerate(
        theta, np.full(p, (1 - mixture.shrinkage) * mixture.reg_covar), float(mass.sum()),
        [column_name(j, features) for j in range(p)], round=run.n_rounds, classes=classes,
    )  # fmt: skip


def _middle(mixture: Any, estimates: Theta, mass: NDArray) -> Theta:
    """The consensus of the sites' estimates."""
    if (pack(estimates) == pack(estimates)[:1]).all():  # an average of the same would round
        return Theta(*(part[0] for part in estimates))
    return shaped(mixture.covariance_type, consensus(estimates, mass))


def set_theta(mixture: Any, theta: Theta) -> None:
    """Set an estimator's parameters, covariances in the shape of their type."""
    mixture.weights_, mixture.means_, covariances = theta
    mixture.covariances_ = as_public(mixture.covariance_type, covariances)
    mixture.covariance_type_ = mixture.covariance_type


def warn_if_not_converged(mixture: Any) -> None:
    """Warn of a fit that ended before it converged, with what helps."""
    if not mixture.converged_:
        warnings.warn(
            Text(
                "not converged after {rounds} rounds: the last change is {change:.2g}, {tol:{least:g}}. "
                + _faster(mixture),
                rounds=mixture.n_rounds_,
                change=mixture.history_["change"][-1],
                least=mixture.tol,
            ),
            ConvergenceWarning,
            stacklevel=3,
        )


def warn_of_findings(mixture: Any) -> None:
    """Warn of what is certainly wrong with a fit."""
    for finding in certain(mixture):
        warnings.warn(f"{finding.name}: {finding.sentence}", DiagnosisWarning, stacklevel=3)


def _faster(mixture: Any) -> str:
    """What helps a fit that did not converge, as a template of `Text`."""
    if (near := swings(mixture)) is not None:
        return f"More rounds will not help: take no site for nearer to its goal than {near:.2g}" + (
            "" if algorithms.REGISTRY[mixture.algorithm].replicated else "; use {algorithm:'masked'}"
        )
    prediction = rounds_needed(mixture)
    more = "Raise {max_rounds}"
    if prediction is not None:
        needed, asked = prediction
        more = f"It needs about {needed} rounds in all: raise {{max_rounds}} to {asked} (it stops by itself)"
    if not algorithms.has_step(mixture.algorithm):
        return more
    return (
        more + ", or raise {eta} if speed matters more than closeness to the pooled estimate; "
        "or use {algorithm:'masked'}"
    )
