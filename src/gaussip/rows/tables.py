"""Columns of tables as arrays: features, sites, labels and weights, of one table for all sites or one for each."""

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.compute

from gaussip.arrays import NDArray
from gaussip.errors import DataError, MissingCellsWarning, NetworkError, some
from gaussip.rows.checks import check_cells
from gaussip.rows.labels import EITHER
from gaussip.rows.missing_codes import NO_CODES, Codes
from gaussip.rows.table_files import read_table


class Columns(NamedTuple):
    """What a fit takes from a table."""

    X: pa.Table  #: (n, p), the features by name; missing cells are NaN
    sites: NDArray | None  #: (n,)
    labels: NDArray | None  #: (n,), None where missing, a frozenset where one of several classes is right
    weights: NDArray | None  #: (n,)


def read_sites(paths: Sequence[str | os.PathLike[str]], names: Sequence[str] = ()) -> tuple[pa.Table, NDArray | None]:
    """One table, or one for each site: then joined, with the site of each row named by its file.

    All cells of a column that a site's table lacks are missing there.
    """
    tables = {Path(path).stem: read_table(path, names) for path in paths}
    if len(tables) < len(paths):
        raise DataError("two tables have the same file name; sites are named by their files, so names must differ")
    if len(tables) == 1:
        return next(iter(tables.values())), None
    most = max(tables, key=lambda name: tables[name].num_columns)
    columns = tables[most].column_names
    for name, table in tables.items():
        lacks = [column for column in columns if column not in table.column_names]
        extra = [column for column in table.column_names if column not in columns]
        if extra or set(lacks) & set(names):
            faults = [f"lacks {lacks}"] * bool(lacks) + [f"has also {extra}"] * bool(extra)
            raise DataError(
                f"the columns of site {name!r} differ from those of site {most!r}: it {' and '.join(faults)}",
                site=name,
                remedy="write names alike at all sites; a feature may be left out where it was not measured",
            )
        if lacks:
            warnings.warn(
                f"the table of site {name!r} has no column {some(lacks)}: all its cells are missing there",
                MissingCellsWarning,
                stacklevel=2,
            )
    of_row = np.repeat(list(tables), [table.num_rows for table in tables.values()])
    try:
        joined = pa.concat_tables(tables.values(), promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"a column has another type at another site: {error}") from error
    return joined.select(columns), of_row


def pick(
    table: pa.Table,
    *,
    features: Sequence[str] | None = None,
    sites: str | None = None,
    labels: str | None = None,
    weights: str | None = None,
    codes: Codes = NO_CODES,
) -> Columns:
    """The columns of a fit; features are, if not named, all columns that are nothing else.

    ``codes`` stand for missing cells of features.
    """
    special = [name for name in (sites, labels, weights) if name is not None]
    chosen = list(features) if features else [c for c in table.column_names if c not in special]
    _refuse_unknown(table, [*special, *chosen])
    if not chosen:
        raise DataError("the table has no columns left for features")
    if len(set(chosen)) < len(chosen):
        raise DataError("a feature column is named twice")
    codes.refuse_unknown(chosen)
    remedy = "correct it, or name it as a code for missing cells" if features else None
    X = {name: codes.cleared(name, _numbers(table, name, remedy, codes.words(name))) for name in chosen}
    check_cells(np.column_stack(list(X.values())), chosen)
    return Columns(
        X=pa.table(X),
        sites=None if sites is None else _names(table[sites])[0],
        labels=None if labels is None else _labels(table[labels]),
        weights=None if weights is None else _numbers(table, weights),
    )


def listed(names: str) -> list[str]:
    """Names that stand with commas between them."""
    return [name.strip() for name in names.split(",") if name.strip()]


def without(table: pa.Table, names: str) -> pa.Table:
    """A table without some columns, whose names stand with commas between them."""
    chosen = listed(names)
    _refuse_unknown(table, chosen)
    return table.drop_columns(chosen)


def _refuse_unknown(table: pa.Table, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in table.column_names]
    if unknown:
        text = f"the table has no column {unknown[0]!r}"
        raise DataError(text, column=unknown[0], remedy=f"it has {', '.join(table.column_names)}")


def numeric_columns(table: pa.Table) -> list[str]:
    """The columns that hold numbers."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return [field.name for field in table.schema if any(kind(field.type) for kind in kinds)]


def read_network(path: str | os.PathLike[str], sites: Sequence[Any] | None = None) -> nx.DiGraph:
    """A directed graph from a table with columns ``sender`` and ``hearer`` and maybe ``weight``.

    Sites are those named, which the table writes in any way that reads the same; by default those in the table.
    """
    table = read_table(path, ["sender", "hearer"])
    if not {"sender", "hearer"} <= set(table.column_names):
        raise NetworkError(f"{path}: a network's table has columns sender and hearer, and maybe weight")
    senders, hearers = _names(table["sender"], table["hearer"])
    if None in senders or None in hearers:
        raise NetworkError(f"{path}: an edge has no sender or no hearer")
    known = {str(site): site for site in sites or ()}
    edges = [(known.get(str(q), q), known.get(str(m), m)) for q, m in zip(senders, hearers, strict=True)]
    if len(set(edges)) < len(edges):
        raise NetworkError(f"{path}: an edge stands there twice")
    weights = _numbers(table, "weight") if "weight" in table.column_names else np.ones(table.num_rows)
    graph = nx.DiGraph()
    graph.add_nodes_from(sites if sites is not None else sorted({end for edge in edges for end in edge}))
    graph.add_weighted_edges_from((q, m, float(w)) for (q, m), w in zip(edges, weights, strict=True))
    return graph


def _numbers(table: pa.Table, name: str, remedy: str | None = "correct it", missing: Sequence[str] = ()) -> NDArray:
    """A column of numbers; the remedy is for other columns, None where only who named the columns can know it.

    ``missing`` are words for missing cells.
    """
    column = table[name]
    if pa.types.is_temporal(column.type):
        text = f"column {name!r} holds dates or times, which are not numbers"
        raise DataError(text, column=name, remedy=remedy)
    if missing and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        words = pa.array(missing, type=column.type)
        column = pa.compute.if_else(pa.compute.is_in(column, value_set=words), pa.scalar(None, column.type), column)
    try:
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=float)
    except pa.ArrowException:
        cells = column.to_pylist()
        row = next((i for i, v in enumerate(cells) if v is not None and not _is_number(v)), 0)
        text = f"column {name!r} holds {cells[row]!r} in row {row + 1} (counted from 1), which is not a number"
        raise DataError(text, column=name, row=row + 1, remedy=remedy) from None


def _is_number(cell: Any) -> bool:
    try:
        pa.scalar(cell).cast(pa.float64(), safe=False)
    except pa.ArrowException:
        return False
    return True


def _labels(column: pa.ChunkedArray) -> NDArray:
    """A column of labels, of which some may name several classes."""
    cells = column.to_pylist()
    if not any(isinstance(cell, str) and EITHER in cell for cell in cells):
        return _names(column)[0]
    several = [[None] if cell is None else str(cell).split(EITHER) for cell in cells]
    names = iter(_names(pa.chunked_array([[name and name.strip() for few in several for name in few]]))[0].tolist())
    labels = np.empty(len(cells), dtype=object)
    for i, few in enumerate(several):
        mine = [next(names) for _ in few]
        labels[i] = mine[0] if len(mine) == 1 else frozenset(mine)
    return labels


def _names(*columns: pa.ChunkedArray) -> list[NDArray]:
    """Columns of names; whole numbers where all of them are written as such (01 is not), None where missing."""
    cells = [[v if v is None or isinstance(v, (str, int, float)) else str(v) for v in c.to_pylist()] for c in columns]
    texts = [v for column in cells for v in column if isinstance(v, str)]
    for pattern in (r"-?(0|[1-9]\d{0,14})", r"-?(0|[1-9]\d{0,14})\.0"):  # as written, or as pandas writes them
        if texts and all(re.fullmatch(pattern, text) for text in texts):
            cells = [[int(v.split(".")[0]) if isinstance(v, str) else v for v in column] for column in cells]
            break
    return [np.array(column, dtype=object if None in column else None) for column in cells]
