"""Standard errors and intervals, held against finite differences of SciPy's densities and closed formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from gaussip import NetworkGaussianMixture
from gaussip.errors import DataError, SettingError, UncertaintyError
from gaussip.inference import Uncertainty, information
from gaussip.inference.information import COUNTED, concluded, scales, site_part
from gaussip.mixture.theta import Theta, pack, unpack
from gaussip.rows.chunks import Chunks, of_array
from gaussip.studies.simulation_model import Setting, draw

NAMES = ["age", "bmi"]


def problem(labelled=False, weighted=False, n=80):
    """Rows of two overlapping components, and a theta that is not their estimate."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(0, 1, (n // 2, 2)), rng.normal(1.5, 0.8, (n // 2, 2)) * [1, 3]])
    labels = np.where(rng.random(n) < 0.3, np.repeat([0, 1], n // 2), -1) if labelled else None
    weights = rng.uniform(0.2, 3, n) if weighted else None
    theta = Theta(
        np.array([0.6, 0.4]),
        np.array([[0.1, -0.2], [1.4, 4.0]]),
        np.array([[[1.1, 0.3], [0.3, 1.4]], [[0.7, -0.4], [-0.4, 5.0]]]),
    )
    return X, labels, weights, theta


def log_likelihood(vector, X, labels):
    """Of every row, by SciPy; weights need not sum to one. (n,)."""
    weights, means, covariances = unpack(vector.reshape(-1, 6))
    parts = zip(weights, means, covariances, strict=True)
    joint = np.stack([a * multivariate_normal(m, S).pdf(X) for a, m, S in parts], axis=1)
    known = np.full(len(X), -1) if labels is None else labels
    return np.log(np.where(known >= 0, joint[np.arange(len(X)), known], joint.sum(axis=1)))


def gradient(function, at, step=1e-5):
    """By central differences; the derivatives are along the first axis."""
    return np.stack([(function(at + e) - function(at - e)) / (2 * step) for e in step * np.eye(at.size)])


def summed_of(X, labels, weights, theta, scale, **options):
    return site_part(of_array(X, labels, weights), theta, scale, **options)


CASES = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize(("labelled", "weighted"), CASES)
def test_the_information_is_the_negative_hessian(labelled, weighted):
    X, labels, weights, theta = problem(labelled, weighted)
    v, at = (np.ones(len(X)) if weights is None else weights), pack(theta).ravel()
    part = summed_of(X, labels, weights, theta, np.ones((2, 6)), robust=True)
    of_rows = gradient(lambda vector: log_likelihood(vector, X, labels), at)  # (q, n)
    hessian = gradient(lambda x: gradient(lambda y: v @ log_likelihood(y, X, labels), x, 1e-4), at, 1e-4)
    upper = np.triu_indices(12)
    score, found, products = np.split(part, np.cumsum([12, 78]))
    np.testing.assert_allclose(score, of_rows @ v, atol=1e-6 * np.abs(score).max())
    np.testing.assert_allclose(found, -hessian[upper], atol=2e-6 * np.abs(hessian).max())
    np.testing.assert_allclose(products, ((v**2 * of_rows) @ of_rows.T)[upper], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("robust", [False, True])
def test_the_covariance_with_one_weight_left_out(robust):
    """The last weight is one minus the others: an ordinary problem of q - 1 parameters, by finite differences."""
    data = draw(
        Setting(n_rows=400, n_sites=4, n_features=2, delta=2.5, weights=(0.6, 0.4), correlations=(0.5, 0.0)), 2
    )
    mixture = NetworkGaussianMixture(2, reg_covar=0, tol=1e-9, max_rounds=5000, random_state=0)
    mixture.fit(data.X, sites=data.sites)
    found = mixture.uncertainty(data.X, sites=data.sites, robust=robust)
    theta = pack(mixture._theta()).ravel()
    free = np.delete(np.arange(12), 6)  # component 1's weight follows
    jacobian = np.eye(12)[:, free]
    jacobian[6, 0] = -1

    def of_rows(vector):
        return log_likelihood(theta + jacobian @ (vector - theta[free]), data.X, None)

    hessian = gradient(lambda x: gradient(lambda y: of_rows(y).sum(), x, 1e-4), theta[free], 1e-4)
    middle = np.linalg.inv(-hessian)
    if robust:
        scores = gradient(of_rows, theta[free])
        middle = middle @ scores @ scores.T @ middle
    wanted = jacobian @ middle @ jacobian.T
    errors = np.sqrt(np.diag(wanted))
    np.testing.assert_allclose(found.covariance, wanted, rtol=0, atol=1e-4 * np.outer(errors, errors).max())
    np.testing.assert_allclose(pack(found.standard_errors).ravel(), errors, rtol=1e-4)
    assert found.away < 1e-3
    assert found.robust == robust


def test_one_component_is_the_textbook():
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([5, -100], [[2, 3], [3, 50]], 300)
    found = NetworkGaussianMixture(1, reg_covar=0).fit(X).uncertainty(X)
    S = np.cov(X.T, bias=True)
    np.testing.assert_allclose(found.covariance[1:3, 1:3], S / 300, rtol=1e-6)
    (a, b), c = np.diag(S), S[0, 1]
    of_spread = np.array(
        [[2 * a * a, 2 * a * c, 2 * c * c], [2 * a * c, a * b + c * c, 2 * b * c], [2 * c * c, 2 * b * c, 2 * b * b]]
    )
    np.testing.assert_allclose(found.covariance[3:, 3:], of_spread / 300, rtol=1e-6)
    np.testing.assert_allclose(found.covariance[1:3, 3:], 0, atol=1e-6)
    low, high = found.intervals()
    assert low.weights == high.weights == [1.0]
    assert found.standard_errors.weights == pytest.approx(0, abs=1e-9)


def test_all_labelled_rows_are_counted_by_class():
    """Complete data: a multinomial and K normals."""
    data = draw(Setting(n_rows=900, n_sites=3, n_features=2, labelled=1.0), 4)
    mixture = NetworkGaussianMixture(3, reg_covar=0, init_params="labels").fit(data.X, data.labels, sites=data.sites)
    found = mixture.uncertainty(data.X, data.labels, sites=data.sites)
    share = np.bincount(data.labels) / 900
    at = [0, 6, 12]
    wanted = (np.diag(share) - np.outer(share, share)) / 900
    np.testing.assert_allclose(found.covariance[np.ix_(at, at)], wanted, rtol=0, atol=1e-10)
    for k in range(3):
        mine = np.cov(data.X[data.labels == k].T, bias=True) / (900 * share[k])
        np.testing.assert_allclose(found.covariance[6 * k + 1 : 6 * k + 3, 6 * k + 1 : 6 * k + 3], mine, rtol=1e-6)


def test_units_do_not_matter():
    X, labels, weights, theta = problem(True, True, n=400)
    unit, shift = np.array([1e-4, 1e5]), np.array([3.0, -1e7])
    other = Theta(theta.weights, theta.means * unit + shift, theta.covariances * np.outer(unit, unit))
    of_each = [
        concluded(
            summed_of(x, labels, weights, t, scales(t, 400.0), robust=True), scales(t, 400.0), NAMES, robust=True
        )
        for x, t in ((X, theta), (X * unit + shift, other))
    ]
    errors = [
        pack(Uncertainty(t, *found, True).standard_errors) for t, found in zip((theta, other), of_each, strict=True)
    ]
    factor = pack(Theta(np.ones(1), unit[None], np.outer(unit, unit)[None]))
    np.testing.assert_allclose(errors[1] / factor, errors[0], rtol=1e-5)
    assert of_each[0].away == pytest.approx(of_each[1].away, rel=1e-5)


@pytest.mark.parametrize("robust", [False, True])
def test_the_sites_sum_is_that_of_the_pooled_rows(data, by_sites, robust):
    mixture, names, v = by_sites
    given = {"sample_weight": v, "robust": robust}
    found = mixture.uncertainty(data.X, data.labels, sites=names, **given)
    pooled = mixture.uncertainty(data.X, data.labels, **given)  # at the consensus
    errors = np.sqrt(np.diag(pooled.covariance))
    np.testing.assert_allclose(
        found.covariance, pooled.covariance, rtol=0, atol=1e-6 * np.outer(errors, errors).max()
    )
    scale = scales(mixture._theta(), v.sum())
    parts = []
    for m, name in enumerate(mixture.sites_):
        theta = Theta(mixture.site_weights_[m], mixture.site_means_[m], mixture.site_covariances_[m])
        mine = names == name
        parts.append(summed_of(data.X[mine], data.labels[mine], v[mine], theta, scale, robust=robust))
    words = COUNTED.encode(np.stack(parts), len(parts)).sum(axis=0)
    at_once = concluded(COUNTED.decode(words), scale, ["a", "b", "c"], robust=robust)
    np.testing.assert_array_equal(at_once.covariance, found.covariance)  # as real sites sum them, to the bit


def test_rows_in_blocks_and_on_disk(data, by_sites, monkeypatch, tmp_path):
    mixture, names, v = by_sites
    wanted = mixture.uncertainty(data.X, data.labels, sites=names, sample_weight=v).covariance
    monkeypatch.setattr(information, "BLOCK", 30 * 7)
    blocks = mixture.uncertainty(data.X, data.labels, sites=names, sample_weight=v).covariance
    np.testing.assert_allclose(blocks, wanted, rtol=1e-6, atol=1e-12)
    np.save(tmp_path / "rows.npy", data.X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        mixture.uncertainty(mapped, data.labels, sites=names, sample_weight=v).covariance, blocks
    )
    source = {
        name: Chunks(lambda mine=names == name: iter([(data.X[mine], data.labels[mine], v[mine])]))
        for name in mixture.sites_.tolist()
    }
    np.testing.assert_array_equal(mixture.uncertainty(source).covariance, blocks)


def test_weights_count_rows_and_robust_ones_only_their_ratios(data):
    """A weight of two is the row twice; robust, a unit of the weights does not matter."""
    start = {
        "weights_init": data.truth.weights,
        "means_init": data.truth.means,
        "covariances_init": data.truth.covariances,
    }
    v = 1.0 + (np.arange(len(data.X)) % 3 == 0)
    twice = np.repeat(np.arange(len(data.X)), v.astype(int))
    mixture = NetworkGaussianMixture(3, tol=1e-8, **start).fit(data.X, sample_weight=v)
    weighted = mixture.uncertainty(data.X, sample_weight=v)
    repeated = mixture.uncertainty(data.X[twice])
    np.testing.assert_allclose(weighted.covariance, repeated.covariance, rtol=1e-6, atol=1e-11)
    robust = mixture.uncertainty(data.X, sample_weight=v, robust=True).covariance
    heavier = NetworkGaussianMixture(3, tol=1e-8, **start).fit(data.X, sample_weight=50 * v)
    np.testing.assert_allclose(
        heavier.uncertainty(data.X, sample_weight=50 * v, robust=True).covariance, robust, rtol=1e-5, atol=1e-10
    )


def test_unlabelled_rows_that_count_in_part(data):
    """They are rows of that weight, and only the robust covariance is given."""
    mixture = NetworkGaussianMixture(3, init_params="labels", unlabelled_weight=0.3, tol=1e-8)
    mixture.fit(data.X, data.labels, sites=data.sites)
    with pytest.raises(SettingError, match=r"unlabelled_weight=0\.3.*robust=True"):
        mixture.uncertainty(data.X, data.labels, sites=data.sites)
    found = mixture.uncertainty(data.X, data.labels, sites=data.sites, robust=True)
    assert found.away < 1e-2
    v = np.where(data.labels < 0, 0.3, 1.0)
    mixture.unlabelled_weight = 1.0
    same = mixture.uncertainty(data.X, data.labels, sites=data.sites, sample_weight=v, robust=True)
    np.testing.assert_allclose(found.covariance, same.covariance, rtol=1e-6, atol=1e-12)


def test_intervals_stay_in_range():
    theta = Theta(np.array([0.01, 0.99]), np.zeros((2, 1)), np.array([[[0.5]], [[2.0]]]))
    found = Uncertainty(theta, np.diag([0.02, 0.3, 0.4, 0.02, 0.1, 0.1]) ** 2, 0.0, False)
    low, high = found.intervals(0.9)
    z = norm.ppf(0.95)
    assert 0 < low.weights.min() < 0.01 < high.weights[0] < 1
    odds = np.log(np.array([low.weights[0], high.weights[0]]) / (1 - np.array([low.weights[0], high.weights[0]])))
    np.testing.assert_allclose(odds, np.log(0.01 / 0.99) + z * 0.02 / 0.0099 * np.array([-1, 1]), rtol=1e-9)
    np.testing.assert_allclose(high.means.ravel(), [z * 0.3, z * 0.1])
    np.testing.assert_allclose(low.covariances.ravel(), [0.5 * np.exp(-z * 0.8), 2 * np.exp(-z * 0.05)])
    np.testing.assert_allclose(high.covariances.ravel(), [0.5 * np.exp(z * 0.8), 2 * np.exp(z * 0.05)])
    for level in (0, 1, 95):
        with pytest.raises(SettingError, match="between 0 and 1"):
            found.intervals(level)


def test_no_information_is_refused_and_named():
    X, _, _, theta = problem(n=200)
    copy = Theta(theta.weights, theta.means[[0, 0]], theta.covariances[[0, 0]])
    empty = Theta(np.array([1 - 1e-9, 1e-9]), np.array([[0.7, 2.0], [500.0, 500.0]]), theta.covariances)
    for odd, component in ((copy, "component [01]"), (empty, "component 1, above all its")):
        scale = scales(odd, 200.0)
        with pytest.raises(UncertaintyError, match=f"not positive definite.*least about {component}"):
            concluded(summed_of(X, None, None, odd, scale), scale, NAMES)
    scale = scales(theta, 4.0)
    with pytest.raises(UncertaintyError, match="too few rows"):
        concluded(summed_of(X[:4], None, None, theta, scale), scale, NAMES)


def test_shapes_and_sizes_are_refused():
    X, labels, _, theta = problem()
    scale = scales(theta, 80.0)
    with pytest.raises(UncertaintyError, match=r"2 components of 2 features: scales are \(2, 6\), not \(2, 10\)"):
        summed_of(X, labels, None, theta, np.ones((2, 10)))
    with pytest.raises(DataError, match="theta has 2 features, the rows 3"):
        summed_of(np.ones((5, 3)), None, None, theta, scale)
    with pytest.raises(UncertaintyError, match="not a mixture"):
        summed_of(X, labels, None, theta._replace(covariances=-theta.covariances), scale)
    with pytest.raises(UncertaintyError, match="90 numbers, not 168"):
        concluded(summed_of(X, labels, None, theta, scale, robust=True), scale, NAMES)
    with pytest.raises(UncertaintyError, match="divide row weights by their mean"):
        summed_of(X, labels, np.full(80, 1e6), theta, scale, robust=True)
    with pytest.raises(UncertaintyError, match=r"4 components of 95 features have 18623 parameters.*2775 MB"):
        information.check_size(4, 95)
