"""The estimator."""

import logging
import re
from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import make
from gaussip.errors import (
    PooledTargetWarning,
    SettingError,
)
from gaussip.networks import mixing_weights
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_fitted_attributes(fitted, data):
    assert fitted.sites_.tolist() == ["Bern", "Biel", "Chur", "Genf", "Thun", "Zug"]
    assert fitted.site_means_.shape == (6, 3, 3)
    assert fitted.site_weights_.shape == (6, 3)
    assert fitted.site_covariances_.shape == (6, 3, 3, 3)
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.converged_
    assert fitted.n_rounds_ == fitted.history_["round"][-1]
    wanted = {"round", "log_likelihood", "change", "disagreement", "step", "restarts", "exchanges", "bytes"}
    assert set(fitted.history_) == wanted
    assert fitted.origin_ == "simulation"
    assert fitted.history_["change"][-1] <= 1e-6 < fitted.history_["change"][1]
    assert fitted.sum_plan_ == "flood, 3 exchanges a sum"
    keys, groups, facts, classes, start, rows = 1, 1, 3, 1, 1, 1  # sums of three exchanges each; rounds have one each
    assert fitted.history_["exchanges"].tolist() == [
        3 * (keys + groups + facts + classes + start + rows + number) for number in range(1, fitted.n_rounds_ + 1)
    ]
    one = fitted.history_["bytes"][-1] - fitted.history_["bytes"][-2]
    assert one == 12 * 5 * 8 * (30 + 3 + 1 + 12)  # over 12 links five parts each, with a check and a receipt
    np.testing.assert_allclose(fitted.means_, data.truth.means, atol=0.3)
    assert (fitted.predict(data.X) == data.classes).mean() > 0.98


def test_the_consensus_is_the_mass_weighted_average_in_psi(data):
    mixture = NetworkGaussianMixture(
        3, algorithm="mnem", eta=0.1, max_rounds=20, tol=0, random_state=0, init_params="labels"
    )
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
        covariances_init=data.truth.covariances, reg_covar=0, algorithm="mnem", network="circle",
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
    np.testing.assert_allclose(pairs[0].history_["change"], pairs[1].history_["change"], rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(
        pairs[0].history_["disagreement"], pairs[1].history_["disagreement"], rtol=1e-6, atol=1e-9
    )


def test_a_data_frame_of_weights_is_taken_by_name(data):
    names = ["f", "b", "a", "d", "e", "c"]
    W = pd.DataFrame(np.roll(np.eye(6), 1, axis=1), index=names, columns=names)
    sites = np.array(sorted(names))[data.sites]
    settings = {"algorithm": "mnem", "eta": 0.1, "init_params": "labels"}
    one = NetworkGaussianMixture(3, network=W, **settings).fit(data.X, data.labels, sites=sites)
    graph = nx.from_pandas_adjacency(W, create_using=nx.DiGraph).reverse()
    other = NetworkGaussianMixture(3, network=graph, **settings).fit(data.X, data.labels, sites=sites)
    np.testing.assert_array_equal(one.site_means_, other.site_means_)


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
    settings = {"algorithm": "mnem", "eta": 0.1, "init_params": "labels"}
    found = NetworkGaussianMixture(3, network=network, **settings).fit(data.X, data.labels, sites=data.sites)
    named = NetworkGaussianMixture(3, network="ring", **settings).fit(data.X, data.labels, sites=data.sites)
    np.testing.assert_array_equal(found.site_means_, named.site_means_)


def test_samples_come_from_the_mixture(fitted):
    X, y = fitted.sample(20_000)
    assert X.shape == (20_000, 3)
    np.testing.assert_allclose(np.bincount(y) / 20_000, fitted.weights_, atol=0.02)
    np.testing.assert_allclose(X[y == 0].mean(axis=0), fitted.means_[0], atol=0.1)
    with pytest.raises(SettingError):
        fitted.sample(0)


def test_verbose_tells_on_standard_error(data, capsys):
    before = list(logging.getLogger("gaussip").handlers)
    mixture = NetworkGaussianMixture(3, algorithm="mnem", eta=0.2, verbose=10, init_params="labels")
    mixture.fit(data.X, data.labels, sites=data.sites)
    told = capsys.readouterr()
    assert told.out == ""
    rounds = [int(number) for number in re.findall(r"round (\d+): log-likelihood", told.err)]
    assert len(rounds) >= 3
    assert all(1 <= after // 10 - before // 10 <= 2 for before, after in pairwise(rounds))
    assert logging.getLogger("gaussip").handlers == before


@quiet
def test_rows_weighting_warns_through_the_estimator(data):
    with pytest.warns(PooledTargetWarning, match=r"\d\.\d\d times at site"):
        NetworkGaussianMixture(
            3, algorithm="mnem", network="fixed-degree(2)", max_rounds=2, random_state=0
        ).fit(data.X, sites=data.sites)  # fmt: skip
