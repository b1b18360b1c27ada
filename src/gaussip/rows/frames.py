"""Data frames of pandas and polars, and Arrow tables: their columns by name, whichever of these they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError
from gaussip.rows.checks import is_missing


class Given(NamedTuple):
    """What a fit is given."""

    X: Any
    y: Any
    sites: Any
    sample_weight: Any


def names_of(X: Any) -> list[Any] | None:
    """The names of a frame's columns; None where X is no frame."""
    if hasattr(X, "column_names"):  # Arrow's
        return list(X.column_names)
    return list(X.columns) if hasattr(X, "columns") and hasattr(X, "shape") else None


def by_column_name(X: Any, y: Any = None, sites: Any = None, sample_weight: Any = None) -> Given:
    """What a fit is given, with columns of the frame X in place of their names; these columns are not features."""
    given = Given(X, y, sites, sample_weight)
    named = {argument: name for argument, name in given._asdict().items() if isinstance(name, str)}
    if not named:
        return given
    columns = names_of(X)
    for argument, name in named.items():
        if columns is None:
            raise DataError(
                f"{argument}={name!r} names a column, and X has no columns with names", column=name,
                remedy="give a data frame as X, or a value for each row",
            )  # fmt: skip
        if name not in columns:
            text = f"there is no column {name!r}, which {argument} names"
            raise DataError(text, column=name, remedy=f"the columns are {', '.join(map(str, columns))}")
    features = [name for name in columns or () if name not in named.values()]
    if not features:
        raise DataError(f"no column is left for features beside {', '.join(named.values())}")
    return given._replace(X=selected(X, features), **{argument: X[name] for argument, name in named.items()})


def selected(X: Any, names: Sequence[Any]) -> Any:
    """Some columns of a frame, as a frame of the same kind."""
    return X[list(names)] if hasattr(X, "loc") else X.select(list(names))


def fitted_features(estimator: Any, X: Any) -> Any:
    """The features of a fitted estimator, where X is a frame that has them and other columns too."""
    names, fitted = names_of(X), getattr(estimator, "feature_names_in_", None)
    if names is None or fitted is None or len(names) <= len(fitted) or not set(fitted) <= set(names):
        return X
    return selected(X, list(fitted))


def validated(estimator: Any, X: Any, *, reset: bool) -> NDArray:
    """Rows as an array of numbers, checked as scikit-learn checks them; missing cells are NaN.

    ``reset`` is for a fit: the estimator then keeps the names and the number of the features.
    """
    from sklearn.utils.validation import validate_data

    if not reset:
        X = fitted_features(estimator, X)
    try:
        rows = validate_data(estimator, X, dtype=np.float64, reset=reset, ensure_all_finite=False)
    except (TypeError, ValueError):
        if reset or set(getattr(estimator, "feature_names_in_", ())) <= set(names_of(X) or ()):
            refuse_words(X)
        raise  # scikit-learn names features that X lacks
    return np.asarray(rows)


def as_numbers(X: Any) -> NDArray:
    """Rows as an array of numbers, column by column where X is a frame."""
    names = names_of(X)
    refuse_words(X)
    try:
        rows = np.asarray(X, float) if names is None else np.column_stack([np.asarray(X[n], float) for n in names])
    except (TypeError, ValueError) as error:
        raise DataError(f"X must be a table of numbers: {error}") from error
    if rows.ndim != 2:
        raise DataError(f"X must be a table of rows and features, not of shape {rows.shape}")
    return rows


def as_table(X: Any) -> tuple[NDArray, list[str] | None]:
    """Rows (n, p) of numbers, and the names of their columns, if they have names."""
    names = names_of(X)
    return as_numbers(X), None if names is None else [str(name) for name in names]


def refuse_words(X: Any) -> None:
    """Refuse the first column of a frame that does not hold numbers, by its name."""
    for name in names_of(X) or ():
        cells = np.asarray(X[name])
        dates = cells.dtype.kind in "mM"  # which would become numbers of their units
        try:
            np.asarray(X[name], dtype=float)
        except (TypeError, ValueError):
            wrong = [i for i, cell in enumerate(cells.tolist()) if dates or not _reads(cell)]
        else:
            wrong = [0] if dates else []
        if wrong:
            row, cell = wrong[0] + 1, str(cells[wrong[0]])
            column = f"if the column is y, sites or sample_weight say so (sites={name!r}), else leave it out"
            few = not dates and len(wrong) < len(cells) / 2
            raise DataError(
                f"column {name!r} holds {cell!r} in row {row} (counted from 1), which is not a number",
                column=str(name), row=row,
                remedy="correct it, or make it NaN if the cell is missing" if few else column,
            )  # fmt: skip


def _reads(cell: Any) -> bool:
    """Whether a cell is missing or reads as a number."""
    try:
        float(cell)
    except (TypeError, ValueError):
        return is_missing(cell) and not isinstance(cell, str)
    return True


def with_columns(X: Any, columns: Mapping[Any, NDArray]) -> Any:
    """A frame with other cells in some of its columns; rows keep their names and columns their order."""
    if hasattr(X, "with_columns"):  # polars
        return X.with_columns([type(X[name])(name, cells) for name, cells in columns.items()])
    if hasattr(X, "column_names"):  # Arrow
        for name, cells in columns.items():
            X = X.set_column(X.column_names.index(name), name, [cells])
        return X
    X = X.copy()
    for name, cells in columns.items():
        X[name] = cells
    return X


def as_given(estimator: Any, X: Any, cells: NDArray, *, only_features: bool = False) -> Any:
    """Cells (n, p) in place of the features of X: a frame where X is one, else the cells.

    Columns of X without a missing cell stay as they are, unless only features are wanted, without X's other columns.
    """
    if names_of(X) is None:
        return cells
    features = fitted_features(estimator, X)
    columns = dict(zip(names_of(features) or (), cells.T, strict=True))
    if only_features:
        return with_columns(features, columns)
    return with_columns(X, {n: v for n, v in columns.items() if np.isnan(np.asarray(X[n], dtype=float)).any()})
