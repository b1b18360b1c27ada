"""Parquet files read row group by row group."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset

from gaussip.arrays import NDArray
from gaussip.errors import DataError, some
from gaussip.rows.chunks import CHUNK_BYTES, Chunk, Chunks


def parquet_chunks(
    path: str | os.PathLike[str],
    features: Sequence[str],
    *,
    label: str | None = None,
    weight: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> Chunks:
    """One site's rows in a Parquet file, or a folder of files, that stays on disk.

    Parameters
    ----------
    features : names of the columns to fit
    label, weight : names of the columns with labels (empty where unlabelled) and row weights
    where : only rows with these values, for example ``{"hospital": "Bern"}``; row groups without any are not read
    """
    try:
        table = pa.dataset.dataset(os.fspath(path), format="parquet")
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{os.fspath(path)} cannot be read as Parquet: {error}") from error
    if not features:
        raise DataError("name at least one column in features")
    extra = [name for name in (label, weight) if name is not None]
    missing = [name for name in (*features, *extra, *(where or {})) if name not in table.schema.names]
    if missing:
        raise DataError(f"{os.fspath(path)} has no column {some(missing)}; it has {some(table.schema.names, 12)}")
    chosen = None
    for name, value in (where or {}).items():
        condition = pa.dataset.field(name) == value
        chosen = condition if chosen is None else chosen & condition
    size = max(1, CHUNK_BYTES // (8 * max(1, len(features))))

    def read() -> Iterator[Chunk]:
        columns = list(dict.fromkeys([*features, *extra]))
        for batch in _batches(table, path, columns=columns, filter=chosen, batch_size=size):
            if batch.num_rows:
                values = np.stack([_floats(batch, name) for name in features], axis=1)
                labels = None if label is None else batch.column(label).to_numpy(zero_copy_only=False)
                yield Chunk(values, labels, None if weight is None else _floats(batch, weight))

    return Chunks(read)


def _batches(table: Any, path: str | os.PathLike[str], **wanted: Any) -> Iterator[pa.RecordBatch]:
    """The rows batch by batch, with Arrow's errors turned into DataError."""
    try:
        yield from table.to_batches(**wanted, batch_readahead=1, fragment_readahead=1)
    except pa.ArrowException as error:
        raise DataError(f"{os.fspath(path)} cannot be read; does `where` fit its columns? {error}") from error


def _floats(batch: pa.RecordBatch, name: str) -> NDArray:
    """A column as floats, NaN where empty."""
    try:
        return np.asarray(batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowException as error:
        raise DataError(f"column {name!r} is not a column of numbers: {error}") from error
