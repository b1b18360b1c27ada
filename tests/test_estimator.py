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
    """The estimator without labels: scikit-learn's checks hand class labels even to unsupervised estimators.

    With those as ``y`` the true estimator is semi-supervised, and rightly refuses more classes than components or
    finds no row left for a component without a class.
    """

    def fit(self, X, y=None, *, sites=None, sample_weight=None):
        return super().fit(X, None, sites=sites, sample_weight=sample_weight)


def exceptions(estimator):
    """Checks expected to fail, with the reason."""
    if estimator.n_components == 1:
        return {}
    why = "k-means draws its first centres from the rows: other draws from weighted rows than from repeated ones"
    return {"check_sample_weight_equivalence_on_dense_data": why}


@quiet
@parametrize_with_checks([Unlabelled(), Unlabelled(2, random_state=0)], expected_failed_checks=exceptions)
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


@pytest.mark.parametrize("kind", ["words", "missing words", "floats with NaN", "pandas", "polars"])
def test_labels_of_every_kind(data, kind):
    words = np.array(["mild", "severe", "none"])[data.classes]
    known = data.labels >= 0
    y = {
        "words": np.where(known, words, None),
        "missing words": [w if k else float("nan") for w, k in zip(words, known, strict=True)],
        "floats with NaN": np.where(known, data.classes + 4.0, np.nan),
        "pandas": pd.Series(np.where(known, words, None), dtype="string"),
        "polars": pl.Series([w if k else None for w, k in zip(words.tolist(), known, strict=True)]),
    }[kind]
    mixture = NetworkGaussianMixture(3, eta=0.1, init_params="labels").fit(data.X, y, sites=data.sites)
    wanted = data.classes + 4 if kind == "floats with NaN" else words
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


@quiet
def test_warm_start_goes_on(data):
    once = NetworkGaussianMixture(3, algorithm="em", max_rounds=40, tol=0, init_params="labels")
    once.fit(data.X, data.labels, sites=data.sites)
    twice = NetworkGaussianMixture(3, algorithm="em", max_rounds=20, tol=0, init_params="labels", warm_start=True)
    twice.fit(data.X, data.labels, sites=data.sites).fit(data.X, data.labels, sites=data.sites)
    np.testing.assert_allclose(once.means_, twice.means_, rtol=1e-12)


@quiet
def test_more_starts_are_no_worse_and_seeds_repeat(data):
    def fit(n_init, seed):
        mixture = NetworkGaussianMixture(5, eta=0.2, n_init=n_init, random_state=seed, max_rounds=60, reg_covar=1e-2)
        return mixture.fit(data.X, sites=data.sites).history_["log_likelihood"][-1]

    assert fit(1, 3) == fit(1, 3)
    assert fit(4, 3) >= fit(1, 3)


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
    np.testing.assert_allclose(back.network, nx.to_numpy_array(nx.cycle_graph(6)) / 2)
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
    with pytest.raises(ModelFileError, match="cannot write"):
        fitted.save(tmp_path / "no folder" / "model.npz")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "array.npy", "future.npz", "other.npz", "pickled.npz", "text.npz",
    ]  # fmt: skip


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
        ({}, {"y": "short"}, LabelError, r"y has shape \(3,\)"),
        ({}, {"y": "fractions"}, LabelError, "not whole numbers"),
        ({}, {"sites": "short"}, DataError, "sites has 3 entries for 1200 rows"),
        ({}, {"weights": "negative"}, DataError, "negative"),
        ({}, {"weights": "short"}, DataError, "sample_weight has shape"),
        ({}, {"weights": "no site 2"}, DataError, "site 2: all its rows have weight zero"),
        ({"network": "star(3)"}, {}, NetworkError, "star"),
        ({"network": nx.path_graph(9)}, {}, NetworkError, "no site for '6', '7', '8'"),
        ({"network": np.full((6, 6), 0.2)}, {}, NetworkError, "sum to 1.2, not to one"),
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
    y = {"five": np.arange(1200) % 5, "short": [0, 1, 2], "fractions": np.arange(1200) / 7}.get(fit.get("y"))
    w = {"negative": -np.ones(1200), "short": np.ones(3), "no site 2": weights}.get(fit.get("weights"))
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
    assert caught.value.round >= 1
    singular = np.repeat(data.X[:, :1], 3, axis=1)  # three times the same column, no ridge
    with pytest.raises(CollapseError, match="not positive definite"):
        NetworkGaussianMixture(2, reg_covar=0, random_state=0).fit(singular)


@quiet
def test_rows_weighting_warns_through_the_estimator(data):
    with pytest.warns(PooledTargetWarning, match=r"\d\.\d\d times at site"):
        NetworkGaussianMixture(3, network="fixed-degree(2)", max_rounds=2, random_state=0).fit(
            data.X, sites=data.sites
        )


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
    with pytest.raises(CollapseError, match="in round 1: .*not positive definite"):
        simulate(make("ngd", 1.0), start, rows, mixing_weights("circle", range(6)), max_rounds=1)
