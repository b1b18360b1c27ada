"""Tables on disk (CSV, Parquet) as arrays, one table for all sites or one for each."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from gaussip.arrays import NDArray
from gaussip.errors import DataError, NetworkError
from gaussip.files import whole
from gaussip.rows.checks import check_cells

NULLS = ["", "NA", "N/A", "NaN", "nan", "NULL", "null"]


class Columns(NamedTuple):
    """What a fit takes from a table."""

    X: pa.Table  #: (n, p), the features by name, complete
    sites: NDArray | None  #: (n,)
    labels: NDArray | None  #: (n,), None where missing
    weights: NDArray | None  #: (n,)


def read_table(path: str | os.PathLike[str], names: Sequence[str] = ()) -> pa.Table:
    """A CSV (.csv) or Parquet (.parquet, .pq) file.

    ``names`` are columns that hold names (sites, classes): in a CSV they are kept as they are written, so that 01
    and 1 stay apart.
    """
    file = Path(path)
    if not file.is_file():
        raise DataError(f"there is no file {file}")
    kind = table_kind(path)
    try:
        if kind == ".csv":
            as_written = {name: pa.string() for name in names}
            options = pa.csv.ConvertOptions(null_values=NULLS, strings_can_be_null=True, column_types=as_written)
            table = pa.csv.read_csv(file, convert_options=options)
        else:
            table = pa.parquet.read_table(file)
        columns = table.column_names
    except (UnicodeDecodeError, pa.ArrowException, OSError) as error:
        hint = "; a CSV is UTF-8 text with a header line and commas between columns" if kind == ".csv" else ""
        raise DataError(f"{file} cannot be read: {error}{hint}") from error
    if any(pa.types.is_binary(column.type) for column in table.columns) and kind == ".csv":
        raise DataError(f"{file} is not UTF-8 text; save it as UTF-8")
    if len(columns) == 1 and re.search("[;\t]", columns[0]):
        raise DataError(f"{file} has one column, {columns[0]!r}; separate columns by commas")
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise DataError(f"{file} has more than one column named {twice[0]!r}", column=twice[0])
    if table.num_rows == 0:
        raise DataError(f"{file} has no rows")
    return table


def write_table(path: str | os.PathLike[str], columns: Mapping[str, Any]) -> None:
    """Columns as a CSV or Parquet file, whole or not at all."""
    table = pa.table(dict(columns))
    write = pa.csv.write_csv if table_kind(path) == ".csv" else pa.parquet.write_table
    with whole(path) as partial:
        write(table, partial)


def read_sites(paths: Sequence[str | os.PathLike[str]], names: Sequence[str] = ()) -> tuple[pa.Table, NDArray | None]:
    """One table, or one for each site: then joined, with the site of each row named by its file."""
    tables = {Path(path).stem: read_table(path, names) for path in paths}
    if len(tables) < len(paths):
        raise DataError("two tables have the same file name; sites are named by their files, so names must differ")
    first, *others = tables.items()
    if not others:
        return first[1], None
    for name, table in others:
        lacks = [c for c in first[1].column_names if c not in table.column_names]
        extra = [c for c in table.column_names if c not in first[1].column_names]
        if lacks or extra:
            faults = [f"lacks {lacks}"] * bool(lacks) + [f"has also {extra}"] * bool(extra)
            raise DataError(
                f"the columns of site {name!r} differ from those of site {first[0]!r}: {' and '.join(faults)}",
                site=name,
                remedy="all sites need the same columns",
            )
    of_row = np.repeat(list(tables), [table.num_rows for table in tables.values()])
    same = [table.select(first[1].column_names) for table in tables.values()]
    try:
        return pa.concat_tables(same, promote_options="permissive"), of_row
    except pa.ArrowException as error:
        raise DataError(f"a column has another type at another site: {error}") from error


def pick(
    table: pa.Table,
    *,
    features: Sequence[str] | None = None,
    sites: str | None = None,
    labels: str | None = None,
    weights: str | None = None,
) -> Columns:
    """The columns of a fit; features are, if not named, all columns that are nothing else."""
    special = [name for name in (sites, labels, weights) if name is not None]
    chosen = list(features) if features else [c for c in table.column_names if c not in special]
    _refuse_unknown(table, [*special, *chosen])
    if not chosen:
        raise DataError("the table has no columns left for features")
    if len(set(chosen)) < len(chosen):
        raise DataError("a feature column is named twice")
    X = {name: _numbers(table, name, "correct it" if features else None) for name in chosen}
    check_cells(np.column_stack(list(X.values())), chosen)
    return Columns(
        X=pa.table(X),
        sites=None if sites is None else _names(table[sites])[0],
        labels=None if labels is None else _names(table[labels])[0],
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


def table_kind(path: str | os.PathLike[str]) -> str:
    """The ending of a table's file, lower case; refused where it is not that of a table."""
    kind = Path(path).suffix.lower()
    if kind not in (".csv", ".parquet", ".pq"):
        raise DataError(f"{path}: tables are .csv or .parquet files, not {kind or 'files without an ending'}")
    return kind


def _numbers(table: pa.Table, name: str, remedy: str | None = "correct it") -> NDArray:
    """A column of numbers; the remedy is for other columns, None where only who named the columns can know it."""
    column = table[name]
    if pa.types.is_temporal(column.type):
        text = f"column {name!r} holds dates or times, which are not numbers"
        raise DataError(text, column=name, remedy=remedy)
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


def _names(*columns: pa.ChunkedArray) -> list[NDArray]:
    """Columns of names; whole numbers where all of them are written as such (01 is not), None where missing."""
    cells = [[v if v is None or isinstance(v, (str, int, float)) else str(v) for v in c.to_pylist()] for c in columns]
    texts = [v for column in cells for v in column if isinstance(v, str)]
    for pattern in (r"-?(0|[1-9]\d{0,14})", r"-?(0|[1-9]\d{0,14})\.0"):  # as written, or as pandas writes them
        if texts and all(re.fullmatch(pattern, text) for text in texts):
            cells = [[int(v.split(".")[0]) if isinstance(v, str) else v for v in column] for column in cells]
            break
    return [np.array(column, dtype=object if None in column else None) for column in cells]
