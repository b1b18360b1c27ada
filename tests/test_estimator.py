import logging

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import make
from gaussip.data.generate import Setting, draw
from gaussip.errors import (
    CollapseError,
    DataError,
    DeviceError,
    FileError,
    LabelError,
    ModelFileError,
    NetworkError,
    PooledTargetWarning,
    SettingError,
    StartError,
)
from gaussip.networks import mixing_weights
from gaussip.parameters import Theta
from gaussip.rows import Rows
from gaussip.simulation import simulate

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Unlabelled(NetworkGaussianMixture):
    """The estimator with its labels taken away, so that every check runs to its end."""

    def fit(self, X, y=None, *, sites=None, sample_weight=None):
        return super().fit(X, None, sites=sites, sample_weight=sample_weight)


# scikit-learn's checks hand class labels as y even to unsupervised estimators; this one then is semi-supervised, and
# refuses more classes than components. `Unlabelled` passes all of these.
HANDED_LABELS = """
check_all_zero_sample_weights_error check_dict_unchanged check_dont_overwrite_parameters check_dtype_object
check_estimators_dtypes check_estimators_fit_returns_self check_estimators_nan_inf check_estimators_overwrite_params
check_estimators_pickle check_f_contiguous_array_estimator check_fit2d_1feature check_fit2d_predict1d
check_fit_check_is_fitted check_fit_idempotent check_fit_score_takes_y check_methods_sample_order_invariance
check_methods_subset_invariance check_n_features_in check_n_features_in_after_fitting check_pipeline_consistency
check_positive_only_tag_during_fit check_readonly_memmap_input check_sample_weight_equivalence_on_dense_data
check_sample_weights_list check_sample_weights_not_an_array check_sample_weights_not_overwritten
check_sample_weights_pandas_series check_sample_weights_shape
"""


def exceptions(estimator):
    """Checks expected to fail, with the reason."""
    if type(estimator) is NetworkGaussianMixture:
        return dict.fromkeys(HANDED_LABELS.split(), "the check's labels have more classes than there are components")
    if estimator.n_components == 1:
        return {}
    why = "k-means draws its first centres from the rows: other draws from weighted rows than from repeated ones"
    return {"check_sample_weight_equivalence_on_dense_data": why}


@quiet
@parametrize_with_checks(
    [NetworkGaussianMixture(), Unlabelled(), Unlabelled(2, random_state=0)], expected_failed_checks=exceptions
)
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return draw(Setting(n_rows=1200, n_sites=6, n_features=3, delta=4, labelled=0.2), 1)


@pytest.fixture(scope="module")
def fitted(data):
    names = np.array(["Genf", "Bern", "Chur", "Biel", "Thun", "Zug"])[data.sites]
    mixture = NetworkGaussianMixture(3, eta=0.05, max_rounds=2000, init_params="labels", random_state=0)
    return mixture.fit(data.X, data.labels, sites=names)


def test_fitted_attributes(fitted, data):
    assert fitted.sites_.tolist() == ["Bern", "Biel", "Chur", "Genf", "Thun", "Zug"]
    assert fitted.site_means_.shape == (6, 3, 3)
    assert fitted.site_weights_.shape == (6, 3)
    assert fitted.site_covariances_.shape == (6, 3, 3, 3)
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.converged_
    assert fitted.n_rounds_ == len(fitted.history_["round"])
    assert set(fitted.history_) == {"round", "log_likelihood", "change", "disagreement", "bytes"}
    assert fitted.history_["change"][-1] <= 1e-6 < fitted.history_["change"][-2]
    assert fitted.history_["bytes"][-1] == fitted.n_rounds_ * 6 * 30 * 8  # q = 30 doubles, 6 messages a round
    np.testing.assert_allclose(fitted.means_, data.truth.means, atol=0.3)
    assert (fitted.predict(data.X) == data.classes).mean() > 0.98


def test_the_consensus_is_the_mass_weighted_average_in_psi(data):
    mixture = NetworkGaussianMixture(3, eta=0.1, max_rounds=20, tol=0, random_state=0, init_params="labels")
    with pytest.warns(ConvergenceWarning, match="not converged after 20 rounds"):
        mixture.fit(data.X[:1000], data.labels[:1000], sites=data.sites[:1000])
    share = np.bincount(data.sites[:1000]) / 1000
    alpha = share @ mixture.site_weights_
    beta = np.einsum("m,mk,mkj->kj", share, mixture.site_weights_, mixture.site_means_)
    np.testing.assert_allclose(mixture.weights_, alpha)
    np.testing.assert_allclose(mixture.means_, beta / alpha[:, None])


@quiet
def test_the_estimator_is_the_simulation(data, fitted):
    W = mixing_weights("circle", range(6))
    mixture = NetworkGaussianMixture(
        3, max_rounds=40, weights_init=data.truth.weights, means_init=data.truth.means,
        covariances_init=data.truth.covariances, reg_covar=0,
    ).fit(data.X, sites=data.sites)  # fmt: skip
    run = simulate(make("mnem", 0.01), data.truth, Rows.of_sites(data.by_site(data.X)), W, max_rounds=40)
    np.testing.assert_array_equal(mixture.site_covariances_, run.theta.covariances)


def test_change_does_not_depend_on_units_or_offsets(data):
    units, offset = np.array([1e3, 1e-2, 7.0]), np.array([-50.0, 1e3, 0])
    pairs = []
    for X in (data.X, data.X * units + offset):
        mixture = NetworkGaussianMixture(3, eta=0.1, reg_covar=0, tol=1e-4, init_params="labels")
        pairs.append(mixture.fit(X, data.labels, sites=data.sites))
    assert pairs[0].n_rounds_ == pairs[1].n_rounds_
    np.testing.assert_allclose(pairs[0].history_["change"], pairs[1].history_["change"], rtol=1e-4)
    np.testing.assert_allclose(pairs[0].history_["disagreement"], pairs[1].history_["disagreement"], rtol=1e-6)


def test_settings_are_checked_without_sites_too(data):
    for wrong, error in (({"algorithm": "sgd"}, SettingError), ({"network": "wheel"}, NetworkError)):
        with pytest.raises(error):
            NetworkGaussianMixture(3, **wrong).fit(data.X)


def test_a_data_frame_of_weights_is_taken_by_name(data):
    names = ["f", "b", "a", "d", "e", "c"]
    W = pd.DataFrame(np.roll(np.eye(6), 1, axis=1), index=names, columns=names)
    sites = np.array(sorted(names))[data.sites]
    settings = {"eta": 0.1, "init_params": "labels"}
    one = NetworkGaussianMixture(3, network=W, **settings).fit(data.X, data.labels, sites=sites)
    graph = nx.from_pandas_adjacency(W, create_using=nx.DiGraph).reverse()
    other = NetworkGaussianMixture(3, network=graph, **settings).fit(data.X, data.labels, sites=sites)
    np.testing.assert_array_equal(one.site_means_, other.site_means_)


def test_a_complete_start_needs_nothing_of_the_rows(data):
    few = [np.flatnonzero(data.sites == m)[:3] for m in range(6)]
    rows = np.concatenate(few)  # three rows a site: too few to share a centre
    start = {
        "weights_init": data.truth.weights, "means_init": data.truth.means, "covariances_init": data.truth.covariances
    }  # fmt: skip
    settings = {"max_rounds": 1, "tol": 1e9, "reg_covar": 0.1}
    NetworkGaussianMixture(3, **start, **settings).fit(data.X[rows], sites=data.sites[rows])
    with pytest.raises(StartError, match="0 distinct centres"):
        NetworkGaussianMixture(3, **settings).fit(data.X[rows], sites=data.sites[rows])


def test_without_sites_it_is_plain_em(data):
    mixture = NetworkGaussianMixture(3, random_state=0, network="star", algorithm="dem").fit(data.X)
    assert mixture.site_means_.shape == (1, 3, 3)
    assert len(mixture.sites_) == 1
    np.testing.assert_allclose(mixture.site_means_[0], mixture.means_)
    assert mixture.history_["bytes"][-1] == 0


def test_fewer_classes_than_components(data):
    y = np.where(data.labels == 2, -1, data.labels)
    mixture = NetworkGaussianMixture(3, eta=0.1, random_state=0).fit(data.X, y, sites=data.sites)
    assert mixture.classes_.tolist() == [0, 1]
    predicted = mixture.predict(data.X)  # component numbers; the first two are the classes
    for k in (0, 1):
        assert (predicted[data.classes == k] == k).mean() > 0.97


@pytest.mark.parametrize("kind", ["words", "missing words", "words and -1", "floats with NaN",
                                  "list of NumPy numbers", "pandas", "polars"])  # fmt: skip
def test_labels_of_every_kind(data, kind):
    words = np.array(["mild", "severe", "none"])[data.classes]
    known = data.labels >= 0
    y = {
        "words": np.where(known, words, None),
        "missing words": [w if k else float("nan") for w, k in zip(words, known, strict=True)],
        "floats with NaN": np.where(known, data.classes + 4.0, np.nan),
        "list of NumPy numbers": list(np.where(known, data.classes + 4, -1)),
        "words and -1": np.where(known, words, "-1"),
        "pandas": pd.Series(np.where(known, words, None), dtype="string"),
        "polars": pl.Series([w if k else None for w, k in zip(words.tolist(), known, strict=True)]),
    }[kind]
    mixture = NetworkGaussianMixture(3, eta=0.1, init_params="labels").fit(data.X, y, sites=data.sites)
    wanted = data.classes + 4 if kind in ("floats with NaN", "list of NumPy numbers") else words
    assert mixture.classes_.tolist() == sorted(set(wanted.tolist()))
    assert (mixture.predict(data.X) == wanted).mean() > 0.97


def test_frames_in_and_names_checked(data):
    columns = ["age", "dose", "ct"]
    y = data.labels
    one = NetworkGaussianMixture(3, eta=0.1, init_params="labels").fit(data.X, y, sites=data.sites)
    for frame in (pd.DataFrame(data.X, columns=columns), pl.DataFrame(data.X, schema=columns)):
        sites = type(frame["age"])(data.sites)
        other = clone(one).fit(frame, y, sites=sites)
        np.testing.assert_array_equal(one.means_, other.means_)
        assert other.feature_names_in_.tolist() == columns
        np.testing.assert_array_equal(other.predict(frame), one.predict(data.X))
    with pytest.raises(ValueError, match="feature names"):
        other.predict(pd.DataFrame(data.X, columns=["age", "dose", "dose2"]))


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.Graph, "matrix", "sparse"])
def test_networks_of_every_kind(data, kind):
    ring = nx.cycle_graph(6)
    W = nx.to_numpy_array(ring) / 2
    network = {"matrix": W, "sparse": sparse.csr_array(W)}.get(kind) if isinstance(kind, str) else kind(ring)
    settings = {"eta": 0.1, "init_params": "labels"}
    found = NetworkGaussianMixture(3, network=network, **settings).fit(data.X, data.labels, sites=data.sites)
    named = NetworkGaussianMixture(3, network="ring", **settings).fit(data.X, data.labels, sites=data.sites)
    np.testing.assert_array_equal(found.site_means_, named.site_means_)


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
        mixture = NetworkGaussianMixture(3, means_init=data.truth.means[order], max_rounds=1, tol=1e9, eta=1e-6)
        mixture.fit(data.X, sites=data.sites)
        np.testing.assert_allclose(mixture.weights_, data.truth.weights[order], atol=0.1)


@quiet
def test_more_starts_are_no_worse_and_seeds_repeat(data):
    def fit(n_init, seed):
        mixture = NetworkGaussianMixture(5, eta=0.2, n_init=n_init, random_state=seed, max_rounds=60, reg_covar=1e-2)
        return mixture.fit(data.X, sites=data.sites).history_["log_likelihood"][-1]

    assert fit(1, 3) == fit(1, 3)
    assert fit(4, 3) >= fit(1, 3)


@quiet
def test_one_start_that_holds_is_enough():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)), [[9.0, 9.0]] * 3])  # a start on the three equal rows collapses
    outcomes = []
    for seed in range(12):
        try:
            NetworkGaussianMixture(2, reg_covar=0, random_state=seed, max_rounds=300).fit(X)
            outcomes.append("held")
        except CollapseError:
            outcomes.append("collapsed")
    if "held" in outcomes and "collapsed" in outcomes:
        NetworkGaussianMixture(2, reg_covar=0, random_state=outcomes.index("collapsed"), n_init=20).fit(X)


@quiet
def test_save_and_load(tmp_path, fitted, data):
    path = tmp_path / "model.npz"
    fitted.save(path)
    again = NetworkGaussianMixture.load(path)
    assert again.get_params() == fitted.get_params()
    for name, value in vars(fitted).items():
        if name.endswith("_") and isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)
    np.testing.assert_array_equal(again.predict(data.X), fitted.predict(data.X))
    np.testing.assert_array_equal(again.history_["change"], fitted.history_["change"])
    graph = nx.relabel_nodes(nx.cycle_graph(6), dict(enumerate(fitted.sites_.tolist())))
    other = NetworkGaussianMixture(
        3, network=graph, means_init=data.truth.means, max_rounds=5, random_state=4
    ).fit(pd.DataFrame(data.X, columns=list("abc")), sites=fitted.sites_[data.sites])  # fmt: skip
    other.save(path)
    back = NetworkGaussianMixture.load(path)
    assert set(back.network.edges) == set(graph.to_directed().edges)
    assert back.feature_names_in_.tolist() == ["a", "b", "c"]
    back.fit(pd.DataFrame(data.X, columns=list("abc")), sites=fitted.sites_[data.sites])  # settings that fit again
    np.testing.assert_allclose(back.means_, other.means_)


def test_files_that_are_no_models(tmp_path, fitted):
    with pytest.raises(ModelFileError, match="there is no file"):
        NetworkGaussianMixture.load(tmp_path / "absent.npz")
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(3))
    for name in ("text.npz", "other.npz", "array.npy"):
        with pytest.raises(ModelFileError, match="not a gaussip model"):
            NetworkGaussianMixture.load(tmp_path / name)
    np.savez(tmp_path / "future.npz", description=np.array('{"format": 99}'))
    with pytest.raises(ModelFileError, match="format 99"):
        NetworkGaussianMixture.load(tmp_path / "future.npz")
    np.savez(tmp_path / "pickled.npz", description=np.array([{"format": 1}], dtype=object))
    with pytest.raises(ModelFileError, match="not a gaussip model"):
        NetworkGaussianMixture.load(tmp_path / "pickled.npz")
    np.savez(tmp_path / "empty.npz", description=np.array('{"format": 1}'))
    with pytest.raises(ModelFileError, match="not a gaussip model"):
        NetworkGaussianMixture.load(tmp_path / "empty.npz")
    with pytest.raises(FileError, match="there is no folder"):
        fitted.save(tmp_path / "no folder" / "model.npz")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "array.npy", "empty.npz", "future.npz", "other.npz", "pickled.npz", "text.npz",
    ]  # fmt: skip


@quiet
@pytest.mark.parametrize(
    "network", ["circle(2)", np.roll(np.eye(6), 1, axis=1), sparse.csr_array(np.roll(np.eye(6), 1, 1))]
)
def test_every_setting_survives_a_file(tmp_path, data, network):
    mixture = NetworkGaussianMixture(
        3, network=network, eta=np.float32(0.25), means_init=data.truth.means, weights_init=[0.5, 0.25, 0.25],
        max_rounds=np.int64(3), random_state=np.random.RandomState(0),
    ).fit(data.X, sites=data.sites)  # fmt: skip
    mixture.save(tmp_path / "m.npz")
    back = NetworkGaussianMixture.load(tmp_path / "m.npz")
    assert back.eta == 0.25
    assert back.max_rounds == 3
    assert back.random_state is None
    np.testing.assert_array_equal(back.means_init, data.truth.means)
    dense = network.toarray() if sparse.issparse(network) else network
    np.testing.assert_array_equal(back.network, dense)


@quiet
def test_a_loaded_model_fits_again_as_it_did(tmp_path, data):
    names = ["f", "b", "a", "d", "e", "c"]
    sites = np.array(sorted(names))[data.sites]
    multi = nx.MultiDiGraph([(names[i], names[(i + 1) % 6]) for i in range(6)] + [("f", "b"), ("b", "f")])
    weighted = nx.DiGraph([(np.int64(i), np.int64((i + 1) % 6)) for i in range(6)])
    weighted.add_edge(np.int64(0), np.int64(2), weight=np.int64(3))
    frame = pd.DataFrame(np.roll(np.eye(6), 1, axis=1), index=names, columns=names)
    for network in (multi, weighted, frame):
        settings = {"eta": 0.1, "init_params": "labels", "max_rounds": 20, "weighting": "equal"}
        mixture = NetworkGaussianMixture(3, network=network, **settings).fit(data.X, data.labels, sites=sites)
        mixture.save(tmp_path / "m.npz")
        again = NetworkGaussianMixture.load(tmp_path / "m.npz").fit(data.X, data.labels, sites=sites)
        np.testing.assert_array_equal(again.site_means_, mixture.site_means_)


def test_classes_a_file_cannot_hold_are_refused_by_name(tmp_path, data):
    from datetime import date

    days = np.array([date(2026, 1, 1 + k) for k in range(3)], dtype=object)[data.classes]
    mixture = NetworkGaussianMixture(3, eta=0.2, init_params="labels").fit(data.X, days, sites=data.sites)
    assert mixture.predict(data.X[:1])[0] == days[0]
    with pytest.raises(ModelFileError, match="classes_ holds values of type date"):
        mixture.save(tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())


def test_samples_come_from_the_mixture(fitted):
    X, y = fitted.sample(20_000)
    assert X.shape == (20_000, 3)
    np.testing.assert_allclose(np.bincount(y) / 20_000, fitted.weights_, atol=0.02)
    np.testing.assert_allclose(X[y == 0].mean(axis=0), fitted.means_[0], atol=0.1)
    with pytest.raises(SettingError):
        fitted.sample(0)


def test_verbose_tells_on_standard_error(data, capsys):
    before = list(logging.getLogger("gaussip").handlers)
    NetworkGaussianMixture(3, eta=0.2, verbose=10, init_params="labels").fit(data.X, data.labels, sites=data.sites)
    told = capsys.readouterr()
    assert told.out == ""
    assert "round 10: log-likelihood" in told.err
    assert logging.getLogger("gaussip").handlers == before


def broken(data, **changes):
    X = data.X.copy()
    for (i, j), value in changes.get("cells", {}).items():
        X[i, j] = value
    return X


@pytest.mark.parametrize(
    ("settings", "fit", "error", "words"),
    [
        ({}, {"cells": {(3, 1): np.nan, (4, 1): np.nan, (5, 2): np.nan}}, DataError,
         "3 missing values .*: 2 in 'column 1', 1 in 'column 2'"),
        ({}, {"cells": {(3, 0): np.inf}}, DataError, "1 infinite values .* in 'column 0'"),
        ({"n_components": 5000}, {}, DataError, "n_components=5000 is more than"),
        ({}, {"y": "five"}, LabelError, "5 classes .* but n_components=3"),
        ({"network": pd.DataFrame(np.eye(6))[[5, 4, 3, 2, 1]]}, {}, NetworkError, "not named as the sites"),
        ({}, {"y": "huge"}, LabelError, "beyond 9007199254740992"),
        ({}, {"weights": "words"}, DataError, "sample_weight must be numbers"),
        ({}, {"y": "mixed"}, LabelError, "mixes numbers and words"),
        ({}, {"y": "short"}, LabelError, r"y has shape \(3,\)"),
        ({}, {"y": "fractions"}, LabelError, "not whole numbers"),
        ({}, {"sites": "short"}, DataError, "sites has 3 entries for 1200 rows"),
        ({}, {"weights": "negative"}, DataError, "negative"),
        ({}, {"weights": "short"}, DataError, "sample_weight has shape"),
        ({}, {"weights": "no site 2"}, DataError, "site 2: all its rows have weight zero"),
        ({"network": "star(3)"}, {}, NetworkError, "star"),
        ({"network": nx.path_graph(9)}, {}, NetworkError, "no rows at node '6', '7', '8'"),
        ({"network": np.full((6, 6), 0.2)}, {}, NetworkError, "sum to 1.2, not to one"),
        ({"network": None}, {}, NetworkError, "not NoneType"),
        ({"network": {"a": "b"}}, {}, NetworkError, "a network is a name, a networkx graph or a weight matrix"),
        ({"network": pd.DataFrame(np.eye(6), index=list("abcdef"))}, {}, NetworkError, "not named as the sites"),
        ({"algorithm": "sgd"}, {}, SettingError, "there is no algorithm 'sgd'"),
        ({"eta": 0.0}, {}, SettingError, "eta"),
        ({"n_components": 0}, {}, SettingError, "n_components"),
        ({"n_components": 2.5}, {}, SettingError, "n_components"),
        ({"max_rounds": 0}, {}, SettingError, "max_rounds"),
        ({"tol": -1}, {}, SettingError, "tol"),
        ({"reg_covar": "x"}, {}, SettingError, "reg_covar"),
        ({"weighting": "patients"}, {}, SettingError, "weighting"),
        ({"init_params": "best"}, {}, SettingError, "init_params"),
        ({"init_params": "labels"}, {}, StartError, "needs labels"),
        ({"weights_init": [0.5, 0.2, 0.2]}, {}, StartError, "sum to one"),
        ({"device": "cuda"}, {}, DeviceError, "device='cuda'"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(data, settings, fit, error, words):
    X = broken(data, **fit)
    weights = np.ones(1200)
    weights[data.sites == 2] = 0
    y = {
        "five": np.arange(1200) % 5,
        "mixed": [1, "1"] * 600,
        "huge": [2**53 + 1, 2**53 + 2] * 600,
        "short": [0, 1, 2],
        "fractions": np.arange(1200) / 7,
    }.get(fit.get("y"))
    w = {"negative": -np.ones(1200), "words": ["x"] * 1200, "short": np.ones(3), "no site 2": weights}.get(
        fit.get("weights")
    )
    sites = [1, 2, 3] if fit.get("sites") else data.sites
    mixture = NetworkGaussianMixture(**{"n_components": 3, "random_state": 0, **settings})
    if error is DeviceError:
        torch = pytest.importorskip("torch", reason="without PyTorch see test_device_without_torch")
        if torch.cuda.is_available():
            pytest.skip("this machine has a GPU")
    with pytest.raises(error, match=words):
        mixture.fit(X, y, sites=sites, sample_weight=w)
    assert not hasattr(mixture, "weights_")


def test_device_without_torch(data, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DeviceError, match=r"needs PyTorch.*gaussip\[gpu\]"):
        NetworkGaussianMixture(3, device="cuda").fit(data.X, sites=data.sites)


def test_collapse_says_where_when_and_what_to_try(data):
    start = {"weights_init": [0.3, 0.3, 0.4], "covariances_init": np.stack([np.eye(3)] * 3)}
    far = data.truth.means.copy()
    far[1] += 1e3
    with pytest.raises(CollapseError, match=r"component 1 collapsed at site 0 in round \d+: .*Try fewer") as caught:
        NetworkGaussianMixture(3, algorithm="nnem", means_init=far, **start).fit(data.X, sites=data.sites)
    assert caught.value.component == 1
    assert caught.value.round == 1
    singular = np.repeat(data.X[:, :1], 3, axis=1)  # three times the same column, no ridge
    with pytest.raises(CollapseError, match="not positive definite"):
        NetworkGaussianMixture(2, reg_covar=0, random_state=0).fit(singular)


@quiet
def test_rows_weighting_warns_through_the_estimator(data):
    with pytest.warns(PooledTargetWarning, match=r"\d\.\d\d times at site"):
        NetworkGaussianMixture(3, network="fixed-degree(2)", max_rounds=2, random_state=0).fit(
            data.X, sites=data.sites
        )


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_the_component_at_fault_is_named_whatever_the_scales(scale):
    rng = np.random.default_rng(0)
    X = np.column_stack([scale * (rng.normal(size=400) + np.repeat([-10, 10], 200)), np.ones(400)])
    start = Theta(
        np.full(2, 0.5), np.array([[-10 * scale, 1], [10 * scale, 1]]), np.stack([np.diag([scale**2, 1.0])] * 2)
    )  # fmt: skip
    rows = Rows.of_sites(np.split(X, 4))
    with pytest.raises(CollapseError, match="component 1 collapsed at site 0 in round 1: its weight vanished"):
        simulate(make("nnem", 1), start, rows, mixing_weights("circle", range(4)), max_rounds=3, reg_covar=1e-6)


@pytest.mark.parametrize("algorithm", ["nnem", "ngd"])
def test_the_site_at_fault_is_named_in_the_round_it_happened(algorithm):
    """Site 3 alone is at fault, and hears and is heard by others."""
    rng = np.random.default_rng(0)
    values = [np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(8, 1, (50, 2))]) for _ in range(5)]
    values[3] = values[3][:50] * 0.1 if algorithm == "nnem" else values[3] * 1e-3  # no second group; too narrow
    start = Theta(np.full(2, 0.5), np.array([[0.0, 0], [8, 8]]), np.stack([np.eye(2)] * 2))
    W = mixing_weights("circle", range(5))
    with pytest.raises(CollapseError) as caught:
        simulate(make(algorithm, 1.0), start, Rows.of_sites(values), W, max_rounds=3)
    assert caught.value.site == 3
    assert caught.value.round == 1


def test_a_replicate_s_collapse_leaves_the_others_alone(data):
    rows = Rows.of_sites(data.by_site(data.X))
    bad = data.truth._replace(covariances=data.truth.covariances * np.array([-0.1, 1, 1])[:, None, None])
    start = Theta(*(np.stack(parts)[:, None] for parts in zip(data.truth, bad, strict=True)))
    W = mixing_weights("circle", range(6))
    both = simulate(make("mnem", 0.1), start, Rows.stack([rows, rows]), W, max_rounds=5, record_collapse=True)
    alone = simulate(make("mnem", 0.1), data.truth, rows, W, max_rounds=5)
    assert both.collapsed[0] == 0
    assert both.collapsed[1] == 1
    assert "component 0" in str(both.collapse)
    np.testing.assert_array_equal(both.theta.means[0], alone.theta.means)


def test_the_last_estimate_is_checked_too(data):
    narrow = np.stack([np.eye(3) * 0.05] * 3)  # far too narrow: one gradient step overshoots
    start = data.truth._replace(covariances=narrow)
    rows = Rows.of_sites(data.by_site(data.X))
    with pytest.raises(CollapseError, match=r"in round 1: .*not positive definite"):
        simulate(make("ngd", 1.0), start, rows, mixing_weights("circle", range(6)), max_rounds=1)
