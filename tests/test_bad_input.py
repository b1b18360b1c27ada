"""What the estimator refuses, and in which words."""

import sys
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from gaussip import NetworkGaussianMixture
from gaussip.errors import (
    DataError,
    DeviceError,
    LabelError,
    NetworkError,
    SettingError,
    StartError,
)


def test_settings_are_checked_without_sites_too(data):
    for wrong, error in (({"algorithm": "sgd"}, SettingError), ({"network": "wheel"}, NetworkError)):
        with pytest.raises(error):
            NetworkGaussianMixture(3, **wrong).fit(data.X)


@pytest.mark.parametrize(
    ("settings", "fit", "error", "words"),
    [
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
        ({}, {"weights": "no site 2"}, DataError, "site 2: all rows have weight zero"),
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
        ({"device": "tpu"}, {}, DeviceError, "use 'cpu' or 'cuda'"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(data, settings, fit, error, words):
    X = data.X.copy()
    for cell, value in fit.get("cells", {}).items():
        X[cell] = value
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
    with pytest.raises(error, match=words):
        mixture.fit(X, y, sites=sites, sample_weight=w)
    assert not hasattr(mixture, "weights_")


NO_GPU = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))


@pytest.mark.parametrize(
    ("torch", "words"), [(None, r"needs PyTorch.*gaussip\[gpu\]"), (NO_GPU, "finds no CUDA GPU on this machine")]
)
def test_a_gpu_that_is_not_there(data, monkeypatch, torch, words):
    """Without PyTorch, and with a PyTorch that sees no GPU."""
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(DeviceError, match=words):
        NetworkGaussianMixture(3, device="cuda").fit(data.X, sites=data.sites)
