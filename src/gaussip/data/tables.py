"""Tables on disk (CSV, Parquet) as arrays, one table for all sites or one for each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from gaussip.errors import DataError, NetworkError
from gaussip.validation import check_cells

NULLS = ["", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"]
AnyArray = np.ndarray[Any, Any]


class Columns(NamedTuple):
    """What a fit takes from a table."""

    X: pa.Table  #: (n, p), the features by name, complete
    sites: AnyArray | None  #: (n,)
    labels: AnyArray | None  #: (n,), None where missing
    weights: AnyArray | None  #: (n,)


def read_table(path: str | os.PathLike[str]) -> pa.Table:
    """A CSV (.csv) or Parquet (.parquet, .pq) file."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"there is no file {file}")
    kind = file.suffix.lower()
    if kind not in (".csv", ".parquet", ".pq"):
        raise DataError(f"{file}: tables are .csv or .parquet files, not {kind or 'files without an ending'}")
    try:
        if kind == ".csv":
            options = pa.csv.ConvertOptions(null_values=NULLS, strings_can_be_null=True)
            table = pa.csv.read_csv(file, convert_options=options)
        else:
            table = pa.parquet.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file} cannot be read: {error}") from error
    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        raise DataError(f"{file} has more than one column named {twice[0]!r}")
    if table.num_rows == 0:
        raise DataError(f"{file} has no rows")
    return table


def write_table(path: str | os.PathLike[str], columns: Mapping[str, Any]) -> None:
    """Columns as a CSV or Parquet file, whole or not at all."""
    file = Path(path)
    table = pa.table(dict(columns))
    partial = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        if file.suffix.lower() == ".csv":
            pa.csv.write_csv(table, partial)
        else:
            pa.parquet.write_table(table, partial)
        os.replace(partial, file)
    except OSError as error:
        raise DataError(f"cannot write {file}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def read_sites(paths: Sequence[str | os.PathLike[str]]) -> tuple[pa.Table, AnyArray | None]:
    """One table, or one for each site: then joined, with the site of each row named by its file."""
    tables = {Path(path).stem: read_table(path) for path in paths}
    if len(tables) < len(paths):
        raise DataError("two tables have the same file name; sites are named by their files, so names must differ")
    first, *others = tables.items()
    if not others:
        return first[1], None
    for name, table in others:
        lacks = [c for c in first[1].column_names if c not in table.column_names]
        extra = [c for c in table.column_names if c not in first[1].column_names]
        if lacks or extra:
            raise DataError(
                f"the columns of site {name!r} differ from those of site {first[0]!r}: "
                f"{f'lacks {lacks}' if lacks else ''}{' and ' if lacks and extra else ''}"
                f"{f'has also {extra}' if extra else ''}; all sites need the same columns"
            )
    names = np.repeat(list(tables), [table.num_rows for table in tables.values()])
    same = [table.select(first[1].column_names) for table in tables.values()]
    try:
        return pa.concat_tables(same, promote_options="permissive"), names
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
    unknown = [name for name in [*special, *chosen] if name not in table.column_names]
    if unknown:
        raise DataError(f"the table has no column {unknown[0]!r}; it has {', '.join(table.column_names)}")
    if not chosen:
        raise DataError("the table has no columns left for features")
    X = {name: _numbers(table, name) for name in chosen}
    check_cells(np.column_stack(list(X.values())), chosen)
    return Columns(
        X=pa.table(X),
        sites=None if sites is None else _values(table, sites),
        labels=None if labels is None else _values(table, labels),
        weights=None if weights is None else _numbers(table, weights),
    )


def read_network(path: str | os.PathLike[str], sites: Sequence[Any]) -> Any:
    """A directed graph from a table with columns ``sender`` and ``hearer`` (site names) and maybe ``weight``."""
    table = read_table(path)
    if not {"sender", "hearer"} <= set(table.column_names):
        raise NetworkError(f"{path}: a network's table has columns sender and hearer, and maybe weight")
    known = {str(site): site for site in sites}
    ends = [[known.get(str(v), str(v)) for v in table[end].to_pylist()] for end in ("sender", "hearer")]
    graph = nx.DiGraph()
    graph.add_nodes_from(sites)
    if "weight" in table.column_names:
        graph.add_weighted_edges_from(zip(*ends, _numbers(table, "weight").tolist(), strict=True))
    else:
        graph.add_edges_from(zip(*ends, strict=True))
    return graph


def _numbers(table: pa.Table, name: str) -> AnyArray:
    column = table[name]
    kind = column.type
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    if not any(fits(kind) for fits in numeric):
        raise DataError(f"column {name!r} holds {kind}, not numbers; name the feature columns with --features")
    return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=float)


def _values(table: pa.Table, name: str) -> AnyArray:
    values = table[name].to_pylist()
    return np.array(values) if None not in values else np.array(values, dtype=object)
