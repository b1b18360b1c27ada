"""Missing cells: held against the definition row by row, SciPy's optimiser, finite differences and pooled rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from gaussip import NetworkGaussianMixture
from gaussip.errors import DataError, MissingCellsWarning
from gaussip.kernels import REFERENCE
from gaussip.mixture.theta import Theta, distance, pack, vech
from gaussip.preprocessing import NetworkPCA, NetworkStandardScaler
from gaussip.rows.chunks import of_array
from gaussip.rows.moments import moments
from gaussip.rows.rows import Rows
from gaussip.studies.simulation_model import Setting, draw
from incomplete import ALLOWED, holes, log_joint, mixture_of


def by_hand(X, weights, components, theta):
    """The sums, log-likelihood and observed counts, a row at a time from the conditional normal distribution."""
    K, p = theta.means.shape
    sums, log_likelihood, observed = np.zeros((K, 1 + p + p * p)), 0.0, np.zeros((K, p))
    for x, v, few in zip(X, weights, components, strict=True):
        o, joint = ~np.isnan(x), log_joint(x, theta, few)
        total = np.logaddexp.reduce(joint)
        log_likelihood += v * total
        for k, r in zip(few, v * np.exp(joint - total), strict=True):
            S = theta.covariances[k]
            B = S[np.ix_(~o, o)] @ np.linalg.inv(S[np.ix_(o, o)])
            z, C = x.copy(), np.zeros((p, p))
            z[~o] = theta.means[k][~o] + B @ (x[o] - theta.means[k][o])
            C[np.ix_(~o, ~o)] = S[np.ix_(~o, ~o)] - B @ S[np.ix_(o, ~o)]
            apart = z - theta.means[k]
            sums[k] += r * np.concatenate([[1.0], z, (np.outer(apart, apart) + C).ravel()])
            observed[k] += r * o
    packed = vech(sums[:, 1 + p :].reshape(K, p, p))
    return np.concatenate([sums[:, : 1 + p], packed], axis=1), log_likelihood, observed


@pytest.fixture(scope="module")
def two_sites():
    """Rows with holes, labels (some of several components) and weights; one site lacks a column."""
    rng = np.random.default_rng(0)
    thetas = [mixture_of(rng), mixture_of(rng)]
    X = [holes(3 * rng.normal(size=(300, 5)) + 50, 0.3, rng) for _ in thetas]
    X[1][:, 2] = np.nan
    X[1] = X[1][~np.isnan(X[1]).all(axis=1)]
    labels = [rng.integers(-1, 3, size=len(x)) for x in X]
    return X, labels, [rng.random(len(x)) for x in X], thetas


@pytest.mark.parametrize("way", ["compiled", "reference", "chunks"])
def test_moments_are_those_of_the_conditional_distribution(two_sites, way):
    X, labels, weights, thetas = two_sites
    if way == "chunks":
        sources = [of_array(*site) for site in zip(X, labels, weights, strict=True)]
        rows = Rows.of_sites(sources, n_components=3, allowed=ALLOWED)
    else:
        rows = Rows.of_sites(X, labels, weights, 3, allowed=ALLOWED)
    theta = Theta(*(np.stack(parts) for parts in zip(*thetas, strict=True)))
    found = moments(rows, theta, 0.25, REFERENCE if way == "reference" else None)
    for m in range(2):
        components = [range(3) if y < 0 else ALLOWED[y] for y in labels[m]]
        sums, log_likelihood, observed = by_hand(X[m], weights[m], components, thetas[m])
        sums[:, 6:] += 0.25 * sums[:, :1] * vech(np.eye(5))
        np.testing.assert_allclose(found.sums[m], sums, rtol=0, atol=1e-11 * np.abs(sums).max())
        assert found.log_likelihood[m] == pytest.approx(log_likelihood, rel=1e-13)
        np.testing.assert_allclose(found.observed[m], observed, rtol=1e-12, atol=1e-12)
        alone = moments(rows.site(m), thetas[m], 0.25, REFERENCE if way == "reference" else None)
        np.testing.assert_array_equal(alone.sums, found.sums[m])  # whoever else is there


def test_a_theta_that_is_no_mixture_is_nan_at_its_site_alone(two_sites):
    X, *_, thetas = two_sites
    bad = thetas[0]._replace(covariances=thetas[0].covariances.copy())
    bad.covariances[1, 2, 3] = bad.covariances[1, 3, 2] = 1e6
    theta = Theta(*(np.stack(parts) for parts in zip(bad, thetas[1], strict=True)))
    found = moments(Rows.of_sites(X), theta)
    assert np.isnan(found.sums[0, 1]).any()
    assert np.isfinite(found.sums[1]).all()


def observed_log_likelihood(X, theta):
    return sum(np.logaddexp.reduce(log_joint(x, theta, range(len(theta.weights)))) for x in X)


def test_one_component_is_the_maximum_of_the_observed_likelihood():
    """By SciPy's optimiser, over the mean and the Cholesky factor of the covariance."""
    rng = np.random.default_rng(1)
    S = np.array([[2.0, 0.8, 0.3], [0.8, 1.0, -0.2], [0.3, -0.2, 0.5]])
    X = holes(rng.multivariate_normal([1.0, -2.0, 0.5], S, size=150), 0.3, rng)
    fitted = NetworkGaussianMixture(1, tol=1e-12, max_rounds=5000, reg_covar=0.0).fit(X)
    lower = np.tril_indices(3)

    def minus(x):
        L = np.zeros((3, 3))
        L[lower] = x[3:]
        return -observed_log_likelihood(X, Theta(np.ones(1), x[None, :3], (L @ L.T)[None]))

    begin = np.concatenate([np.nanmean(X, axis=0), np.diag(np.nanstd(X, axis=0))[lower]])
    best = minimize(minus, begin, method="BFGS", options={"gtol": 1e-7})
    L = np.zeros((3, 3))
    L[lower] = best.x[3:]
    reached = -minus(np.concatenate([fitted.means_[0], np.linalg.cholesky(fitted.covariances_[0])[lower]]))
    assert reached >= -best.fun - 1e-8
    np.testing.assert_allclose(fitted.means_[0], best.x[:3], atol=1e-6)  # the optimiser's own accuracy
    np.testing.assert_allclose(fitted.covariances_[0], L @ L.T, atol=1e-6)


def test_the_gradient_of_the_observed_likelihood_vanishes_at_the_fit():
    rng = np.random.default_rng(2)
    data = draw(Setting(n_rows=600, n_features=3, delta=4), 1)
    X = holes(data.X, 0.25, rng)
    fitted = NetworkGaussianMixture(3, tol=1e-13, max_rounds=5000, reg_covar=0.0, random_state=0).fit(X)
    theta = fitted._theta()
    at = pack(theta)

    def height(k, n, step):
        moved = at.copy()
        moved[k, n] += step
        weights = moved[:, 0] / moved[:, 0].sum()
        covariances = np.empty((3, 3, 3))
        covariances[:, *np.triu_indices(3)] = moved[:, 4:]
        covariances[:, *np.triu_indices(3)[::-1]] = moved[:, 4:]
        return fitted_to(X, Theta(weights, moved[:, 1:4], covariances))

    gradient = [(height(k, n, 1e-5) - height(k, n, -1e-5)) / 2e-5 for k in range(3) for n in range(at.shape[1])]
    assert np.abs(gradient).max() / len(X) < 1e-6


def fitted_to(X, theta):
    from gaussip.mixture.density import responsibilities

    return responsibilities(X, theta)[1].sum()


@pytest.mark.parametrize("network", ["ring", "circle", "star"])
@pytest.mark.parametrize("labelled", [0.0, 0.2])
def test_masked_is_pooled_em_where_one_site_lacks_a_column(network, labelled):
    rng = np.random.default_rng(3)
    data = draw(Setting(n_rows=1200, n_sites=5, n_features=4, delta=4, labelled=labelled), 2)
    X = holes(data.X, 0.1, rng)
    X[data.sites == 1, 2] = np.nan
    there = ~np.isnan(X).all(axis=1)
    X, labels, sites = X[there], data.labels[there], data.sites[there]
    settings = {"tol": 1e-12, "max_rounds": 5000, "random_state": 0, "min_count": 1}
    pooled = NetworkGaussianMixture(3, algorithm="em", **settings).fit(X, labels, sites=sites)
    masked = NetworkGaussianMixture(3, network=network, **settings).fit(X, labels, sites=sites)
    at_sites = Theta(masked.site_weights_, masked.site_means_, masked.site_covariances_)
    assert distance(at_sites, pooled._theta()) < 1e-10
    order = np.argsort(masked.means_[:, 0])
    np.testing.assert_allclose(masked.means_[order], data.truth.means, atol=0.5)


@pytest.mark.parametrize("algorithm", ["exact", "mnem", "nnem", "dem", "ngd", "local"])
def test_gossip_takes_missing_cells(algorithm):
    """Rows doubled with a site each: every site has the pooled rows, so all algorithms but gradient steps agree."""
    rng = np.random.default_rng(4)
    data = draw(Setting(n_rows=400, n_features=3, delta=5), 3)
    X = holes(data.X, 0.2, rng)
    sites = np.repeat(np.arange(3), 400)
    eta = 0.05 if algorithm == "ngd" else 0.5
    settings = {"random_state": 0, "max_rounds": 20_000, "tol": 1e-6, "eta": eta, "reg_covar": 1e-3}
    pooled = NetworkGaussianMixture(3, algorithm="em", tol=1e-12, random_state=0, reg_covar=1e-3).fit(
        np.tile(X, (3, 1)), sites=sites
    )
    found = NetworkGaussianMixture(3, algorithm=algorithm, **settings).fit(np.tile(X, (3, 1)), sites=sites)
    np.testing.assert_allclose(found.means_, pooled.means_, atol=1e-3)
    np.testing.assert_allclose(found.covariances_, pooled.covariances_, atol=1e-2)


def test_independent_blocks_do_not_disturb_each_other():
    """A site that lacks one of two independent blocks changes nothing in the other."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 2))
    Y = X.copy()
    Y[:100, 1] = np.nan
    whole = NetworkGaussianMixture(1, reg_covar=0.0).fit(X[:, :1])
    start = {"means_init": np.zeros((1, 2)), "covariances_init": np.eye(2)[None], "weights_init": np.ones(1)}
    part = NetworkGaussianMixture(1, reg_covar=0.0, tol=1e-13, **start).fit(Y)
    assert part.means_[0, 0] == pytest.approx(whole.means_[0, 0], abs=1e-12)
    assert part.covariances_[0, 0, 0] == pytest.approx(whole.covariances_[0, 0, 0], abs=1e-12)


def test_a_start_by_kmeans_finds_the_groups_of_incomplete_rows():
    rng = np.random.default_rng(6)
    centres = np.array([[0.0, 0.0, 0.0], [6.0, 0.0, 3.0], [0.0, 6.0, -3.0]])
    classes = rng.integers(3, size=900)
    X = holes(centres[classes] + rng.normal(size=(900, 3)), 0.4, rng)
    fitted = NetworkGaussianMixture(3, random_state=0).fit(X, sites=np.arange(900) % 4)
    order = np.argsort(fitted.means_ @ [1.0, 2.0, 0.0])
    np.testing.assert_allclose(fitted.means_[order], centres[[0, 1, 2]], atol=0.4)


def test_rows_without_a_cell_count_nothing_and_are_reported():
    rng = np.random.default_rng(7)
    X = holes(rng.normal(size=(300, 3)) + rng.integers(2, size=(300, 1)) * 6, 0.2, rng)
    empty = np.insert(X, [10, 50], np.nan, axis=0)
    sites = np.arange(300) % 3
    plain = NetworkGaussianMixture(2, random_state=0, min_count=1).fit(X, sites=sites)
    with pytest.warns(MissingCellsWarning, match=r"2 rows have no observed feature and count nothing .*row 11"):
        other = NetworkGaussianMixture(2, random_state=0, min_count=1).fit(empty, sites=np.insert(sites, [10, 50], 1))
    np.testing.assert_array_equal(pack(plain._theta()), pack(other._theta()))
    np.testing.assert_allclose(other.predict_proba(empty)[10], other.weights_)


def test_features_that_nobody_observed_are_refused_by_name():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(np.random.default_rng(8).normal(size=(90, 3)), columns=["age", "bmi", "crp"])
    sites = np.arange(90) % 3
    with pytest.raises(DataError, match="nobody observed 'bmi'"):
        NetworkGaussianMixture(1).fit(X.assign(bmi=np.nan), sites=sites)
    few = X.assign(bmi=X.bmi.where(np.arange(90) < 4))
    with pytest.raises(DataError, match="'bmi' is observed in 4 rows of all sites together, fewer than min_count=5"):
        NetworkGaussianMixture(1, algorithm="mnem").fit(few, sites=sites)
    with pytest.warns(MissingCellsWarning, match="4 rows are left out"), pytest.raises(DataError, match="nobody"):
        NetworkGaussianMixture(1).fit(few, sites=sites)
    apart = X.assign(age=X.age.where(sites == 0), bmi=X.bmi.where(sites != 0))
    with pytest.warns(MissingCellsWarning, match="no row of any site has both 'age' and 'bmi'"):
        NetworkGaussianMixture(1).fit(apart, sites=sites)


def test_a_component_of_few_observed_cells_ends_the_run_with_the_feature():
    rng = np.random.default_rng(9)
    X = np.concatenate([rng.normal(size=(200, 2)), rng.normal(size=(200, 2)) + 8])
    X[203:, 1] = np.nan
    covariances = np.stack([np.eye(2)] * 2)
    start = {"weights_init": [0.5, 0.5], "means_init": [[0.0, 0.0], [8.0, 8.0]], "covariances_init": covariances}
    with pytest.raises(ArithmeticError, match=r"component 1 .*'column 1' is observed in 3 rows of it at all sites"):
        NetworkGaussianMixture(2, **start).fit(X, sites=np.arange(400) % 4)


def test_rows_on_disk_give_what_rows_in_memory_give(tmp_path):
    rng = np.random.default_rng(10)
    data = draw(Setting(n_rows=900, n_sites=3, n_features=4, delta=4, labelled=0.2), 2)
    X = holes(data.X, 0.2, rng)
    np.save(tmp_path / "X.npy", X)
    start = {
        "weights_init": data.truth.weights, "means_init": data.truth.means, "covariances_init": data.truth.covariances
    }  # fmt: skip
    start["min_count"] = 1
    memory = NetworkGaussianMixture(3, **start).fit(X, data.labels, sites=data.sites)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    disk = NetworkGaussianMixture(3, **start).fit(mapped, data.labels, sites=data.sites)
    np.testing.assert_allclose(pack(disk._theta()), pack(memory._theta()), atol=1e-10)


def test_prediction_and_scores_are_those_of_the_observed_cells():
    rng = np.random.default_rng(11)
    data = draw(Setting(n_rows=500, n_features=3, delta=4, labelled=1.0), 1)
    fitted = NetworkGaussianMixture(3, random_state=0).fit(data.X, data.labels)
    X = holes(data.X[:40], 0.4, rng)
    theta = fitted._theta()
    joint = np.stack([log_joint(x, theta, range(3)) for x in X])
    total = np.logaddexp.reduce(joint, axis=1)
    np.testing.assert_allclose(fitted.score_samples(X), total, rtol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(X), np.exp(joint - total[:, None]), atol=1e-12)
    assert (fitted.predict(X) == fitted.classes_[joint.argmax(axis=1)]).all()


def test_components_of_incomplete_rows_are_those_of_pairwise_covariances():
    """Held against pandas' pairwise covariance; the scores of complete rows are theirs."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(15)
    whole = rng.normal(size=(3000, 2)) @ rng.normal(size=(2, 5)) * 3 + rng.normal(size=(3000, 5)) + 7
    X = holes(whole, 0.15, rng)
    sites = np.arange(3000) % 6
    scaler = NetworkStandardScaler().fit(X, sites=sites)
    np.testing.assert_allclose(scaler.mean_, np.nanmean(X, axis=0))
    np.testing.assert_allclose(scaler.var_, np.nanvar(X, axis=0))
    np.testing.assert_array_equal(np.isnan(scaler.transform(X)), np.isnan(X))
    pca = NetworkPCA(2).fit(X, sites=sites)
    np.testing.assert_allclose(pca.covariance_, pandas.DataFrame(X).cov().to_numpy(), rtol=0.02, atol=0.05)
    scores, complete = pca.transform(X), ~np.isnan(X).any(axis=1)
    np.testing.assert_allclose(scores[complete], (X[complete] - pca.mean_) @ pca.components_.T)
    truth = (whole - pca.mean_) @ pca.components_.T
    error = np.sqrt(np.mean((scores - truth)[~complete] ** 2))
    assert error < 0.4 * truth.std()
