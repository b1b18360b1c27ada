"""Feature tables: features that a network made of images, with each row's site and label."""

import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from gaussip.arrays import NDArray
from gaussip.errors import DataError, some
from gaussip.rows.checks import is_missing, is_unlabelled
from gaussip.rows.table_files import read_table, write_table
from gaussip.studies.storage import write_arrays

WORDS = ("site", "label", "image", "split")  # every other column of a table is a feature
SPLITS = ("train", "test")


class FeatureTable(NamedTuple):
    """Rows of features with everything that is known of them."""

    features: NDArray  #: (n, p), in the file's float type
    label: NDArray  #: (n,) words, empty where unknown
    site: NDArray  #: (n,) words
    image: NDArray | None = None  #: (n,) names
    split: NDArray | None = None  #: (n,) train or test


def read_features(path: str | os.PathLike[str]) -> FeatureTable:
    """The feature table of a file.

    An .npz file has arrays ``features``, ``label`` and ``site``, and maybe ``image`` and ``split``; a .parquet or
    .csv file has such columns, and all others are features.
    """
    return _checked(path, *(_from_npz(path) if Path(path).suffix.lower() == ".npz" else _from_table(path)))


def write_features(path: str | os.PathLike[str], table: FeatureTable) -> None:
    """Write a feature table: .npz in its own float type, .parquet in float32 with columns f0001, f0002, ..."""
    kind = Path(path).suffix.lower()
    words = {name: np.asarray(getattr(table, name), dtype=str) for name in WORDS if getattr(table, name) is not None}
    if kind == ".npz":
        write_arrays(Path(path), {"features": table.features, **words})
    elif kind == ".parquet":
        columns = np.asarray(table.features, dtype=np.float32).T
        write_table(path, {**words, **{f"f{j:04d}": column for j, column in enumerate(columns, start=1)}})
    else:
        raise DataError(f"{path}: feature tables are written as .npz or .parquet, not {kind or 'without an ending'}")


def _from_npz(path: str | os.PathLike[str]) -> tuple[NDArray, Mapping[str, Sequence[Any]]]:
    """The features, and the columns of words, of an .npz file."""
    if not Path(path).is_file():
        raise DataError(f"there is no file {path}")
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not an .npz file")
        with np.load(path, allow_pickle=False) as stored:
            lacks = [name for name in ("features", "label", "site") if name not in stored.files]
            if lacks:
                raise DataError(f"{path} lacks the arrays {some(lacks)}; it has {some(stored.files) or 'none'}")
            arrays = {name: stored[name] for name in ("features", *WORDS) if name in stored.files}
    except (OSError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, DataError):
            raise
        hint = "; save words as np.array(words, dtype=str)" if "pickle" in str(error) else ""
        raise DataError(f"{path} cannot be read: {error}{hint}") from error
    features = arrays.pop("features")
    if features.ndim != 2 or features.dtype.kind not in "fiu":
        raise DataError(
            f"{path}: features are {features.dtype} {features.shape}; they must be numbers (rows, features)"
        )
    for name, values in arrays.items():
        if values.dtype.kind == "S":
            raise DataError(f"{path}: {name} holds bytes; save words as np.array(words, dtype=str)")
        if values.shape != (len(features),):
            raise DataError(f"{path}: {name} has shape {values.shape}; {len(features)} rows need ({len(features)},)")
    return features, {name: values.tolist() for name, values in arrays.items()}


def _from_table(path: str | os.PathLike[str]) -> tuple[NDArray, Mapping[str, Sequence[Any]]]:
    """The features, and the columns of words, of a CSV or Parquet file."""
    table = read_table(path, WORDS)
    lacks = [name for name in ("label", "site") if name not in table.column_names]
    if lacks:
        raise DataError(f"{path} lacks the columns {some(lacks)}; it has {some(table.column_names)}")
    names = [name for name in table.column_names if name not in WORDS]
    for name in names:
        kind = table[name].type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
            raise DataError(
                f"{path}: column {name!r} holds {kind}, not numbers; every column but {some(WORDS)} is one"
            )
    features = np.column_stack([table[name].to_numpy() for name in names]) if names else np.empty((table.num_rows, 0))
    return features, {name: table[name].to_pylist() for name in WORDS if name in table.column_names}


def _checked(path: str | os.PathLike[str], features: NDArray, words: Mapping[str, Sequence[Any]]) -> FeatureTable:
    """A feature table that can be used, or an error."""
    if 0 in features.shape:
        raise DataError(f"{path} has {features.shape[0]} rows of {features.shape[1]} features; it needs some of both")
    if features.dtype.kind != "f":
        features = features.astype(float)
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if len(bad):
        j = int(np.flatnonzero(~np.isfinite(features[bad[0]]))[0])
        more = f", and {len(bad) - 1} more rows have such features" if len(bad) > 1 else ""
        raise DataError(
            f"{path}: feature {j + 1} of row {bad[0] + 1} (counted from 1) is {features[bad[0], j]}{more}; drop "
            "those rows or fill them in"
        )
    nowhere = [row for row, name in enumerate(words["site"], start=1) if is_missing(name)]
    if nowhere:
        raise DataError(f"{path}: row {some(nowhere)} (counted from 1) has no site")
    for row, name in enumerate(words.get("split", ()), start=1):
        if name not in SPLITS:
            raise DataError(f"{path}: split is {name!r} in row {row} (counted from 1); it must be train or test")
    label = np.array(["" if is_unlabelled(name) else str(name) for name in words["label"]])
    others = {name: np.array(list(map(str, words[name]))) for name in ("site", "image", "split") if name in words}
    return FeatureTable(features, label, **others)
