"""Shrinkage of covariances and the weight of unlabelled rows, held against formulas written out here."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from gaussip import NetworkGaussianMixture
from gaussip.errors import CollapseError, DataError, SettingError
from gaussip.studies.simulation_model import Setting, draw

K, P = 3, 4


@pytest.fixture(scope="module")
def data():
    found = draw(Setting(n_rows=600, n_sites=4, n_features=P, delta=2.0, labelled=0.3), 4)
    return found.X, found.labels, np.array(list("abcd"))[found.sites]


def _by_hand(X, labels, share, weight, rounds=400):
    """EM on the pooled rows: labelled rows count one, others ``weight``; covariances are drawn to a fixed target."""
    known = labels >= 0
    groups = [X[labels == k] for k in range(K)]
    counts = np.array([len(x) for x in groups])
    means = np.stack([x.mean(axis=0) for x in groups])
    scatters = np.stack([(x - x.mean(axis=0)).T @ (x - x.mean(axis=0)) for x in groups])
    common = np.diag((np.diagonal(scatters.sum(axis=0)) + (P + 1) * X.var(axis=0)) / (counts.sum() + P + 1))
    covariances = (scatters + (P + 1) * common) / (counts + P + 1)[:, None, None]
    alpha = counts / counts.sum()
    target = np.einsum("k,kij->ij", alpha, covariances)
    for _ in range(rounds):
        density = np.stack(
            [a * multivariate_normal(m, S).pdf(X) for a, m, S in zip(alpha, means, covariances, strict=True)], axis=1
        )
        r = weight * density / density.sum(axis=1, keepdims=True)
        r[known] = np.eye(K)[labels[known]]
        mass = r.sum(axis=0)
        alpha, means = mass / mass.sum(), r.T @ X / mass[:, None]
        own = np.stack([((X - m) * r[:, [k]]).T @ (X - m) / mass[k] for k, m in enumerate(means)])
        covariances = (1 - share) * own + share * target
    return alpha, means, covariances


@pytest.mark.parametrize("algorithm", ["em", "exact"])
@pytest.mark.parametrize(("share", "weight"), [(0.0, 1.0), (0.3, 1.0), (0.0, 0.1), (0.9, 0.4), (0.2, 0.0)])
def test_the_fit_is_em_with_shrunk_covariances_and_tempered_rows(data, algorithm, share, weight):
    X, labels, sites = data
    mixture = NetworkGaussianMixture(
        K, algorithm=algorithm, init_params="labels", shrinkage=share, unlabelled_weight=weight, reg_covar=0.0,
        tol=1e-10, max_rounds=4000,
    ).fit(X, labels, sites=sites)  # fmt: skip
    alpha, means, covariances = _by_hand(X, labels, share, weight)
    np.testing.assert_allclose(mixture.weights_, alpha, rtol=1e-6)
    np.testing.assert_allclose(mixture.means_, means, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(mixture.covariances_, covariances, rtol=1e-5, atol=1e-7)


def test_mnem_comes_near_the_same_target(data):
    X, labels, sites = data
    settings = {
        "init_params": "labels",
        "shrinkage": 0.3,
        "unlabelled_weight": 0.2,
        "tol": 1e-6,
        "max_rounds": 20_000,
    }
    pooled = NetworkGaussianMixture(K, algorithm="em", **settings).fit(X, labels, sites=sites)
    gaps = []
    for eta in (0.02, 0.005):
        near = NetworkGaussianMixture(K, algorithm="mnem", network="circle", eta=eta, **settings)
        near.fit(X, labels, sites=sites)
        gaps.append(np.abs(near.covariances_ - pooled.covariances_).max())
    assert gaps[1] < 0.5 * gaps[0] < 0.05


def test_a_site_may_have_fewer_rows_than_features(data):
    """Alone it cannot fit even one component without shrinkage; with it, it can."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(200, 30)), rng.normal(size=(12, 30))])
    sites = np.repeat(["large", "small"], [200, 12])
    settings = {"algorithm": "local", "network": "complete", "reg_covar": 0.0, "random_state": 0, "max_rounds": 50}
    with pytest.raises(CollapseError, match="'small'"):
        NetworkGaussianMixture(1, **settings).fit(X, sites=sites)
    mixture = NetworkGaussianMixture(1, shrinkage=0.2, **settings).fit(X, sites=sites)
    own = np.cov(X[200:].T, bias=True)
    np.testing.assert_allclose(
        mixture.site_covariances_[1, 0], 0.8 * own + 0.2 * mixture.shrinkage_target_, rtol=1e-8, atol=1e-10
    )


def test_going_on_keeps_the_target_and_so_does_a_file(data, tmp_path):
    X, labels, sites = data
    first = NetworkGaussianMixture(K, shrinkage=0.3, random_state=0, tol=1e-8, max_rounds=3000)
    first.fit(X, labels, sites=sites)
    first.save(tmp_path / "model.npz")
    again = NetworkGaussianMixture.load(tmp_path / "model.npz").set_params(warm_start=True)
    again.fit(X, labels, sites=sites)
    np.testing.assert_array_equal(again.shrinkage_target_, first.shrinkage_target_)
    np.testing.assert_allclose(again.covariances_, first.covariances_, rtol=1e-6, atol=1e-7)


def test_shrinkage_may_begin_with_a_fit_that_goes_on(data):
    """One target for all sites, the consensus's mean covariance, also where sites are others than before."""
    X, labels, sites = data
    first = NetworkGaussianMixture(K, algorithm="mnem", random_state=0, max_rounds=20)
    with pytest.warns(UserWarning, match="not converged"):
        first.fit(X, labels, sites=sites)
    target = np.einsum("k,kij->ij", first.weights_, first.covariances_)
    first.set_params(shrinkage=0.3, warm_start=True, tol=1e-2, max_rounds=2000).fit(X, labels, sites=sites)
    np.testing.assert_allclose(first.shrinkage_target_, target, rtol=1e-12)
    first.fit(X, labels, sites=np.where(np.arange(len(X)) < 50, "e", sites))
    np.testing.assert_allclose(first.shrinkage_target_, target, rtol=1e-12)


def test_a_component_without_labels_cannot_live_on_labelled_rows_alone(data):
    X, labels, sites = data
    with pytest.raises(SettingError, match="unlabelled_weight=0 leaves no rows for 1 of the components"):
        NetworkGaussianMixture(K + 1, unlabelled_weight=0.0).fit(X, labels, sites=sites)


def test_rows_on_disk_count_the_same(data, tmp_path):
    X, labels, sites = data
    np.save(tmp_path / "x.npy", X)
    settings = {"init_params": "labels", "unlabelled_weight": 0.2, "shrinkage": 0.1, "tol": 1e-8, "max_rounds": 3000}
    memory = NetworkGaussianMixture(K, **settings).fit(X, labels, sites=sites)
    disk = NetworkGaussianMixture(K, **settings).fit(np.load(tmp_path / "x.npy", mmap_mode="r"), labels, sites=sites)
    np.testing.assert_allclose(disk.covariances_, memory.covariances_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "wrong", [{"shrinkage": 1.0}, {"shrinkage": -0.1}, {"unlabelled_weight": 2}, {"shrinkage": "x"}]
)
def test_impossible_settings(data, wrong):
    (name,) = wrong
    with pytest.raises(SettingError, match=f"{name}=.* must be a number in"):
        NetworkGaussianMixture(K, **wrong).fit(data[0], data[1], sites=data[2])


def test_no_row_may_be_left(data):
    with pytest.raises(SettingError, match="unlabelled_weight=0 leaves no rows"):
        NetworkGaussianMixture(K, unlabelled_weight=0.0).fit(data[0], sites=data[2])


def test_rows_of_weight_zero_are_still_refused(data):
    weights = (data[2] != "b").astype(float)
    with pytest.raises(DataError, match="site 'b': all rows have weight zero"):
        NetworkGaussianMixture(K, unlabelled_weight=0.5).fit(data[0], data[1], sites=data[2], sample_weight=weights)
