"""Rows that are too many for memory: read in chunks, anew for every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError

CHUNK_BYTES = 2**24  # of an array that is cut here


class Chunk(NamedTuple):
    """Some rows of one site."""

    values: NDArray  #: (b, p)
    labels: NDArray | None = None  #: (b,), component numbers, -1 where unlabelled
    weights: NDArray | None = None  #: (b,)


class Chunks:
    """One site's rows as a source that can be read again and again, a chunk at a time.

    Parameters
    ----------
    read : called without arguments, gives an iterator of chunks, the same each time: (b, p) arrays, or tuples of
        values, labels and weights (see `Chunk`)

    The rows are read once here, to count and check them.
    """

    def __init__(self, read: Callable[[], Iterable[Any]]) -> None:
        self._read = read
        self.n_rows = self.n_features = 0
        for values, labels, weights in self:
            self.n_features = self.n_features or values.shape[1]
            if values.shape[1] != self.n_features:
                raise DataError(f"a chunk has {values.shape[1]} columns, those before it {self.n_features}")
            for name, column in (("labels", labels), ("weights", weights)):
                if column is not None and column.shape != (len(values),):
                    raise DataError(f"a chunk of {len(values)} rows has {name} of shape {column.shape}")
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if bad.size:
                raise DataError(f"row {self.n_rows + int(bad[0]) + 1} has a missing or infinite value; leave it out")
            self.n_rows += len(values)
        if not self.n_rows:
            raise DataError("the source has no rows, or can be read only once: give a function that opens it anew")

    def __iter__(self) -> Iterator[Chunk]:
        for part in self._read():
            chunk = Chunk(*part) if isinstance(part, tuple) else Chunk(part)
            values = np.asarray(chunk.values, dtype=np.float64)
            if values.ndim != 2:
                raise DataError(f"a chunk must be a table of rows and columns; this one has shape {values.shape}")
            yield Chunk(values, *(None if column is None else np.asarray(column) for column in chunk[1:]))

    def __len__(self) -> int:
        return self.n_rows


def of_array(
    values: NDArray, labels: NDArray | None = None, weights: NDArray | None = None, rows: NDArray | None = None
) -> Chunks:
    """Chunks of an array that stays on disk (`numpy.load(..., mmap_mode="r")`): all rows, or those numbered."""
    numbers = len(values) if rows is None else len(rows)
    size = max(1, CHUNK_BYTES // (8 * values.shape[1]))

    def read() -> Iterator[Chunk]:
        for first in range(0, numbers, size):
            part = slice(first, min(first + size, numbers))
            at = part if rows is None else rows[part]
            columns = (None if column is None else column[at] for column in (labels, weights))
            yield Chunk(np.array(values[at]), *columns)

    return Chunks(read)
