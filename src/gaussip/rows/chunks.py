"""Rows that do not fit into memory: read in chunks, again for every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray, slices
from gaussip.errors import DataError
from gaussip.rows.cells import observed_rows
from gaussip.rows.checks import as_column

CHUNK_BYTES = 2**24  # of a chunk of an array or a file


class Chunk(NamedTuple):
    """Some rows of one site."""

    values: NDArray  #: (b, p)
    labels: NDArray | None = None  #: (b,)
    weights: NDArray | None = None  #: (b,)


class Chunks:
    """One site's rows as a source that can be read repeatedly, a chunk at a time.

    Parameters
    ----------
    read : called without arguments, returns an iterator over the same chunks each time: (b, p) arrays, or tuples
        of values, labels and row weights, (b,) each or None
    """

    def __init__(self, read: Callable[[], Iterable[Any]]) -> None:
        if not callable(read):
            raise DataError(f"Chunks needs a function that opens the rows for each pass, not a {type(read).__name__}")
        self._read = read

    def __iter__(self) -> Iterator[Chunk]:
        for part in self._read():
            values, labels, weights = Chunk(*part) if isinstance(part, tuple) else Chunk(part)
            try:
                values = np.asarray(values, dtype=np.float64)
                weights = None if weights is None else np.asarray(weights, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise DataError(f"a chunk must hold numbers: {error}") from error
            if values.ndim != 2:
                raise DataError(f"a chunk must be a table of rows and columns; this one has shape {values.shape}")
            labels = None if labels is None else as_column(labels)
            for name, column in (("labels", labels), ("weights", weights)):
                if column is not None and column.shape != (len(values),):
                    raise DataError(f"a chunk of {len(values)} rows has {name} of shape {column.shape}")
            yield Chunk(values, labels, weights)

    def prepared(self, encode: Callable[[NDArray], NDArray]) -> Chunks:
        """The rows of which a cell is observed, with other labels."""

        def read() -> Iterator[Chunk]:
            for chunk in self:
                there = observed_rows(chunk.values)
                if not there.all():
                    labels, weights = (None if part is None else part[there] for part in chunk[1:])
                    chunk = Chunk(chunk.values[there], labels, weights)
                yield chunk if chunk.labels is None else chunk._replace(labels=encode(chunk.labels))

        return Chunks(read)


def of_array(
    values: NDArray, labels: NDArray | None = None, weights: NDArray | None = None, rows: NDArray | None = None
) -> Chunks:
    """Chunks of an array that stays on disk (`numpy.load(..., mmap_mode="r")`): all rows, or those numbered."""
    if values.ndim != 2 or not values.shape[1]:
        raise DataError(f"rows must be a table of rows and columns; this array has shape {values.shape}")
    count = len(values) if rows is None else len(rows)
    size = max(1, CHUNK_BYTES // (8 * values.shape[1]))

    def read() -> Iterator[Chunk]:
        for part in slices(count, size):
            at = part if rows is None else rows[part]
            columns = (None if column is None else column[at] for column in (labels, weights))
            yield Chunk(np.array(values[at]), *columns)

    return Chunks(read)
