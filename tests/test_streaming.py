"""Rows on disk give the numbers of rows in memory, and memory does not grow with them."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from gaussip import NetworkGaussianMixture
from gaussip.errors import DataError, LabelError
from gaussip.kernels import REFERENCE
from gaussip.mixture.theta import broadcast
from gaussip.rows.chunks import Chunks
from gaussip.rows.moments import moments
from gaussip.rows.parquet import parquet_chunks
from gaussip.rows.rows import Rows
from hard_rows import normwise

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
NAMES = np.array(["Genf", "Bern", "Chur", "Biel", "Thun", "Zug"])


def model(**given):
    return NetworkGaussianMixture(3, eta=0.05, max_rounds=30, init_params="labels", random_state=0, **given)


def columns(fit):
    return fit.weights_, fit.means_, fit.covariances_


def same(one, other, rtol=1e-9):
    for part, wanted in zip(columns(one), columns(other), strict=True):
        np.testing.assert_allclose(part, wanted, rtol=rtol, atol=1e-12)
    assert one.sites_.tolist() == other.sites_.tolist()
    assert one.classes_.tolist() == other.classes_.tolist()
    np.testing.assert_allclose(one.history_["log_likelihood"], other.history_["log_likelihood"], rtol=1e-10)


@pytest.fixture(scope="module")
def weights(data):
    return np.linspace(0.5, 2, len(data.X))


@pytest.fixture(scope="module")
def in_memory(data, weights):
    return model().fit(data.X, data.labels, sites=NAMES[data.sites], sample_weight=weights)


def cut(*arrays, size=70):
    for first in range(0, len(arrays[0]), size):
        yield tuple(array[first : first + size] for array in arrays)


def test_a_memory_mapped_array(data, weights, in_memory, tmp_path):
    np.save(tmp_path / "rows.npy", data.X)
    X = np.load(tmp_path / "rows.npy", mmap_mode="r")
    same(model().fit(X, data.labels, sites=NAMES[data.sites], sample_weight=weights), in_memory)
    plain = NetworkGaussianMixture(3, max_rounds=5, random_state=0).fit(data.X, sites=data.sites)
    same(NetworkGaussianMixture(3, max_rounds=5, random_state=0).fit(X, sites=data.sites), plain)
    np.testing.assert_array_equal(in_memory.predict(X), in_memory.predict(data.X))


def test_functions_that_give_chunks(data, weights, in_memory):
    def site(m):
        mine = data.sites == m
        return Chunks(lambda: cut(data.X[mine], data.labels[mine], weights[mine]))

    same(model().fit({NAMES[m]: site(m) for m in range(6)}), in_memory)


def test_parquet_files(data, weights, in_memory, tmp_path):
    words = np.array(["mild", "none", "severe"])
    labels = [words[k] if k >= 0 else None for k in data.labels]
    table = pa.table(
        {"a": data.X[:, 0], "b": data.X[:, 1], "c": data.X[:, 2], "class": labels, "weight": weights,
         "hospital": NAMES[data.sites]}
    )  # fmt: skip
    pa.parquet.write_table(table, tmp_path / "all.parquet", row_group_size=100)
    sources = {
        name: parquet_chunks(
            tmp_path / "all.parquet", ["a", "b", "c"], label="class", weight="weight", where={"hospital": name}
        )
        for name in NAMES.tolist()
    }
    found = model().fit(sources)
    assert found.classes_.tolist() == words.tolist()
    for part, wanted in zip(columns(found), columns(in_memory), strict=True):
        np.testing.assert_allclose(part, wanted, rtol=1e-9, atol=1e-12)


def test_sites_in_memory_and_on_disk_together(data, tmp_path):
    np.save(tmp_path / "one.npy", data.X[data.sites == 1])
    parts = {m: data.X[data.sites == m] for m in range(6)} | {1: np.load(tmp_path / "one.npy", mmap_mode="r")}
    plain = NetworkGaussianMixture(3, max_rounds=20, random_state=0).fit(data.X, sites=data.sites)
    same(NetworkGaussianMixture(3, max_rounds=20, random_state=0).fit(parts), plain)


def test_one_site_in_chunks_is_plain_em(data):
    chunks = Chunks(lambda: (part for (part,) in cut(data.X)))
    mine = NetworkGaussianMixture(3, max_rounds=20, random_state=0).fit(chunks)
    same(mine, NetworkGaussianMixture(3, max_rounds=20, random_state=0).fit(data.X))


def test_moments_by_chunks_are_those_of_the_whole(data):
    theta = broadcast(data.truth, (1,))
    whole = moments(Rows.of_sites([data.X], [data.labels], None, 3), theta, 1e-3, REFERENCE)
    found = moments(Rows.of_sites([Chunks(lambda: cut(data.X, data.labels, size=33))], n_components=3), theta, 1e-3)
    assert normwise(found.sums, whole.sums) <= 1e-12
    np.testing.assert_allclose(found.log_likelihood, whole.log_likelihood, rtol=1e-12)


@pytest.mark.parametrize("kind", ["memory-mapped", "chunks", "parquet"])
def test_memory_does_not_grow_with_the_rows(kind, tmp_path):
    """Peak allocations of a process that fits few and many rows; pages of a mapped file are the system's."""
    program = f"""
import sys, tracemalloc, warnings
import numpy as np
warnings.simplefilter("ignore")
from gaussip import NetworkGaussianMixture
from gaussip.rows.chunks import Chunks
from gaussip.rows.parquet import parquet_chunks
kind, n = {kind!r}, int(sys.argv[1])
def cut(m, n):
    rng = np.random.default_rng(m)
    for _ in range(0, n, 20_000):
        yield rng.standard_normal((20_000, 6)) + 5 * (m % 2)
def source(m, n):
    if kind == "chunks":
        return Chunks(lambda: cut(m, n))
    path = sys.argv[2] + f"/{{m}}-{{n}}"
    if kind == "parquet":
        import pyarrow as pa, pyarrow.parquet
        names = list("abcdef")
        with pa.parquet.ParquetWriter(path, pa.schema([(c, pa.float64()) for c in names])) as writer:
            for part in cut(m, n):
                writer.write_table(pa.table(dict(zip(names, part.T))))
        return parquet_chunks(path, names)
    array = np.lib.format.open_memmap(path, mode="w+", dtype=float, shape=(n, 6))
    for i, part in enumerate(cut(m, n)):
        array[i * 20_000 : (i + 1) * 20_000] = part
    return np.load(path, mmap_mode="r")
def fit(n):
    NetworkGaussianMixture(2, max_rounds=2, random_state=0).fit({{m: source(m, n) for m in range(2)}})
fit(40_000)
tracemalloc.start()
fit(n)
print(tracemalloc.get_traced_memory()[1])
"""
    peaks = []
    for n in (800_000, 1_600_000):  # several chunks each
        done = subprocess.run(
            [sys.executable, "-c", program, str(n), str(tmp_path)], capture_output=True, text=True, timeout=300
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 5e6  # 2 x 38 MB more rows
    assert peaks[1] < 150e6


@pytest.mark.parametrize(
    ("X", "given", "error", "message"),
    [
        ({}, {}, DataError, "empty"),
        ({"a": np.zeros((9, 2)), "b": np.zeros((9, 3))}, {}, DataError, "different numbers of columns"),
        ({"a": np.zeros((9, 2))}, {"y": np.zeros(9)}, DataError, "leave y out"),
        ({"a": Chunks(lambda: iter([]))}, {}, DataError, "site 'a' has no rows"),
        ({"a": Chunks(lambda: [np.zeros(4)])}, {}, DataError, "table of rows and columns"),
        ({"a": Chunks(lambda: [np.array([["x", "y"]])])}, {}, DataError, "must hold numbers"),
        ({"a": Chunks(lambda: [(np.zeros((4, 2)), np.zeros(3))])}, {}, DataError, "labels of shape"),
        ({"a": Chunks(lambda: [np.zeros((4, 2)), np.zeros((4, 3))])}, {}, DataError, "has 3 columns"),
        ({"a": Chunks(lambda: [np.ones((4, 2)), np.full((4, 2), np.inf)])}, {}, DataError, "from row 5: 8 infinite"),
        ({"a": Chunks(lambda: [np.full((4, 2), np.nan)])}, {}, DataError, "site 'a': no cell of its rows is"),
        ({"a": Chunks(lambda: [(np.ones((4, 2)), None, -np.ones(4))])}, {}, DataError, "negative"),
        ({"a": Chunks(lambda: [(np.ones((4, 2)), None, np.zeros(4))])}, {}, DataError, "weight zero"),
        ({"a": Chunks(lambda: [(np.ones((4, 2)), np.arange(4))])}, {}, LabelError, "4 classes"),
        ({"a": np.ones((4, 2)), 1: np.ones((4, 2))}, {}, DataError, "mixes"),
        ({"age": [1, 2, 3]}, {}, DataError, "table of rows and columns"),
        ({"a": np.ones((4, 0))}, {}, DataError, "table of rows and columns"),
        ({"a": Chunks(lambda: [(np.ones((2, 2)), ["hi", 1])])}, {}, LabelError, "mixes"),
    ],
)  # fmt: skip
def test_bad_sources_are_refused(X, given, error, message):
    with pytest.raises(error, match=message):
        NetworkGaussianMixture(2).fit(X, **given)


def test_a_source_that_can_be_read_once_is_refused(data):
    once = iter([data.X])
    with pytest.raises(DataError, match="only once"):
        NetworkGaussianMixture(2).fit(Chunks(lambda: once))


def changing(first, later):
    """A source that gives other rows from the third pass on."""
    passes = iter([first, first, first] + [later] * 9)
    return {"a": Chunks(lambda: [next(passes)]), "b": np.random.default_rng(0).standard_normal((50, 2))}


def test_a_source_that_changes_is_refused():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((50, 2)), np.where(np.arange(50) < 10, 0, -1)
    with pytest.raises(DataError, match="rows must stay the same"):
        NetworkGaussianMixture(2, random_state=0).fit(changing((X, y), (X[:25], y[:25])))
    with pytest.raises(DataError, match="label 7 it had not before"):
        NetworkGaussianMixture(2, random_state=0).fit(changing((X, y), (X, np.where(y == 0, 7, y))))


def test_what_is_no_source_is_refused(data):
    with pytest.raises(DataError, match="a function that opens"):
        Chunks([data.X])
    with pytest.raises(DataError, match="use fit, then predict"):
        NetworkGaussianMixture(2).fit_predict({"a": data.X})


def test_chunks_of_which_only_some_have_labels(data):
    theta = broadcast(data.truth, (1,))
    labels = np.where(np.arange(len(data.X)) < 300, data.labels, -1)
    whole = moments(Rows.of_sites([data.X], [labels], None, 3), theta)
    parts = [(data.X[300:], None), (data.X[:300], labels[:300])]
    found = moments(Rows.of_sites([Chunks(lambda: parts)], n_components=3), theta)
    assert normwise(found.sums, whole.sums) <= 1e-12


def test_the_sample_for_a_start_is_fair():
    """Rows that come in turns, and sites of very different sizes."""
    n = 100_000
    alternating = np.where(np.arange(n) % 2, 4.0, -4.0)[:, None] + np.random.default_rng(0).standard_normal((n, 1))
    small = np.random.default_rng(1).normal(4.0, 1, (4000, 1))
    fit = NetworkGaussianMixture(2, max_rounds=1, random_state=0).fit({"a": alternating, "b": small})
    np.testing.assert_allclose(sorted(fit.means_[:, 0]), [-4, 4], atol=0.1)
    np.testing.assert_allclose(fit.weights_[fit.means_[:, 0].argsort()], [50 / 104, 54 / 104], atol=0.01)


def test_bad_parquet_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        parquet_chunks(tmp_path / "none.parquet", ["a"])
    (tmp_path / "text.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        parquet_chunks(tmp_path / "text.parquet", ["a"])
    pa.parquet.write_table(pa.table({"a": [1.0], "word": ["x"]}), tmp_path / "good.parquet")
    with pytest.raises(DataError, match="no column 'b'; it has 'a', 'word'"):
        parquet_chunks(tmp_path / "good.parquet", ["a", "b"])
    with pytest.raises(DataError, match="'word' is not a column of numbers"):
        NetworkGaussianMixture(1).fit({"s": parquet_chunks(tmp_path / "good.parquet", ["a", "word"])})
    with pytest.raises(DataError, match="at least one column"):
        parquet_chunks(tmp_path / "good.parquet", [])
    with pytest.raises(DataError, match="does `where` fit"):
        list(parquet_chunks(tmp_path / "good.parquet", ["a"], where={"word": 3}))


def test_few_labels_and_rare_features_of_incomplete_rows(tmp_path):
    """Labelled rows are in the sample that starts are found from; a feature without a row in it is refused."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 2))
    X[30_000:] += 4
    y = np.full(len(X), -1)
    y[rng.choice(30_000, 8, replace=False)] = 0
    y[30_000 + rng.choice(30_000, 8, replace=False)] = 1
    X[5, 1] = np.nan
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    found = NetworkGaussianMixture(2, init_params="labels", random_state=0).fit(mapped, y)
    wanted = NetworkGaussianMixture(2, init_params="labels", random_state=0).fit(X, y)
    np.testing.assert_allclose(found.means_, wanted.means_, atol=1e-6)
    rare = np.column_stack([X, np.where(np.arange(len(X)) == 7, 1.0, np.nan)])
    np.save(tmp_path / "rare.npy", rare)
    with pytest.raises(DataError, match="'column 2' is observed in so few rows that none is among the 20000"):
        NetworkGaussianMixture(2, random_state=1).fit(np.load(tmp_path / "rare.npy", mmap_mode="r"))
