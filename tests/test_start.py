"""Starts that sites find together, held against scikit-learn's k-means and NumPy's moments of the pooled rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from gaussip import NetworkGaussianMixture
from gaussip.errors import DisagreementError, LabelError, StartError
from gaussip.exchange.questions import answered
from gaussip.mixture.density import responsibilities
from gaussip.mixture.theta import Theta, pack, reorder
from gaussip.mixture.units import Unit
from gaussip.rows.problem import prepare
from gaussip.starts import lloyd
from gaussip.starts.agreed import confirmed
from gaussip.starts.facts import ask_classes, ask_facts
from gaussip.starts.given import Regularised, class_order, found
from gaussip.starts.mixtures import checked
from gaussip.studies.simulation_model import Setting, draw


@pytest.fixture(scope="module")
def sorted_data():
    return draw(Setting(n_rows=3000, n_sites=8, delta=4, labelled=0.2), 1)


def held_of(X, sites, labels=None, weights=None, K=3):
    return prepare(X, labels, sites, weights, n_components=K, network="complete").held


def start_of(held, K=3, kind="kmeans", seed=0, min_count=5):
    return found(held, K, kind, [seed], Regularised(0.0, 0.0, min_count))[0]


def asked(computation, held, rounded=lambda total: total):
    """What a computation returns, and its questions: the sites' parts and the total."""
    questions, ask = [], next(computation)
    try:
        while True:
            parts = ask.part(held)
            total = rounded(ask.code.decode(ask.code.encode(parts, held.n_sites).sum(axis=0)))
            questions.append((parts, total))
            ask = computation.send(total)
    except StopIteration as end:
        return end.value, questions


def apart(theta, other):
    return max(np.abs(mine - theirs).max() for mine, theirs in zip(theta, other, strict=True))


@pytest.mark.parametrize("weighted", [False, True])
def test_facts_are_those_of_the_pooled_rows(sorted_data, weighted):
    """Far from zero, in unlike units, with a constant feature."""
    X = np.column_stack([sorted_data.X * np.geomspace(1e-3, 1e3, 6) + 1e5, np.full(3000, 0.1)])
    v = np.random.default_rng(0).uniform(0.5, 2, 3000) if weighted else np.ones(3000)
    held = held_of(X, sorted_data.sites, sorted_data.labels, v if weighted else None)
    facts = answered(ask_facts(7, labelled=True), held, 8)
    mean = np.average(X, axis=0, weights=v)
    variance = np.average((X - mean) ** 2, axis=0, weights=v)
    np.testing.assert_allclose(facts.mean, mean, rtol=1e-14)
    np.testing.assert_allclose(facts.variance[:6], variance[:6], rtol=1e-6)
    np.testing.assert_allclose(facts.spread, [*np.sqrt(variance[:6]), 1.0], rtol=1e-6)
    assert facts.rows == facts.mass == pytest.approx(v.sum())
    by_class = np.bincount(sorted_data.labels + 1, v)[1:]
    np.testing.assert_allclose(facts.class_counts, by_class)
    few = answered(ask_facts(7, labelled=False, located=False), held, 8)
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
    facts = answered(ask_facts(3, labelled=False), held, 5)
    Z, size = facts.unit.standard_rows(data.X), lloyd.SEEDS * n_groups
    _, questions = asked(lloyd.ask_groups(facts, n_groups, 4, 5), held)
    told = np.stack([total for _, total in questions if total.size == size + lloyd.SEEDS])
    counts, ours = 1500 * told[:, :size].reshape(-1, lloyd.SEEDS, n_groups), told[:, size:]
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
    facts = answered(ask_facts(2, labelled=False), held, 4)
    theirs = KMeans(8, n_init=10, random_state=0).fit(facts.unit.standard_rows(X)).inertia_
    for seed in range(5):
        (groups,) = answered(lloyd.ask_groups(facts, 8, seed, 5), held, 4)
        assert np.trace(groups.scatters, axis1=1, axis2=2).sum() < 1.1 * theirs


def test_groups_are_the_moments_of_their_rows(sorted_data):
    held = held_of(sorted_data.X, sorted_data.sites)
    facts = answered(ask_facts(6, labelled=False), held, 8)
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
    facts = answered(ask_facts(2, labelled=False), held, 4)
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
    facts = answered(ask_facts(2, labelled=False), held, 4)
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
            told = np.abs(parts.reshape(4, runs, n_groups, -1)).max(axis=(0, 3)) > 0
            assert (rows[told] >= min_count).all()
            rest = np.where(told, 0, rows).sum(axis=1)  # all know the sum of all rows, so of these together too
            assert ((rest == 0) | (rest >= min_count)).all()
            few += int((~told).sum())
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
        facts = answered(ask_facts(2, labelled=False), held, 2)
        (groups,), questions = asked(lloyd.ask_groups(facts, 2, seed, 5), held)
        told = np.stack([total for _, total in questions if total.size == 3 * lloyd.SEEDS])
        whole = (16 * told[:, : 2 * lloyd.SEEDS].reshape(-1, lloyd.SEEDS, 2) >= 5).all(axis=2)
        least = np.where(whole, told[:, 2 * lloyd.SEEDS :], np.inf).min()
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


def test_from_labels_is_the_labelled_rows_moments(sorted_data):
    data = sorted_data
    held = held_of(data.X * 1e3 + 1e6, data.sites, data.labels)
    facts = answered(ask_facts(6, labelled=True), held, 8)
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


@pytest.mark.parametrize("rest", range(20, 60))
def test_groups_of_just_min_count_rows_are_enough(rest):
    """Counts are sums of shares, which are cut: five rows must not become a little less than five."""
    X = np.concatenate([np.random.default_rng(0).normal(size=(rest, 2)), np.full((5, 2), 50.0)])
    assert start_of(held_of(X, np.arange(rest + 5) % 3), 2).weights.min() == pytest.approx(5 / (rest + 5))


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
