"""Checks on what users give, before anything is computed."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from gaussip.arrays import NDArray, slices
from gaussip.errors import DataError, GaussipError, SettingError, Text, some
from gaussip.settings import check

CHECK_ROWS = 100_000  # looked at together
ROUNDED = 1e-6  # of a row: what counts are off by
LARGEST = 1e100  # beyond, variances overflow
LARGEST_NUMBER = 2**53  # beyond, different whole numbers are the same float


def check_cells(X: NDArray, names: Sequence[str] | None = None) -> None:
    """Refuse cells that are infinite or huge, and say how many in which column; missing ones (NaN) may be."""
    counts = np.zeros((2, X.shape[1]), dtype=int)
    for part in (X[rows] for rows in slices(len(X), CHECK_ROWS)):
        huge = np.isfinite(part) & (np.abs(part) > LARGEST)
        counts += np.stack([bad.sum(axis=0) for bad in (np.isinf(part), huge)])
    for bad_cells, what, remedy in zip(
        counts,
        ("infinite values (infinity)", f"values beyond {LARGEST:g}"),
        (
            "correct them, or leave those cells empty",
            "their squares would overflow: choose a larger unit for the column",
        ),
        strict=True,
    ):
        columns = np.flatnonzero(bad_cells)
        if columns.size:
            name_of = [column_name(j, names) for j in columns.tolist()]
            where = ", ".join(f"{bad_cells[j]} in {name!r}" for j, name in zip(columns[:8], name_of, strict=False))
            others = f" and {columns.size - 8} more columns" if columns.size > 8 else ""
            text = f"{bad_cells.sum()} {what}: {where}{others}"
            raise DataError(text, column=name_of[0], remedy=remedy)


def column_name(number: int, names: Sequence[str] | None) -> str:
    """A column as people see it."""
    return f"column {number}" if names is None else str(names[number])


def enough(rows: Any, min_count: int) -> Any:
    """Whether there are as many rows; counts are sums of shares, and rounded."""
    return rows >= min_count - ROUNDED


def check_mean_weight(weights: Sequence[NDArray] | None) -> None:
    """Refuse row weights that do not count rows, where a log-likelihood is held against a number of rows."""
    if weights is None:
        return
    mean = sum(float(v.sum()) for v in weights) / max(1, sum(int((v > 0).sum()) for v in weights))
    if not 0.1 <= mean <= 10:
        raise DataError(
            f"row weights are {mean:.3g} in the mean (of those above zero), and a search takes a row of weight one "
            "for one row: divide them by that"
        )


def check_row_weights(sample_weight: Any, n_rows: int) -> NDArray | None:
    """Row weights (n,), or None."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(Text("{sample_weight} must be numbers: {error}", error=error)) from error
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise DataError(
            Text("{sample_weight} has shape {shape}; {n} rows need ({n},)", shape=weights.shape, n=n_rows)
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise DataError(
            Text(
                "{sample_weight} has {n} entries that are negative or not finite (NaN, infinity), the first in row "
                "{row} (counted from 1)", n=bad.size, row=int(bad[0]) + 1,
            ),
            row=int(bad[0]) + 1, remedy="correct them; a row of weight 0 counts nothing",
        )  # fmt: skip
    return weights


def check_sites_filled(mass: NDArray, names: Sequence[Any]) -> None:
    """Refuse sites whose rows all have weight zero."""
    empty = [names[int(m)] for m in np.flatnonzero(~(mass > 0))]
    if empty:
        raise DataError(
            f"site {some(empty)}: all rows have weight zero", site=empty[0],
            remedy="leave it out, or give it rows that count",
        )  # fmt: skip


def check_unlabelled_weight(weight: Any, labelled: bool, n_unseen: int = 0) -> None:
    """Refuse a weight of unlabelled rows that is none, or that leaves no row at all, or components without any."""
    check(unlabelled_weight=weight)
    if weight > 0 or (labelled and n_unseen == 0):
        return
    if not labelled:
        template = "{unlabelled_weight:0} leaves no rows: none is labelled. Give labels, or a larger weight"
    else:
        template = (
            "{unlabelled_weight:0} leaves no rows for {n} of the components: no row is labelled for them. "
            "Label some, use fewer components, or a larger weight"
        )
    raise SettingError(Text(template, n=n_unseen), setting="unlabelled_weight")


def as_column(values: Any) -> NDArray:
    """Names as they are given: words and numbers in one list are not merged."""
    return np.asarray(values, dtype=object if isinstance(values, (list, tuple)) else None)


def feature_names(fitted: Any) -> list[str]:
    """The names of an estimator's features; their numbers where it was fitted to an array without names."""
    return [
        str(v) for v in getattr(fitted, "feature_names_in_", (f"column {j}" for j in range(fitted.n_features_in_)))
    ]


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, pandas' NA and NaT, or an empty word."""
    if value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, str) and not value):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def one_kind(cells: Sequence[Any], what: str, error: type[GaussipError]) -> NDArray:
    """Names as an array, refused where words and numbers are mixed, which would merge 1 and "1".

    ``what`` is the argument that holds them.
    """
    kinds = {"words" if isinstance(v, str) else "numbers" if isinstance(v, Real) else type(v).__name__ for v in cells}
    if len(kinds) > 1:
        raise error(Text(f"{{{what}}} mixes {{kinds}}; use one kind", kinds=" and ".join(sorted(kinds))))
    if "numbers" in kinds and any(abs(v) > LARGEST_NUMBER for v in cells):
        raise error(
            Text(f"{{{what}}} has numbers beyond {LARGEST_NUMBER}, which computers confuse; write them as words")
        )
    return np.array(cells)


def is_unlabelled(value: Any) -> bool:
    """Whether a cell of labels holds none: missing, or -1 (as a word too, in tables of words)."""
    if is_missing(value):
        return True
    return value == "-1" if isinstance(value, str) else isinstance(value, Real) and bool(value == -1)
