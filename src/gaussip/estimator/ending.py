"""What a fit does when it ends: keep the estimates, and warn of what may be wrong with them."""

import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from gaussip import algorithms
from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import DiagnosisWarning, Text
from gaussip.findings.at_fit import certain, rounds_needed, swings
from gaussip.kernels.shaping import shaped
from gaussip.mixture.covariance_types import as_public
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta, consensus, pack
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
    one = (pack(estimates) == pack(estimates)[:1]).all()  # an average of the same would round
    middle = Theta(*(part[0] for part in estimates)) if one else consensus(estimates, mass)
    set_theta(mixture, middle if one else shaped(mixture.covariance_type, middle))
    mixture.sites_, mixture.site_mass_, mixture.origin_ = sites, mass, origin
    mixture.classes_, mixture.class_of_component_ = classes, owners.classes(mixture.n_components)
    mixture.shrinkage_target_ = target
    mixture.n_rounds_ = run.n_rounds
    mixture.converged_ = bool(run.converged)
    mixture.history_ = run.history._asdict()


def set_theta(mixture: Any, theta: Theta) -> None:
    """Set an estimator's parameters, covariances in the shape of their type."""
    mixture.weights_, mixture.means_, covariances = theta
    mixture.covariances_ = as_public(mixture.covariance_type, covariances)


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
