"""What is not known of missing cells: imputation and draws, standard errors, multiple imputation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gaussip import NetworkGaussianMixture
from gaussip.inference.drawing import drawn_thetas
from gaussip.inference.information import site_part
from gaussip.mixture.conditional import drawn, imputed
from gaussip.mixture.sampling import sample
from gaussip.mixture.theta import Theta, pack, unpack
from gaussip.rows.chunks import of_array
from gaussip.studies.simulation_model import Setting, draw
from incomplete import ALLOWED, holes, log_joint, mixture_of


def test_imputed_cells_are_the_conditional_mean_and_the_spread_of_draws():
    rng = np.random.default_rng(12)
    data = draw(Setting(n_rows=800, n_features=3, delta=3), 1)
    fitted = NetworkGaussianMixture(3, random_state=0).fit(data.X)
    X = holes(data.X[:6], 0.5, rng)
    X[5] = np.nan
    filled = fitted.impute(X)
    missing = np.isnan(X)
    np.testing.assert_array_equal(filled.values[~missing], X[~missing])
    assert (filled.deviations[~missing] == 0).all()
    draws = np.stack(fitted.impute_draws(X, 4000, random_state=1))
    np.testing.assert_allclose(draws.mean(axis=0), filled.values, atol=4 * filled.deviations.max() / 4000**0.5)
    np.testing.assert_allclose(draws.std(axis=0)[missing], filled.deviations[missing], rtol=0.06)
    theta = fitted._theta()
    mean = theta.weights @ theta.means
    np.testing.assert_allclose(filled.values[5], mean)


def test_a_cell_that_the_others_determine_is_imputed_where_rounding_leaves_no_variance():
    covariance = np.array([[1e10, 1e10], [1e10, 1e10 - 1e-3]])  # as a fit may end, for a copy in large units
    theta = Theta(np.ones(1), np.zeros((1, 2)), covariance[None])
    X = np.array([[2e5, np.nan]])
    found = imputed(X, theta, np.ones((1, 1)))
    assert (found.values[0, 1], found.deviations[0, 1]) == (pytest.approx(2e5), 0.0)
    assert drawn(X, theta, np.ones((1, 1)), np.random.default_rng(0))[0, 1] == pytest.approx(2e5)


def test_the_information_is_the_negative_hessian_of_the_observed_likelihood():
    """By finite differences, with labels of one component, of two, and none."""
    rng = np.random.default_rng(13)
    theta = mixture_of(rng, K=3, p=2, offset=0.0)
    X, labels = holes(2 * rng.normal(size=(90, 2)), 0.3, rng), rng.integers(-1, 3, size=90)
    at = pack(theta).ravel()

    def height(vector):
        moved = unpack(vector.reshape(3, 6))
        components = [range(3) if y < 0 else ALLOWED[y] for y in labels]
        return sum(np.logaddexp.reduce(log_joint(x, moved, few)) for x, few in zip(X, components, strict=True))

    def slope(vector):
        return np.array([(height(vector + e) - height(vector - e)) / 2e-4 for e in 1e-4 * np.eye(18)])

    hessian = np.stack([(slope(at + e) - slope(at - e)) / 2e-4 for e in 1e-4 * np.eye(18)])
    part = site_part(of_array(X, labels), theta, np.ones((3, 6)), allowed=ALLOWED)
    score, found = part[:18], part[18:]
    np.testing.assert_allclose(score, slope(at), atol=1e-5 * np.abs(score).max())
    np.testing.assert_allclose(found, -hessian[np.triu_indices(18)], atol=1e-4 * np.abs(hessian).max())


@pytest.mark.slow
def test_intervals_cover_the_truth_where_a_fifth_is_missing():
    rng = np.random.default_rng(14)
    truth = Theta(
        np.array([0.4, 0.6]), np.array([[0.0, 0.0], [3.0, 2.0]]),
        np.array([[[1.0, 0.3], [0.3, 1.0]], [[0.5, -0.2], [-0.2, 1.5]]]),
    )  # fmt: skip
    inside = []
    for _ in range(500):
        X, _ = sample(truth, 500, rng)
        start = {"weights_init": truth.weights, "means_init": truth.means, "covariances_init": truth.covariances}
        X = holes(X, 0.2, rng)
        sites = np.arange(500) % 3
        fitted = NetworkGaussianMixture(2, tol=1e-9, reg_covar=0.0, **start).fit(X, sites=sites)
        low, high = fitted.uncertainty(X, sites=sites).intervals(0.95)
        inside.append(
            np.concatenate([((a <= t) & (t <= b)).ravel() for a, t, b in zip(low, truth, high, strict=True)])
        )
    coverage = np.mean(inside)
    assert 0.93 < coverage < 0.97, np.mean(inside, axis=0)


def test_drawn_parameters_have_the_covariance_of_the_estimate():
    """Far from the limits of what a mixture is, the delta method is exact to first order."""
    rng = np.random.default_rng(16)
    A = rng.standard_normal((2, 3, 3))
    theta = Theta(np.array([0.3, 0.7]), rng.standard_normal((2, 3)), A @ A.swapaxes(-1, -2) + np.eye(3))
    half = 1e-4 * rng.standard_normal((20, 20))
    half[10] = -half[0]  # the weights sum to one
    draws = np.stack([pack(drawn).ravel() for drawn in drawn_thetas(theta, half @ half.T, 40_000, rng)])
    wanted = half @ half.T
    np.testing.assert_allclose(draws.mean(axis=0), pack(theta).ravel(), atol=1e-5)
    np.testing.assert_allclose(np.cov(draws.T), wanted, atol=0.03 * np.abs(wanted).max())


@pytest.mark.slow
def test_multiple_imputation_covers_a_mean_where_cells_are_missing_at_random():
    """By Rubin's rules; complete cases are biased in the same runs."""
    n, n_draws = 1000, 40
    covered, complete = [], []
    for seed in range(500):
        rng = np.random.default_rng(seed)
        first = rng.random((n, 1)) < 0.4
        low = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]], n)
        X = np.where(first, low, rng.multivariate_normal([4.0, 2.0], [[1.0, -0.3], [-0.3, 1.0]], n))
        X[rng.random(n) < 0.6 / (1 + np.exp(3 - X[:, 0])), 1] = np.nan
        sites = np.arange(n) % 4
        fitted = NetworkGaussianMixture(2, random_state=seed).fit(X, sites=sites)
        tables = fitted.impute_draws(X, n_draws, uncertainty=fitted.uncertainty(X, sites=sites), random_state=seed)
        means = np.array([table[:, 1].mean() for table in tables])
        within = np.mean([table[:, 1].var(ddof=1) / n for table in tables])
        between = (1 + 1 / n_draws) * means.var(ddof=1)
        freedom = (n_draws - 1) * (1 + within / between) ** 2
        covered.append(abs(means.mean() - 1.2) < stats.t.ppf(0.975, freedom) * np.sqrt(within + between))
        cells = X[~np.isnan(X[:, 1]), 1]
        complete.append(abs(cells.mean() - 1.2) < 1.96 * cells.std(ddof=1) / np.sqrt(len(cells)))
    assert 0.93 < np.mean(covered) < 0.97, np.mean(covered)
    assert np.mean(complete) < 0.5
