"""How a fit of the estimator begins."""

import numpy as np
import pytest

from gaussip import NetworkGaussianMixture
from gaussip.errors import (
    CollapseError,
    StartError,
)

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_a_complete_start_needs_nothing_of_the_rows(data):
    few = [np.flatnonzero(data.sites == m)[:2] for m in range(6)]
    rows = np.concatenate(few)  # two rows a site: too few for three groups of five
    start = {
        "weights_init": data.truth.weights, "means_init": data.truth.means, "covariances_init": data.truth.covariances
    }  # fmt: skip
    settings = {"algorithm": "mnem", "max_rounds": 1, "tol": 1e9, "reg_covar": 0.1}
    NetworkGaussianMixture(3, **start, **settings).fit(data.X[rows], sites=data.sites[rows])
    with pytest.raises(StartError, match="found no 3 groups of at least 5 rows each"):
        NetworkGaussianMixture(3, **settings).fit(data.X[rows], sites=data.sites[rows])


@pytest.mark.parametrize("algorithm", ["em", "mnem", "dem"])
@quiet
def test_warm_start_goes_on(data, algorithm):
    settings = {"algorithm": algorithm, "eta": 0.1, "tol": 0, "means_init": data.truth.means, "random_state": 0}
    once = NetworkGaussianMixture(3, max_rounds=40, **settings).fit(data.X, sites=data.sites)
    twice = NetworkGaussianMixture(3, max_rounds=20, warm_start=True, **settings)
    twice.fit(data.X, sites=data.sites).fit(data.X, sites=data.sites)
    np.testing.assert_allclose(once.site_means_, twice.site_means_, rtol=1e-9)


@quiet
def test_warm_start_refuses_another_shape_and_takes_other_sites(data):
    mixture = NetworkGaussianMixture(3, max_rounds=5, warm_start=True, random_state=0).fit(data.X, sites=data.sites)
    mixture.fit(data.X, sites=data.sites % 3)
    assert mixture.site_means_.shape == (3, 3, 3)
    with pytest.raises(StartError, match="the last fit has 3 components and 3 features, this one 3 and 2"):
        mixture.fit(data.X[:, :2], sites=data.sites)
    with pytest.raises(StartError, match="this one 4 and 3"):
        mixture.set_params(n_components=4).fit(data.X, sites=data.sites)


@pytest.mark.parametrize("before", [None, "ill only"])
@quiet
def test_a_warm_start_keeps_classes_apart(before):
    """Labels that come, or change, between two fits must find their components."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-2, 1, (200, 2)), rng.normal(2, 1, (200, 2))])
    truth = np.repeat(["healthy", "ill"], 200)
    sites = np.arange(400) % 4
    few = np.where(rng.random(400) < 0.03, truth, None)
    first = None if before is None else np.where(few == "ill", few, None)
    for seed in range(4):
        mixture = NetworkGaussianMixture(2, eta=0.1, warm_start=True, random_state=seed).fit(X, first, sites=sites)
        assert (mixture.fit(X, few, sites=sites).predict(X) == truth).mean() > 0.98


def test_found_parts_of_a_start_go_with_the_given_means(data):
    for order in ([0, 1, 2], [2, 0, 1]):
        settings = {"algorithm": "mnem", "max_rounds": 1, "tol": 1e9, "eta": 1e-6}
        mixture = NetworkGaussianMixture(3, means_init=data.truth.means[order], **settings)
        mixture.fit(data.X, sites=data.sites)
        np.testing.assert_allclose(mixture.weights_, data.truth.weights[order], atol=0.1)


@quiet
def test_more_starts_are_no_worse_and_seeds_repeat(data):
    def fit(n_init, seed):
        mixture = NetworkGaussianMixture(5, eta=0.2, n_init=n_init, random_state=seed, max_rounds=60, reg_covar=1e-2)
        return mixture.fit(data.X, sites=data.sites).history_["log_likelihood"][-1]

    assert fit(1, 3) == fit(1, 3)
    assert fit(4, 3) >= fit(1, 3)


def test_one_start_that_holds_is_enough(data, monkeypatch):
    lost = data.truth._replace(means=data.truth.means + np.array([[1e3], [0], [0]]))  # a component far from all rows
    mixture = NetworkGaussianMixture(3, eta=0.1, algorithm="em")
    monkeypatch.setattr("gaussip.estimator.network_mixture.starts", lambda *_: [lost, data.truth, lost])
    held = mixture.fit(data.X, sites=data.sites).means_
    monkeypatch.setattr("gaussip.estimator.network_mixture.starts", lambda *_: [data.truth])
    np.testing.assert_array_equal(mixture.fit(data.X, sites=data.sites).means_, held)
    monkeypatch.setattr("gaussip.estimator.network_mixture.starts", lambda *_: [lost, lost])
    with pytest.raises(CollapseError, match="component 0"):
        mixture.fit(data.X, sites=data.sites)
