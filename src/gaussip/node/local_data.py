"""A site's own rows, read from its table as the description says."""

from pathlib import Path

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError, LabelError
from gaussip.federation.description import Description
from gaussip.phases.task import LocalData
from gaussip.rows.checks import check_row_weights, is_unlabelled
from gaussip.rows.tables import pick, read_table


def read_local(path: Path, description: Description) -> LocalData:
    """The rows of a table with the description's columns; others are left alone."""
    d = description
    table = read_table(path, [] if d.labels is None else [d.labels])
    wanted = [*d.features, *(name for name in (d.labels, d.weights) if name is not None)]
    lacking = [name for name in wanted if name not in table.column_names]
    if lacking:
        raise DataError(
            f"{path} has no column {lacking[0]!r}, which the description wants; it has "
            f"{', '.join(table.column_names)}. Rename the column, or agree on another description with all sites"
        )
    columns = pick(table, features=d.features, labels=d.labels, weights=d.weights)
    X = np.column_stack([column.to_numpy() for column in columns.X.columns])
    weights = check_row_weights(columns.weights, len(X))
    if weights is not None and not weights.sum() > 0:
        raise DataError(f"all rows of {path} have weight zero")
    labels = None if columns.labels is None else _codes(columns.labels, description)
    return LocalData(np.ascontiguousarray(X), labels, weights)


def _codes(cells: NDArray, description: Description) -> NDArray:
    """Component numbers of labels, -1 where there is none; refused where the description does not know a label."""
    number = {str(name): k for k, name in enumerate(sorted_classes(description))}
    codes = np.full(len(cells), -1)
    for i, cell in enumerate(cells.tolist()):
        if is_unlabelled(cell):
            continue
        if isinstance(cell, float) and cell.is_integer():
            cell = int(cell)
        if str(cell) not in number:
            raise LabelError(
                f"row {i + 1} (counted from 1) has the label {str(cell)!r}, which is not among the description's "
                f"classes: {', '.join(number)}"
            )
        codes[i] = number[str(cell)]
    return codes


def sorted_classes(description: Description) -> list[str | int]:
    """The classes in the order of their components."""
    return sorted(description.classes or [])
