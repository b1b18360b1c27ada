"""Checks on what users give, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gaussip.errors import DataError, LabelError

AnyArray = np.ndarray[Any, Any]


def check_cells(X: AnyArray, names: Sequence[str]) -> None:
    """Refuse missing and infinite cells, and say how many in which column."""
    for bad, what in ((np.isnan(X), "missing values (NaN)"), (np.isinf(X), "infinite values (infinity)")):
        counts = bad.sum(axis=0)
        if counts.any():
            where = ", ".join(f"{counts[j]} in {names[j]!r}" for j in np.flatnonzero(counts)[:8])
            more = np.count_nonzero(counts) - 8
            raise DataError(
                f"{counts.sum()} {what}: {where}{f' and {more} more columns' if more > 0 else ''}; "
                "gaussip fits complete rows: drop those rows or fill them in"
            )


def check_row_weights(sample_weight: Any, n_rows: int) -> AnyArray | None:
    """Row weights (n,), or None."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=float)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise DataError(f"sample_weight has shape {weights.shape}; {n_rows} rows need ({n_rows},)")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise DataError("sample_weight has entries that are negative or not finite (NaN, infinity)")
    return weights


def check_sites_filled(mass: AnyArray, names: Sequence[Any]) -> None:
    """Refuse sites whose rows all have weight zero."""
    empty = [names[int(m)] for m in np.flatnonzero(~(mass > 0))]
    if empty:
        shown = ", ".join(map(str, empty[:5]))
        raise DataError(
            f"site {shown}: all its rows have weight zero; leave the site out, or give it rows that count"
        )


def encode_labels(y: Any, n_rows: int, n_components: int) -> tuple[AnyArray | None, AnyArray]:
    """Labels as component numbers, -1 where unlabelled, and the sorted classes they stand for.

    Parameters
    ----------
    y : None, or (n,) labels; -1, None and NaN mean unlabelled

    Returns
    -------
    codes : (n,) integers, or None where nothing is labelled
    classes : (C,), C <= n_components; component k is class k
    """
    if y is None:
        return None, np.empty(0, dtype=int)
    # a list that mixes words and NaN must not turn into words alone
    values = np.asarray(y, dtype=object if isinstance(y, (list, tuple)) else None)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (n_rows,):
        raise LabelError(f"y has shape {values.shape}; {n_rows} rows need ({n_rows},)")
    known = np.array([_is_label(v) for v in values.tolist()])
    if not known.any():
        return None, np.empty(0, dtype=int)
    seen = np.array(values[known].tolist())
    if seen.dtype.kind == "f":
        if not np.isfinite(seen).all():
            raise LabelError("y has infinite labels (infinity); use class names or whole numbers")
        if (seen == np.round(seen)).all():
            seen = seen.astype(int)
        else:
            raise LabelError("y has labels that are not whole numbers; give class names or whole numbers")
    classes, found = np.unique(seen, return_inverse=True)
    if len(classes) > n_components:
        shown = ", ".join(map(str, classes[:6])) + (", ..." if len(classes) > 6 else "")
        raise LabelError(
            f"y has {len(classes)} classes ({shown}) but n_components={n_components}; "
            "each class needs a component of its own: raise n_components, or use -1 for unlabelled rows"
        )
    codes = np.full(n_rows, -1)
    codes[known] = found
    return codes, classes


def _is_label(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return False
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value == value and value != -1
    return True
