"""Models on disk."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from gaussip import NetworkGaussianMixture
from gaussip.errors import (
    FileError,
    ModelFileError,
)

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


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
    np.savez(tmp_path / "pickled.npz", description=np.array([{"format": 2}], dtype=object))
    with pytest.raises(ModelFileError, match="not a gaussip model"):
        NetworkGaussianMixture.load(tmp_path / "pickled.npz")
    np.savez(tmp_path / "empty.npz", description=np.array('{"format": 2}'))
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
        3, algorithm="mnem", network=network, eta=np.float32(0.25), means_init=data.truth.means,
        weights_init=[0.5, 0.25, 0.25], max_rounds=np.int64(3), random_state=np.random.RandomState(0),
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
        settings = {"algorithm": "mnem", "eta": 0.1, "init_params": "labels", "max_rounds": 20, "weighting": "equal"}
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
