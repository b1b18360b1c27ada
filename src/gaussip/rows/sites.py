"""Which rows belong to which site."""

from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError
from gaussip.rows.checks import as_column, is_missing, one_kind


def site_of_rows(sites: Any, n_rows: int) -> tuple[NDArray, NDArray]:
    """The site of each row and the sites' names; one site, named 0, where ``sites`` is None."""
    codes, names = (np.zeros(n_rows, dtype=int), np.array([0])) if sites is None else by_column(sites)
    if len(codes) != n_rows:
        raise DataError(f"sites has {len(codes)} entries for {n_rows} rows")
    return codes, names


def places_of_sites(codes: NDArray) -> list[NDArray]:
    """The places of the rows of each site 0..M-1, in order."""
    return np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])


def by_column(values: Any) -> tuple[NDArray, NDArray]:
    """Sites named by a column: the site of each row 0..M-1, and the names in sorted order."""
    column = as_column(values)
    if column.ndim != 1:
        raise DataError(f"sites must be one value per row, not an array of shape {column.shape}")
    cells = column.tolist()
    missing = np.array([is_missing(v) for v in cells])
    if missing.any():
        raise DataError(
            f"{missing.sum()} rows have no site (the first is row {int(missing.argmax()) + 1}, counted from 1)"
        )
    names, codes = np.unique(one_kind(cells, "sites", DataError), return_inverse=True)
    return codes, names
