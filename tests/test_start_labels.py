"""Starts from labels, the order of components, and given starts, held against NumPy's moments of the pooled rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from gaussip import NetworkGaussianMixture
from gaussip.errors import DisagreementError, LabelError, StartError
from gaussip.exchange.questions import answered
from gaussip.mixture.theta import Theta, pack, reorder
from gaussip.mixture.units import Unit
from gaussip.starts.agreed import confirmed
from gaussip.starts.facts import ask_classes, ask_facts
from gaussip.starts.given import class_order
from gaussip.starts.mixtures import checked
from gaussip.studies.simulation_model import Setting, draw
from starting import held_of, start_of


@pytest.fixture(scope="module")
def sorted_data():
    return draw(Setting(n_rows=3000, n_sites=8, delta=4, labelled=0.2), 1)


def test_from_labels_is_the_labelled_rows_moments(sorted_data):
    data = sorted_data
    held = held_of(data.X * 1e3 + 1e6, data.sites, data.labels)
    facts = answered(ask_facts(6, n_classes=3), held, 8)
    classes = answered(ask_classes(facts, 5), held, 8)
    theta = start_of(held, kind="labels")
    for k in range(3):
        mine = data.X[data.labels == k] * 1e3 + 1e6
        assert classes.counts[k] == len(mine)
        found = classes.means[k] * facts.spread + facts.mean
        np.testing.assert_allclose(found, mine.mean(axis=0), rtol=1e-10)
        covariance = classes.scatters[k] / len(mine) * facts.unit.squares
        np.testing.assert_allclose(covariance, np.cov(mine.T, bias=True), rtol=1e-7, atol=1e-3)
        np.testing.assert_allclose(theta.means[k], mine.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(theta.weights, classes.counts / classes.counts.sum())


def test_a_class_of_few_rows_is_refused_and_named():
    """Of all sites together; one site alone sends nothing, and one row makes a usable covariance there."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-3, 1, (200, 2)), rng.normal(3, 1, (200, 2))])
    y = np.full(400, None)
    y[0], y[-4:] = "ill", "well"
    with pytest.raises(
        LabelError, match="class 'ill' has 1 labelled row at all sites together, fewer than min_count"
    ):
        NetworkGaussianMixture(2, init_params="labels").fit(X, y, sites=np.arange(400) // 100)
    y[1:4] = "ill"
    with pytest.raises(LabelError, match="has 4 labelled rows"):
        NetworkGaussianMixture(2).fit(X, y, sites=np.arange(400) // 100)
    mixture = NetworkGaussianMixture(2, min_count=4, init_params="labels").fit(X, y, sites=np.arange(400) // 100)
    np.testing.assert_allclose(mixture.means_[:, 0], [-3, 3], atol=0.3)
    alone = start_of(held_of(X[:10], None, np.array([0] * 9 + [1]), K=2), 2, kind="labels")
    assert (np.linalg.eigvalsh(alone.covariances) > 0).all()


def test_a_few_unlabelled_rows_are_refused(sorted_data):
    """All know the sums of all rows, and of each class: what is left must be of enough rows, or of none."""
    X, sites, labels = sorted_data.X, sorted_data.sites, sorted_data.classes.copy()
    assert start_of(held_of(X, sites, labels), kind="labels").weights.shape == (3,)
    for few in (1, 4):
        labels[:few] = -1
        with pytest.raises(LabelError, match=f"{few} rows? ha.* no label at all sites .* min_count=5"):
            start_of(held_of(X, sites, labels), kind="labels")
    labels[:5] = -1
    assert start_of(held_of(X, sites, labels), kind="labels").weights.shape == (3,)


def test_from_labels_needs_labels_for_every_component(sorted_data):
    data = sorted_data
    with pytest.raises(StartError, match="needs labels"):
        start_of(held_of(data.X, data.sites), kind="labels")
    only_two = np.where(data.labels == 2, -1, data.labels)
    with pytest.raises(StartError, match="1 of 3 have none"):
        start_of(held_of(data.X, data.sites, only_two), kind="labels")


def test_components_are_matched_to_the_classes_seen(sorted_data):
    data = sorted_data
    only_two = np.where(data.labels == 1, None, np.array(["a", "b", "c", None])[data.labels])
    held = held_of(data.X, data.sites, only_two)
    for order in ([2, 0, 1], [1, 2, 0], [0, 1, 2]):
        shuffled = reorder(data.truth, np.array(order))
        matched = reorder(shuffled, class_order(held, shuffled, 5, ["a", "c"]))
        np.testing.assert_array_equal(matched.means[:2], data.truth.means[[0, 2]])
    theta = start_of(held)
    for k, name in enumerate("ac"):
        own = data.X[only_two == name].mean(axis=0)
        assert cdist(own[None], theta.means).argmin() == k


def test_the_first_site_s_start_is_adopted_to_the_last_bit():
    """And refused by a site that finds another from the same sums."""
    rng = np.random.default_rng(0)
    theta = Theta(np.array([0.3, 0.7]), rng.normal(size=(2, 3)), np.stack([np.eye(3)] * 2))
    unit = Unit.of(rng.normal(size=3), np.array([1e-3, 1.0, 1e6]))
    theirs = pack(unit.original_theta(theta))
    for factor in (1.0, 1 + 1e-15):
        asking = confirmed(theta, unit)
        next(asking)
        with pytest.raises(StopIteration) as ended:
            asking.send(np.ravel(theirs * factor))
        np.testing.assert_array_equal(pack(ended.value.value), theirs * factor)
    for wrong in (theirs * (1 + 1e-4), theirs * np.nan):
        asking = confirmed(theta, unit)
        next(asking)
        with pytest.raises(DisagreementError, match="the first site sent another start than this site finds"):
            asking.send(np.ravel(wrong))


def test_given_values_are_checked():
    begin = Theta(np.full(2, 0.5), np.zeros((2, 3)), np.stack([np.eye(3)] * 2))
    assert checked(begin, 2, 3) is begin
    nearly = begin._replace(covariances=begin.covariances + np.triu(np.full((3, 3), 1e-18)))
    assert checked(nearly, 2, 3) is nearly
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
            checked(begin._replace(**wrong), 2, 3)


def test_an_unlucky_draw_does_not_end_a_search_within_classes():
    rng = np.random.default_rng(0)
    group, side = rng.integers(2, size=600), rng.choice([-4, 4], 600)
    X = np.where(group == 1, side, 0.0)[:, None] + rng.normal(size=(600, 2))
    for seed in (1, 2, 7):  # k-means finds no three groups from some centres
        rng = np.random.default_rng(seed)
        y = np.full(600, None)
        for c, name in enumerate(("ill", "well")):
            y[rng.choice(np.flatnonzero(group == c), 18, replace=False)] = name
        mixture = NetworkGaussianMixture(6, components_per_class=3, init_params="search", random_state=seed)
        assert mixture.fit(X, y, sites=np.arange(600) % 3).converged_
    y[y == "well"] = None
    y[np.flatnonzero(group == 0)[:6]] = "well"
    with pytest.raises(StartError, match=r"class 'well' has 6 labelled rows .* no 3 groups of at least 5"):
        mixture.fit(X, y, sites=np.arange(600) % 3)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("ill|well", r"the label 'ill\|well' in row 1.*; .* give the set \{'ill', 'well'\}"),
        ({"ill", None}, "a set of classes with one that has no name"),
        ({"ill", ""}, "a set of classes with one that has no name"),
        (set(), "an empty set of classes in row 1"),
    ],
)
def test_names_that_are_no_class(cell, text):
    y = np.full(40, None)
    y[1:30] = np.where(np.arange(29) < 15, "ill", "well")
    y[0] = cell
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(LabelError, match=text):
        NetworkGaussianMixture(4).fit(X, y, sites=np.arange(40) % 4)


def test_components_of_classes_need_labels():
    X = np.random.default_rng(0).normal(size=(40, 2))
    for given in (2, {"ill": 2}):
        with pytest.raises(LabelError, match=r"components_per_class=.* needs labels: no row has one; give y"):
            NetworkGaussianMixture(2, components_per_class=given).fit(X, sites=np.arange(40) % 4)


def test_a_class_called_none_is_not_that_of_free_components():
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=300)
    X = np.array([[0, 0], [8, 0], [0, 8]])[group] + rng.normal(size=(300, 2))
    y = np.array(["none", "well", None], dtype=object)[group]
    mixture = NetworkGaussianMixture(3, random_state=0).fit(X, y, sites=np.arange(300) % 3)
    assert (mixture.predict(X) == np.array(["none", "well", "(none)"])[group]).mean() > 0.99
