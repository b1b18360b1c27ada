"""Starts by k-means that sites find together, held against scikit-learn's on the pooled rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from gaussip.errors import StartError
from gaussip.exchange.questions import answered
from gaussip.mixture.density import responsibilities
from gaussip.starts import lloyd
from gaussip.starts.facts import ask_facts
from gaussip.studies.simulation_model import Setting, draw
from starting import apart, asked, held_of, start_of


@pytest.fixture(scope="module")
def sorted_data():
    return draw(Setting(n_rows=3000, n_sites=8, delta=4, labelled=0.2), 1)


@pytest.mark.parametrize("weighted", [False, True])
def test_facts_are_those_of_the_pooled_rows(sorted_data, weighted):
    """Far from zero, in unlike units, with a constant feature."""
    X = np.column_stack([sorted_data.X * np.geomspace(1e-3, 1e3, 6) + 1e5, np.full(3000, 0.1)])
    v = np.random.default_rng(0).uniform(0.5, 2, 3000) if weighted else np.ones(3000)
    held = held_of(X, sorted_data.sites, sorted_data.labels, v if weighted else None)
    facts = answered(ask_facts(7, n_classes=3), held, 8)
    mean = np.average(X, axis=0, weights=v)
    variance = np.average((X - mean) ** 2, axis=0, weights=v)
    np.testing.assert_allclose(facts.mean, mean, rtol=1e-14)
    np.testing.assert_allclose(facts.variance[:6], variance[:6], rtol=1e-6)
    np.testing.assert_allclose(facts.spread, [*np.sqrt(variance[:6]), 1.0], rtol=1e-6)
    assert facts.rows == facts.mass == pytest.approx(v.sum())
    by_class = np.bincount(sorted_data.labels + 1, v)[1:]
    np.testing.assert_allclose(facts.class_counts, by_class)
    few = answered(ask_facts(7, n_classes=0, located=False), held, 8)
    assert few.rows == facts.rows
    assert np.isnan(few.mean).all()


def test_kmeans_finds_the_groups_on_sorted_sites(sorted_data):
    theta = start_of(held_of(sorted_data.X, sorted_data.sites))
    distances = cdist(sorted_data.truth.means, theta.means)
    assert sorted(distances.argmin(axis=1).tolist()) == [0, 1, 2]
    assert distances.min(axis=1).max() < 1.0
    assert (np.linalg.eigvalsh(theta.covariances) > 0).all()
    assert theta.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_iterations_are_scikit_learn_s(n_groups, monkeypatch):
    """Of k-means on the pooled rows from the same centres, in runs in which no group has too few rows."""
    monkeypatch.setattr(lloyd, "NARROW", 1e-9)  # so that no row counts to two groups
    data = draw(Setting(n_rows=1500, n_sites=5, n_features=3, delta=2.5), 7)
    held = held_of(data.X, data.sites)
    facts = answered(ask_facts(3, 0), held, 5)
    Z, size = facts.unit.standard_rows(data.X), lloyd.SEEDS * n_groups
    _, questions = asked(lloyd.ask_groups(facts, n_groups, 4, 5), held)
    asked_for = np.stack([total for _, total in questions if total.size == size + lloyd.SEEDS])
    counts, ours = 1500 * asked_for[:, :size].reshape(-1, lloyd.SEEDS, n_groups), asked_for[:, size:]
    whole = np.flatnonzero((counts >= 5).all(axis=(0, 2)))
    assert len(ours) >= 3
    assert len(whole) >= 3
    for run in whole:
        centres = np.random.default_rng([4, run]).standard_normal((n_groups, 3))
        for step in range(1, len(ours)):
            theirs = KMeans(n_groups, init=centres, n_init=1, max_iter=step, tol=0).fit(Z)
            assert ours[step, run] == pytest.approx(theirs.inertia_ / 1500, rel=1e-6)
            assert np.abs(counts[step, run] - np.bincount(theirs.labels_)).max() < 1e-3


def test_kmeans_is_as_good_as_scikit_learn_s():
    """Eight groups: at most a little above the least of ten runs by k-means++, for every seed."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-8, 8, size=(8, 2))[rng.integers(8, size=1600)] + rng.normal(size=(1600, 2))
    held = held_of(X, np.arange(1600) % 4)
    facts = answered(ask_facts(2, 0), held, 4)
    theirs = KMeans(8, n_init=10, random_state=0).fit(facts.unit.standard_rows(X)).inertia_
    for seed in range(5):
        (groups,) = answered(lloyd.ask_groups(facts, 8, seed, 5), held, 4)
        assert np.trace(groups.scatters, axis1=1, axis2=2).sum() < 1.1 * theirs


def test_groups_are_the_moments_of_their_rows(sorted_data):
    held = held_of(sorted_data.X, sorted_data.sites)
    facts = answered(ask_facts(6, 0), held, 8)
    (groups,) = answered(lloyd.ask_groups(facts, 3, 0, 5), held, 8)
    Z = facts.unit.standard_rows(sorted_data.X)
    labels = KMeans(3, init=groups.means, n_init=1, max_iter=1, tol=0).fit(Z).labels_
    for k in range(3):
        mine = Z[labels == k]
        assert groups.counts[k] == pytest.approx(len(mine), abs=10)  # centres moved once more
        np.testing.assert_allclose(groups.means[k], mine.mean(axis=0), atol=0.02)
        np.testing.assert_allclose(groups.scatters[k] / groups.counts[k], np.cov(mine.T, bias=True), atol=0.03)


@pytest.mark.parametrize("units", [[1, 1e3, 1e-3, 10, 1, 5.0], [1e-30, 1, 1e60, 1, 1, 1]])
def test_kmeans_does_not_depend_on_units(sorted_data, units):
    one = start_of(held_of(sorted_data.X, sorted_data.sites))
    other = start_of(held_of(sorted_data.X * units, sorted_data.sites))
    np.testing.assert_allclose(other.means / units, one.means, rtol=1e-6)


@pytest.mark.parametrize("kind", ["kmeans", "labels"])
def test_starts_do_not_depend_on_who_has_which_rows(sorted_data, kind):
    data, rng = sorted_data, np.random.default_rng(0)
    deals = [np.zeros(3000, dtype=int), np.arange(3000) % 2, rng.integers(50, size=3000)]
    labels = data.labels if kind == "labels" else None
    for seed in range(6):
        wanted = start_of(held_of(data.X, data.sites, labels), kind=kind, seed=seed)
        for sites in deals:
            assert apart(start_of(held_of(data.X, sites, labels), kind=kind, seed=seed), wanted) < 1e-9


def test_the_order_of_components_does_not_depend_on_the_last_digit():
    """Far apart, all runs end in the same groups, in one order or the other; sums differ by who has which rows."""
    rng = np.random.default_rng(0)
    held = held_of(np.concatenate([rng.normal(-4, 1, (100, 2)), rng.normal(4, 1, (100, 2))]), np.arange(200) % 4)
    facts = answered(ask_facts(2, 0), held, 4)
    for seed in range(5):
        means = []
        for _ in range(10):
            asking = lloyd.ask_groups(facts, 2, seed, 5)
            (groups,), _ = asked(asking, held, lambda total: total + 1e-14 * rng.normal(size=total.size))
            means.append(groups.means)
        assert np.ptp(means, axis=0).max() < 1e-9


@pytest.mark.parametrize("kind", ["kmeans", "labels"])
def test_a_weight_of_two_is_the_row_twice(sorted_data, kind):
    data, v = sorted_data, np.random.default_rng(1).integers(0, 4, 3000)
    labels, repeated = data.labels if kind == "labels" else np.full(3000, -1), np.repeat(np.arange(3000), v)
    weighted = held_of(data.X, data.sites, labels, v.astype(float))
    for seed in range(8):
        again = held_of(data.X[repeated], data.sites[repeated], labels[repeated])
        assert apart(start_of(weighted, kind=kind, seed=seed), start_of(again, kind=kind, seed=seed)) < 1e-9


def outliers():
    """Three groups, and rows far from them: one, four and a dozen in a place."""
    rng = np.random.default_rng(0)
    far = [np.repeat([[place]], size, axis=0) * np.ones(2) for place, size in ((9, 1), (-9, 4), (12, 12))]
    X = np.concatenate([rng.normal(-2, 1, (60, 2)), rng.normal(2, 1, (60, 2)), *far])
    return X + 0.01 * rng.normal(size=X.shape), np.arange(len(X)) % 4


@pytest.mark.parametrize(("n_groups", "min_count"), [(3, 5), (5, 5), (3, 20)])
def test_no_sum_of_fewer_than_min_count_rows_is_ever_asked_for(monkeypatch, n_groups, min_count):
    X, sites = outliers()
    held, tried = held_of(X, sites), []
    facts = answered(ask_facts(2, 0), held, 4)
    Z, at = facts.unit.standard_rows(X), lloyd._Passes.at

    def watched(self, centres, held):
        tried.append(centres.copy())
        return at(self, centres, held)

    monkeypatch.setattr(lloyd._Passes, "at", watched)
    few = 0
    for seed in range(5):
        tried.clear()
        _, questions = asked(lloyd.ask_groups(facts, n_groups, seed, min_count, best=False), held)
        assert len(tried) == len(questions)
        for centres, (parts, _) in zip(tried, questions, strict=True):
            runs = len(centres)
            nearest = cdist(Z, centres.reshape(-1, 2)).reshape(len(Z), runs, n_groups).argmin(axis=2)
            rows = (nearest[..., None] == np.arange(n_groups)).sum(axis=0)
            if parts.shape[1] == runs * (n_groups + 1):
                continue  # counts, and the distances of all rows
            asked_for = np.abs(parts.reshape(4, runs, n_groups, -1)).max(axis=(0, 3)) > 0
            assert (rows[asked_for] >= min_count).all()
            rest = np.where(asked_for, 0, rows).sum(axis=1)  # all know the sum of all rows, so of these together too
            assert ((rest == 0) | (rest >= min_count)).all()
            few += int((~asked_for).sum())
    assert few > 5  # there were such groups


def test_an_outlier_stands_alone_only_where_nothing_is_sent():
    X = np.concatenate([np.random.default_rng(0).normal(size=(120, 2)), [[200.0, 200.0]]])
    shared, alone = start_of(held_of(X, np.arange(121) % 4), 2), start_of(held_of(X, None), 2)
    assert shared.weights.min() * 121 >= 5
    np.testing.assert_allclose(alone.means[alone.weights.argmin()], 200.0)


def test_outliers_do_not_cost_a_start_its_groups():
    """A few rows far from both groups, too few to be a group."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-3, 1, (800, 2)), rng.normal(3, 1, (800, 2)), np.full((4, 2), 100.0)])
    for seed in range(5):
        theta = start_of(held_of(X, np.arange(1604) % 4), 2, seed=seed)
        member = responsibilities(X[:1600], theta)[0].argmax(axis=1)
        own = member == member[0]
        assert (own == (np.arange(1600) < 800)).mean() > 0.99


def test_rows_of_weight_zero_do_not_hide_a_single_patient():
    X = np.concatenate([np.random.default_rng(0).normal(size=(40, 2)), np.full((5, 2), 100.0)])
    weights = np.array([1.0] * 41 + [0.0] * 4)
    assert start_of(held_of(X, np.arange(45) % 3, None, weights), 2).weights.min() * 41 >= 5
    assert start_of(held_of(X, np.arange(45) % 3), 2).means.max() == pytest.approx(100)  # now there are five


def test_groups_that_were_found_are_not_lost_again():
    """Few rows with heavy tails: an iteration may leave a group with too few rows in every run."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X = rng.standard_t(2, size=(16, 2))
        held = held_of(X, np.arange(16) % 2, K=2)
        facts = answered(ask_facts(2, 0), held, 2)
        (groups,), questions = asked(lloyd.ask_groups(facts, 2, seed, 5), held)
        asked_for = np.stack([total for _, total in questions if total.size == 3 * lloyd.SEEDS])
        whole = (16 * asked_for[:, : 2 * lloyd.SEEDS].reshape(-1, lloyd.SEEDS, 2) >= 5).all(axis=2)
        least = np.where(whole, asked_for[:, 2 * lloyd.SEEDS :], np.inf).min()
        within = np.trace(groups.scatters, axis1=1, axis2=2).sum() / 16
        assert (groups.counts >= 5).all()
        assert within <= least + 1e-3


def test_too_few_rows_are_refused():
    X = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.raises(
        StartError, match="k-means found no 3 groups of at least 5 rows each in the rows of all sites"
    ):
        start_of(held_of(X, np.arange(12) % 2))
    assert start_of(held_of(X, None)).weights.shape == (3,)


@pytest.mark.parametrize("rest", range(20, 60))
def test_groups_of_just_min_count_rows_are_enough(rest):
    """Counts are sums of shares, which are cut: five rows must not become a little less than five."""
    X = np.concatenate([np.random.default_rng(0).normal(size=(rest, 2)), np.full((5, 2), 50.0)])
    assert start_of(held_of(X, np.arange(rest + 5) % 3), 2).weights.min() == pytest.approx(5 / (rest + 5))
