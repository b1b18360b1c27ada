import numpy as np
import pytest

from gaussip import NetworkGaussianMixture
from gaussip.errors import StartError
from gaussip.mixture.theta import Theta, reorder
from gaussip.rows.rows import Rows
from gaussip.starts import shared as start
from gaussip.studies.simulation_model import Setting, draw


@pytest.fixture(scope="module")
def sorted_data():
    return draw(Setting(n_rows=3000, n_sites=8, delta=4, labelled=0.2), 1)


def closest(theta, truth):
    return np.linalg.norm(truth.means[:, None] - theta.means[None], axis=-1)


def test_decentralised_kmeans_finds_the_groups_on_sorted_sites(sorted_data):
    theta = start.kmeans(sorted_data.by_site(sorted_data.X), 3, seed=0)
    apart = closest(theta, sorted_data.truth)
    assert sorted(apart.argmin(axis=1).tolist()) == [0, 1, 2]
    assert apart.min(axis=1).max() < 1.0
    assert (np.linalg.eigvalsh(theta.covariances) > 0).all()
    assert theta.weights.sum() == pytest.approx(1)


def test_kmeans_does_not_depend_on_units(sorted_data):
    units = np.array([1, 1e3, 1e-3, 10, 1, 5.0])
    one = start.kmeans(sorted_data.by_site(sorted_data.X), 3, seed=0)
    other = start.kmeans(sorted_data.by_site(sorted_data.X * units), 3, seed=0)
    np.testing.assert_allclose(other.means / units, one.means, rtol=1e-6)


def test_no_site_shares_a_centre_of_fewer_than_min_count_rows():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (40, 2)), [[100.0, 100.0]]])  # an outlier: one recognisable patient
    shared = start.site_centres(X, 3, np.ones(2), seed=0, min_count=5)
    assert shared.counts.min() >= 5
    assert not np.isclose(shared.means, 100.0).any()
    nothing = start.site_centres(X[:4], 3, np.ones(2), seed=0, min_count=5)
    assert nothing.means.shape == (0, 2)
    alone = start.site_centres(X[:7], 3, np.ones(2), seed=0, min_count=5)
    np.testing.assert_allclose(alone.means, X[:7].mean(axis=0)[None])


def test_weighted_kmeans_counts_weights():
    rng = np.random.default_rng(1)
    X = rng.normal(0, 1, (30, 2))
    shared = start.site_centres(X, 1, np.ones(2), seed=0, weights=np.full(30, 2.5))
    assert shared.counts.tolist() == [75.0]


def test_too_few_centres_are_refused():
    with pytest.raises(StartError, match="only 2 distinct centres"):
        start.kmeans([np.random.default_rng(m).normal(size=(6, 2)) for m in range(2)], 3, seed=0)


def test_from_labels_is_the_labelled_rows_moments(sorted_data):
    data = sorted_data
    rows = Rows.of_sites(data.by_site(data.X), data.by_site(data.labels), None, 3)
    found = start.labelled_classes(rows)
    theta = start.from_labels(rows, np.ones(6))
    for k in range(3):
        mine = data.X[data.labels == k]
        assert found.counts[k] == len(mine)
        np.testing.assert_allclose(found.means[k], mine.mean(axis=0), rtol=1e-10)
        np.testing.assert_allclose(found.scatters[k] / len(mine), np.cov(mine.T, bias=True), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(theta.means[k], mine.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(theta.weights, found.counts / found.counts.sum())


def test_one_labelled_row_a_class_is_enough():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-3, 1, (200, 2)), rng.normal(3, 1, (200, 2))])
    y = np.full(400, -1)
    y[[0, -1]] = 0, 1
    mixture = NetworkGaussianMixture(2, init_params="labels", eta=0.1).fit(X, y, sites=np.arange(400) // 100)
    np.testing.assert_allclose(mixture.means_[:, 0], [-3, 3], atol=0.3)


def test_a_class_of_one_row_gives_a_usable_covariance():
    X = np.random.default_rng(0).normal(size=(10, 4))
    labels = np.array([0] * 9 + [1])
    theta = start.from_labels(Rows.of_sites([X], [labels], None, 2), X.std(axis=0))
    assert (np.linalg.eigvalsh(theta.covariances) > 0).all()


def test_from_labels_needs_labels_for_every_component(sorted_data):
    data = sorted_data
    with pytest.raises(StartError, match="needs labels"):
        start.from_labels(Rows.of_sites(data.by_site(data.X)), np.ones(6))
    only_two = np.where(data.labels == 2, -1, data.labels)
    with pytest.raises(StartError, match="1 of 3 have none"):
        start.from_labels(Rows.of_sites(data.by_site(data.X), data.by_site(only_two), None, 3), np.ones(6))


def test_components_are_matched_to_the_classes_seen(sorted_data):
    data = sorted_data
    only_two = np.where(data.labels == 1, -1, data.labels)
    rows = Rows.of_sites(data.by_site(data.X), data.by_site(only_two), None, 3)
    for order in ([2, 0, 1], [1, 2, 0], [0, 1, 2]):
        shuffled = reorder(data.truth, np.array(order))
        found = reorder(shuffled, start.class_order(shuffled, rows))
        np.testing.assert_array_equal(found.means, data.truth.means)


def test_given_values_are_checked():
    begin = Theta(np.full(2, 0.5), np.zeros((2, 3)), np.stack([np.eye(3)] * 2))
    assert start.checked(begin, 2, 3) is begin
    nearly = begin._replace(covariances=begin.covariances + np.triu(np.full((3, 3), 1e-18)))
    assert start.checked(nearly, 2, 3) is nearly
    for wrong, words in (
        ({"weights": np.array([0.5, 0.6])}, "sum to one"),
        ({"weights": np.array([1.5, -0.5])}, "positive"),
        ({"weights": np.array([1.0])}, r"shape \(1,\); 2 components and 3 features need \(2,\)"),
        ({"means": np.full((2, 3), np.nan)}, "not finite"),
        ({"means": np.zeros((3, 2))}, "shape"),
        ({"covariances": np.stack([np.eye(3), -np.eye(3)])}, r"covariances_init\[1\]"),
        ({"covariances": np.stack([np.triu(np.ones((3, 3)))] * 2)}, "symmetric"),
    ):
        with pytest.raises(StartError, match=words):
            start.checked(begin._replace(**wrong), 2, 3)


def test_an_outlier_does_not_cost_a_site_its_groups():
    rng = np.random.default_rng(0)

    def site():
        groups = [rng.normal(-3, 1, (200, 2)), rng.normal(3, 1, (200, 2)), [[300.0, 300.0]]]
        return np.concatenate(groups)

    theta = start.kmeans([site() for _ in range(4)], 2, seed=0)
    np.testing.assert_allclose(np.sort(theta.means[:, 0]), [-3, 3], atol=0.3)


def test_rows_of_weight_zero_do_not_hide_a_single_patient():
    X = np.concatenate([np.random.default_rng(0).normal(size=(20, 2)), np.full((5, 2), 100.0)])
    weights = np.array([1.0] * 21 + [0.0] * 4)
    shared = start.site_centres(X, 2, np.ones(2), seed=0, weights=weights)
    assert (np.abs(shared.means) < 5).all()
