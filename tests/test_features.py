"""Feature tables on disk, and the stand-in that is made by code."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

from command import gaussip
from gaussip.errors import DataError, SettingError
from gaussip.studies.features.table import FeatureTable, read_features, write_features
from gaussip.studies.xray.standin import CELLS, FEWEST, stand_in

X = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
WORDS = {
    "label": np.array(["sick", "", "well", "sick"]),
    "site": np.array(["Bern", "01", "Bern", "1"]),
    "image": np.array(["a", "b", "c", "d"]),
    "split": np.array(["train", "test", "test", "train"]),
}


def assert_same(result, wanted):
    for mine, theirs in zip(result, wanted, strict=True):
        if theirs is None:
            assert mine is None
        else:
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype or mine.dtype.kind == theirs.dtype.kind == "U"


@pytest.mark.parametrize("kind", ["npz", "parquet"])
@pytest.mark.parametrize("optional", [True, False])
def test_round_trip(tmp_path, kind, optional):
    table = FeatureTable(X, **WORDS) if optional else FeatureTable(X, WORDS["label"], WORDS["site"])
    write_features(tmp_path / f"t.{kind}", table)
    assert_same(read_features(tmp_path / f"t.{kind}"), table)


def test_the_float_type_is_kept(tmp_path):
    path = tmp_path / "half.npz"
    write_features(path, FeatureTable(X.astype(np.float16), **WORDS))
    assert read_features(path).features.dtype == np.float16
    np.savez(path, features=X.astype(int), label=[0, 1, -1, 0], site=[1, 1, 2, 2])
    result = read_features(path)
    assert result.features.dtype == float
    assert result.label.tolist() == ["0", "1", "", "0"]
    assert result.site.tolist() == ["1", "1", "2", "2"]


def test_csv(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("site,age,label,dose\n01,1,sick,0.5\n1,2,,1.5\n")
    result = read_features(path)
    assert result.features.tolist() == [[1, 0.5], [2, 1.5]]
    assert result.label.tolist() == ["sick", ""]
    assert result.site.tolist() == ["01", "1"]
    assert result.image is result.split is None


def bad(row, value):
    features = X.copy()
    features[row, 1] = value
    return features


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": X, "label": WORDS["label"]}, "lacks the arrays 'site'; it has 'features', 'label'"),
        ({"x": X}, "lacks the arrays 'features', 'label', 'site'"),
        ({"features": X, **WORDS, "site": WORDS["site"][:3]}, r"site has shape \(3,\); 4 rows need \(4,\)"),
        ({"features": X, **WORDS, "image": WORDS["image"][:2]}, r"image has shape \(2,\)"),
        ({"features": X[0], **WORDS}, r"features are float32 \(3,\)"),
        ({"features": X.astype(str), **WORDS}, "must be numbers"),
        ({"features": bad(2, np.nan), **WORDS}, "feature 2 of row 3 .counted from 1. is nan"),
        ({"features": bad(1, np.inf), **WORDS}, "feature 2 of row 2 .counted from 1. is inf"),
        ({"features": X, **WORDS, "split": ["train", "dev", "test", "test"]}, "split is 'dev' in row 2"),
        ({"features": X, **WORDS, "site": ["Bern", "", "Bern", "1"]}, "row 2 .counted from 1. has no site"),
        ({"features": X[:0], "label": np.empty(0, str), "site": np.empty(0, str)}, "has 0 rows of 3 features"),
        ({"features": X[:, :0], **WORDS}, "has 4 rows of 0 features"),
    ],
)
def test_refused_arrays(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read_features(tmp_path / "bad.npz")


def test_no_pickle_is_opened(tmp_path):
    np.savez(tmp_path / "bad.npz", features=X, **{**WORDS, "label": WORDS["label"].astype(object)})
    with pytest.raises(DataError, match="save words as np"):
        read_features(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"site": ["a", "b"], "x": [1.0, 2.0]}, "lacks the columns 'label'; it has 'site', 'x'"),
        ({"x": [1.0, 2.0]}, "lacks the columns 'label', 'site'"),
        ({"site": ["a", "b"], "label": ["s", "w"], "x": ["tall", "small"]}, "column 'x' holds string, not numbers"),
        ({"site": ["a", "b"], "label": ["s", "w"], "x": [1.0, None]}, "feature 1 of row 2 .counted from 1. is nan"),
        ({"site": ["a", None], "label": ["s", "w"], "x": [1.0, 2.0]}, "row 2 .counted from 1. has no site"),
        ({"site": ["a", "b"], "label": ["s", "w"], "split": ["train", None], "x": [1, 2]}, "split is None in row 2"),
        ({"site": ["a", "b"], "label": ["s", "w"]}, "has 2 rows of 0 features"),
    ],
)
def test_refused_columns(tmp_path, columns, message):
    pa.parquet.write_table(pa.table(columns), tmp_path / "bad.parquet")
    with pytest.raises(DataError, match=message):
        read_features(tmp_path / "bad.parquet")


def test_refused_files(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(DataError, match=r"text\.npz cannot be read: it is not an \.npz file"):
        read_features(tmp_path / "text.npz")
    for name in ("none.npz", "none.csv"):
        with pytest.raises(DataError, match=f"there is no file .*{name}"):
            read_features(tmp_path / name)
    with pytest.raises(DataError, match=r"\.npz or \.parquet, not \.txt"):
        write_features(tmp_path / "t.txt", FeatureTable(X, **WORDS))


def test_the_stand_in_has_the_database_s_cells():
    full = stand_in(21165, features=6)
    assert Counter(zip(full.site.tolist(), full.label.tolist(), strict=True)) == CELLS
    small = Counter(zip(*(words.tolist() for words in stand_in()[2:0:-1]), strict=True))
    assert small.total() == 2000
    assert min(small.values()) == FEWEST
    largest = [cell for cell, count in CELLS.items() if count > 1000]
    for cell in largest:
        assert small[cell] / 2000 == pytest.approx(CELLS[cell] / 21165, abs=0.002)


def test_the_stand_in_is_like_pooled_features():
    table = stand_in(seed=1)
    assert table.features.dtype == np.float32
    assert table.features.min() >= 0
    shares = PCA().fit(table.features).explained_variance_ratio_.cumsum()
    assert shares[5] > 0.85  # what the classes differ in comes first
    scores = PCA(6).fit_transform(table.features)
    first, second = scores[::2], scores[1::2]
    accuracy = QuadraticDiscriminantAnalysis().fit(first, table.label[::2]).score(second, table.label[1::2])
    assert 0.8 < accuracy < 0.98


def test_the_stand_in_comes_from_its_seed():
    assert_same(stand_in(300, 8, seed=4), stand_in(300, 8, seed=4))
    assert not np.array_equal(stand_in(300, 8, seed=4).features, stand_in(300, 8, seed=5).features)
    for rows, features in ((100, 60), (2000, 5)):
        with pytest.raises(SettingError, match=f"{rows} rows of {features} features are too few"):
            stand_in(rows, features)


def test_the_command(tmp_path):
    path = tmp_path / "s.npz"
    done = gaussip("xray", "stand-in", path, "--rows", "200", "--seed", "3")
    assert done.stdout.startswith("200 rows of 128 features")
    assert_same(read_features(path), stand_in(200, seed=3))
    assert "--force" in gaussip("xray", "stand-in", path).stderr
    assert "--rows is for tables" in gaussip("xray", "stand-in", tmp_path / "images", "--rows", "200").stderr
    assert "a table, .npz or .parquet, or a folder" in gaussip("xray", "stand-in", tmp_path / "s.csv").stderr
