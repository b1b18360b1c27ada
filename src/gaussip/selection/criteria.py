"""BIC, AIC and ICL from sums that all sites agree on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray, precision_factor, to_numpy
from gaussip.errors import DataError
from gaussip.exchange.codes import Wide
from gaussip.kernels.array.algebra import log_constant
from gaussip.mixture.covariance_types import FULL, n_parameters
from gaussip.mixture.degenerate import degenerate, reasons
from gaussip.mixture.theta import Theta, unvech
from gaussip.rows.checks import feature_names
from gaussip.rows.frames import as_numbers, by_column_name, fitted_features
from gaussip.rows.moments import Moments, moments
from gaussip.rows.problem import prepare
from gaussip.starts.rare import rows_of_fit
from gaussip.starts.search import Climbed


class Line(NamedTuple):
    """The criteria of one number of components; the least is the best."""

    n_components: int
    log_likelihood: float  #: of all rows
    n_parameters: int
    bic: float
    aic: float
    icl: float  #: BIC plus twice the entropy of the responsibilities, which penalises overlap
    rows: float  #: N, the mass of all rows
    degenerate: str  #: why some component is, which makes the criteria worthless; empty if none is
    covariance_type: str

    @classmethod
    def of(
        cls,
        log_likelihood: float,
        entropy: float,
        mass: float,
        shape: tuple[int, int],
        covariance_type: str,
        degenerate: str,
    ) -> Line:
        """The criteria of a mixture whose means are of this shape."""
        n_components, q = shape[0], n_parameters(covariance_type, *shape)
        bic, aic = -2 * log_likelihood + q * math.log(mass), -2 * log_likelihood + 2 * q
        return cls(n_components, log_likelihood, q, bic, aic, bic + 2 * entropy, mass, degenerate, covariance_type)


def entropy_of(theta: Theta, S0: NDArray, S2: NDArray, log_likelihood: NDArray) -> NDArray:
    """-sum_ik pi_ik log pi_ik from the moments alone, (...): zero for labelled rows.

    log pi_ik is log(alpha_k phi_k(x_i)) minus the row's log-density, and the former is linear in the moments.
    """
    factor = precision_factor(theta.covariances)
    precision = factor.swapaxes(-1, -2) @ factor
    joint = (S0 * log_constant(theta, factor)).sum(axis=-1) - 0.5 * (precision * S2).sum(axis=(-3, -2, -1))
    return np.asarray(log_likelihood - joint)


def line_of(climbed: Climbed, log_volume: float, names: Sequence[str], covariance_type: str = FULL) -> Line:
    """The criteria in the features' units of a mixture in standard units; ``names`` are those of the features."""
    theta, totals, found = climbed
    K, p = theta.means.shape
    S0, S2 = totals.mass * totals.psi[:, 0], totals.mass * unvech(totals.psi[:, 1 + p :])
    entropy = entropy_of(theta, S0, S2, np.asarray(totals.log_likelihood))
    log_likelihood = totals.log_likelihood - totals.mass * log_volume
    reason = reasons(found, totals.mass, names)
    return Line.of(log_likelihood, max(float(entropy), 0.0), totals.mass, (K, p), covariance_type, reason)


def agreed_criteria(mixture: Any, X: Any, y: Any = None, *, sites: Any = None, sample_weight: Any = None) -> Line:
    """The criteria of a fitted `NetworkGaussianMixture`, with the rows of its fit, at each site's estimate."""
    X, y, sites, sample_weight = by_column_name(X, y, sites, sample_weight)
    rows = as_numbers(fitted_features(mixture, X))
    rows, y, sites, sample_weight = rows_of_fit(mixture, rows, y, sites, sample_weight)
    K, p = mixture.means_.shape
    problem = prepare(
        rows, y, sites, sample_weight, n_components=K, network="complete",
        unlabelled_weight=mixture.unlabelled_weight, components_per_class=mixture.components_per_class,
    )  # fmt: skip
    if not np.array_equal(problem.sites, mixture.sites_) or rows.shape[1] != p:
        raise DataError("the rows are not of the sites and features of the fit")
    theta = Theta(mixture.site_weights_, mixture.site_means_, mixture.site_covariances_)
    at_sites: Moments = moments(problem.rows, theta)
    log_likelihoods = to_numpy(at_sites.log_likelihood)
    entropy = entropy_of(theta, to_numpy(at_sites.S0), to_numpy(at_sites.S2), log_likelihoods)
    parts = np.stack([log_likelihoods, entropy, to_numpy(problem.rows.mass)], axis=1)
    total = Wide().total(parts.T).tolist()
    floor = np.full(p, (1 - mixture.shrinkage) * mixture.reg_covar)
    reason = reasons(degenerate(mixture._theta(), floor), total[2], feature_names(mixture))
    return Line.of(total[0], total[1], total[2], (K, p), mixture.covariance_type, reason)
