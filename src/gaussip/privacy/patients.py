"""Patients who have several rows: together they count as one, so that a guarantee holds for each patient."""

from __future__ import annotations

from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError
from gaussip.rows.checks import is_missing


def shares_of_patients(patients: Any, sites: NDArray | None, column: str) -> NDArray:
    """What each row counts, (n,): one over the rows that its patient has at its site.

    Parameters
    ----------
    patients : (n,), who each row is of
    sites : (n,), numbers; None where all rows are of one site
    column : that names the patients, for messages
    """
    names = [cell.as_py() if hasattr(cell, "as_py") else cell for cell in patients]
    unknown = [i for i, name in enumerate(names) if is_missing(name)]
    if unknown:
        raise DataError(
            f"column {column!r} names no patient in row {unknown[0] + 1} (counted from 1)", column=column,
            row=unknown[0] + 1, remedy="give every row its patient, or one of its own where that is not known",
        )  # fmt: skip
    _, who = np.unique(np.array([str(name) for name in names]), return_inverse=True)
    pairs = who if sites is None else who + len(who) * sites
    _, place, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[place])
