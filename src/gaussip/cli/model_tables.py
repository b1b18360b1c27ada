"""The rows that a command gives to a fitted model: the model's features, found in a table by their names."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gaussip.cli.options import Named
from gaussip.errors import DataError, MissingCellsWarning, some

if TYPE_CHECKING:
    import pyarrow as pa

    from gaussip.arrays import NDArray
    from gaussip.rows.tables import Columns


class ModelRows(NamedTuple):
    """A table as a model takes it."""

    X: Any  #: with names where the model has names
    columns: Columns
    others: dict[str, pa.ChunkedArray]  #: the table's columns that are not features, by name
    named_by_file: NDArray | None  #: the site of each row, where each site has a table


def read_for(mixture: Any, tables: Sequence[Path], named: Named) -> ModelRows:
    """The model's features in one table, or one for each site, and what else there is."""
    from gaussip.inspection import warn_of_columns
    from gaussip.rows.missing_codes import Codes
    from gaussip.rows.tables import pick, read_sites

    features = [str(name) for name in getattr(mixture, "feature_names_in_", [])]
    given, named_by_file = read_sites(tables, [name for name in (named.sites, named.labels) if name is not None])
    if features and all(name.startswith("pc") and name[2:].isdigit() for name in features):
        _refuse_unreduced(given, features, tables[0])
    given = _completed(given, features, tables[0])
    columns = pick(
        given, features=features or None, sites=named.sites, labels=named.labels, weights=named.weights,
        codes=Codes.of_text(named.na_values),
    )  # fmt: skip
    if columns.X.num_columns != mixture.n_features_in_:
        raise DataError(f"the model has {mixture.n_features_in_} features, the table {columns.X.num_columns} columns")
    X = columns.X if features else np.column_stack([column.to_numpy() for column in columns.X.columns])
    warn_of_columns(columns.X, columns.sites, constants=False)
    others = {name: given[name] for name in given.column_names if name not in columns.X.column_names}
    return ModelRows(X, columns, others, named_by_file)


def _completed(given: pa.Table, features: list[str], table: Path) -> pa.Table:
    """The table with empty columns for features that it lacks, and a warning of them."""
    import pyarrow as pa

    lacks = [name for name in features if name not in given.column_names]
    if lacks and len(lacks) < len(features):
        warnings.warn(
            f"{table} has no column {some(lacks)}, which the model has: all its cells are taken for missing",
            MissingCellsWarning,
            stacklevel=2,
        )
        for name in lacks:
            given = given.append_column(name, pa.nulls(given.num_rows, pa.float64()))
    return given


def _refuse_unreduced(given: pa.Table, features: list[str], table: Path) -> None:
    if not set(features) & set(given.column_names):
        raise DataError(
            f"the model is of {len(features)} components, which {table} does not have: reduce its rows first, with "
            f"gaussip reduce {table} --basis BASIS --out FILE"
        )
