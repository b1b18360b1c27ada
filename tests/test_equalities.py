"""EM against scikit-learn's, from the same start."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import make
from gaussip.mixture.theta import Theta
from gaussip.networks import mixing_weights
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate
from gaussip.studies.simulation_model import Setting, draw

REG = 1e-6
PLAIN = make("em", 1.0, accelerate=False)


def iris():
    data = load_iris()
    return data.data, data.target


def wine():
    data = load_wine()
    return (data.data - data.data.mean(axis=0)) / data.data.std(axis=0), data.target


def paper():
    data = draw(Setting(n_rows=3000, n_sites=5, delta=1.0), 11)
    return data.X, data.classes


def begin(X, y):
    means = np.stack([X[y == k].mean(axis=0) for k in range(3)]) + 0.1
    covariances = np.stack([np.diag(X.var(axis=0))] * 3)
    return Theta(np.full(3, 1 / 3), means, covariances)


def by_sklearn(X, theta, iterations):
    mixture = GaussianMixture(
        3, tol=0, max_iter=iterations, reg_covar=REG, weights_init=theta.weights, means_init=theta.means,
        precisions_init=np.linalg.inv(theta.covariances),
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning):
        mixture.fit(X)
    return Theta(mixture.weights_, mixture.means_, mixture.covariances_)


@pytest.mark.parametrize("make_data", [iris, wine, paper])
@pytest.mark.parametrize("M", [1, 5])
def test_em_is_scikit_learn_s_after_50_iterations(make_data, M):
    X, y = make_data()
    start = begin(X, y)
    wanted = by_sklearn(X, start, 50)
    rows = Rows.of_sites(np.array_split(X, M))  # sites of unequal size where M does not divide
    W = mixing_weights("circle", range(M))
    found = simulate(PLAIN, start, rows, W, max_rounds=50, reg_covar=REG).theta
    for part, exact in zip(found, wanted, strict=True):
        for m in range(M):
            np.testing.assert_allclose(part[m], exact, rtol=0, atol=1e-8)


@pytest.mark.parametrize("make_data", [iris, wine, paper])
def test_em_at_a_large_offset(make_data):
    X, y = make_data()
    X = X + 1e4
    start = begin(X, y)
    wanted = by_sklearn(X, start, 50)
    found = simulate(
        PLAIN, start, Rows.of_sites([X]), np.ones((1, 1)), max_rounds=50, reg_covar=REG
    ).theta  # fmt: skip
    for part, exact in zip(found, wanted, strict=True):
        assert np.linalg.norm(part[0] - exact) <= 1e-6 * np.linalg.norm(exact)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algorithm", ["em", "mnem"])
def test_an_offset_moves_the_means_and_nothing_else(algorithm):
    X, y = paper()
    results = []
    for offset in (0.0, 1e4):
        start = begin(X + offset, y)
        mixture = NetworkGaussianMixture(
            3, algorithm=algorithm, eta=0.1, max_rounds=300, tol=1e-9, weights_init=start.weights,
            means_init=start.means, covariances_init=start.covariances, random_state=0,
        )  # fmt: skip
        mixture.fit(X + offset, sites=np.arange(len(X)) % 4) if algorithm == "mnem" else mixture.fit(X + offset)
        results.append(mixture)
    near, far = results
    np.testing.assert_allclose(far.means_ - 1e4, near.means_, atol=1e-6)
    np.testing.assert_allclose(far.covariances_, near.covariances_, atol=1e-6)
    assert far.history_["log_likelihood"][-1] == pytest.approx(near.history_["log_likelihood"][-1], abs=1e-8)


def test_the_likelihood_never_falls():
    X, y = paper()
    run = simulate(PLAIN, begin(X, y), Rows.of_sites([X]), np.ones((1, 1)), max_rounds=200)
    assert (np.diff(run.history.log_likelihood) > -1e-12).all()


def test_predictions_and_scores_are_scikit_learn_s():
    X, _ = iris()
    mixture = NetworkGaussianMixture(3, random_state=0, max_rounds=5000).fit(X)
    twin = mixture.to_sklearn()
    np.testing.assert_allclose(mixture.predict_proba(X), twin.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(mixture.predict(X), twin.predict(X))
    np.testing.assert_allclose(mixture.score_samples(X), twin.score_samples(X), rtol=1e-9)
    assert mixture.score(X) == pytest.approx(twin.score(X))
    assert mixture.bic(X) == pytest.approx(twin.bic(X))
    assert mixture.aic(X) == pytest.approx(twin.aic(X))
