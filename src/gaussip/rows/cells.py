"""Missing cells: what is observed of rows, and what a fit cannot do without."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from gaussip.arrays import NDArray, slices
from gaussip.errors import DataError, MissingCellsWarning
from gaussip.rows.checks import CHECK_ROWS, ROUNDED, column_name, enough


def observed_rows(X: NDArray) -> NDArray:
    """Whether each row has a cell that is not missing, (n,)."""
    parts = [~np.isnan(X[rows]).all(axis=1) for rows in slices(len(X), CHECK_ROWS)]
    return np.concatenate(parts) if parts else np.ones(0, dtype=bool)


def warn_of_empty_rows(n_empty: int, first: int, where: str = "") -> None:
    """Say how many rows have no cell, and that they count nothing; ``first`` is counted from 0."""
    if n_empty:
        rows = "1 row has" if n_empty == 1 else f"{n_empty} rows have"
        warnings.warn(
            f"{rows} no observed feature{where} and {'counts' if n_empty == 1 else 'count'} nothing (the first is "
            f"row {first + 1}, counted from 1)",
            MissingCellsWarning,
            stacklevel=4,
        )


def refuse_unobserved(seen: NDArray, rows: float, min_count: int, names: Sequence[str] | None = None) -> None:
    """Refuse features that nobody observed, or so few rows that their sums would reveal them; (p,) by weight."""
    for j in np.flatnonzero((seen < rows - ROUNDED) & ((seen <= 0) | ~enough(seen, min_count))).tolist():
        name = column_name(j, names)
        if seen[j] <= 0:
            text = f"nobody observed {name!r}: the column is empty at every site, in all rows that count"
            raise DataError(text, column=name, remedy="leave it out")
        raise DataError(
            f"{name!r} is observed in {seen[j]:g} rows of all sites together, fewer than min_count={min_count}: "
            "their sums would reveal too much of them",
            column=name,
            remedy="leave it out",
        )


def together(X: NDArray, weights: NDArray | None = None) -> NDArray:
    """The rows in which two features are both observed, (p, p)."""
    p = X.shape[1]
    total = np.zeros((p, p))
    for rows in slices(len(X), CHECK_ROWS):
        there = (~np.isnan(X[rows])).astype(float)
        total += there.T @ (there if weights is None else weights[rows][:, None] * there)
    return total


def never_together(both: NDArray) -> NDArray:
    """The pairs of features, (n, 2), that no row has both of."""
    return np.argwhere(np.triu(both <= ROUNDED))


def about_pairs(pairs: NDArray, names: Sequence[str] | None = None) -> str:
    """What two features that no row has both of mean for a fit."""
    shown = ", ".join(f"{column_name(i, names)!r} and {column_name(j, names)!r}" for i, j in pairs[:4].tolist())
    more = f", and {len(pairs) - 4} more pairs" if len(pairs) > 4 else ""
    return (
        f"no row of any site has both {shown}{more}: their correlation within a component is not in the data, and "
        "the fit's comes from the start"
    )


def warn_of_pairs(both: NDArray, names: Sequence[str] | None = None) -> None:
    """Warn of two features that no row has both of."""
    pairs = never_together(both)
    if len(pairs):
        warnings.warn(about_pairs(pairs, names), MissingCellsWarning, stacklevel=4)
