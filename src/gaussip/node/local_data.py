"""A site's own rows, read from its table as the description says."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gaussip.arrays import NDArray
from gaussip.errors import DataError, LabelError
from gaussip.federation.description import Description
from gaussip.phases.task import LocalData
from gaussip.privacy.patients import shares_of_patients
from gaussip.privacy.rows import refuse_heavy
from gaussip.rows.cells import observed_rows, warn_of_empty_rows
from gaussip.rows.checks import check_row_weights
from gaussip.rows.labels import Sets, is_labelled, numbered
from gaussip.rows.table_files import read_table
from gaussip.rows.tables import pick


def read_local(path: Path, description: Description, site: str) -> LocalData:
    """The rows of a table with the description's columns; others are left alone."""
    d = description
    table = read_table(path, [] if d.labels is None else [d.labels])
    lacks = d.sites[site].lacks
    patient = (d.privacy or {}).get("patient")
    wanted = [*(name for name in d.features if name not in lacks), *filter(None, (d.labels, d.weights, patient))]
    lacking = [name for name in wanted if name not in table.column_names]
    if lacking:
        name = lacking[0]
        lacks_it = f': lacks = ["{name}"] beside the address of {site} says that it has none' * (name in d.features)
        raise DataError(
            f"{path} has no column {name!r}, which the description wants; it has {', '.join(table.column_names)}",
            column=name, remedy=f"rename the column, or agree on another description with all sites{lacks_it}",
        )  # fmt: skip
    unexpected = [name for name in lacks if name in table.column_names]
    if unexpected:
        text = f"{path} has a column {unexpected[0]!r}, which {site} lacks by the description"
        raise DataError(text, column=unexpected[0], remedy="agree on a description with it, or rename the column")
    empty = [name for name in d.features if name not in lacks and not table[name].length() > table[name].null_count]
    if empty:
        raise DataError(
            f"column {empty[0]!r} of {path} is empty", column=empty[0],
            remedy=f'leave the column out, and agree on lacks = ["{empty[0]}"] beside the address of {site}',
        )  # fmt: skip
    for name in lacks:
        table = table.append_column(name, pa.nulls(table.num_rows, pa.float64()))
    columns = pick(table, features=d.features, labels=d.labels, weights=d.weights, codes=d.codes)
    X = np.column_stack([column.to_numpy() for column in columns.X.columns])
    weights = check_row_weights(columns.weights, len(X))
    if d.privacy is not None and weights is not None:
        refuse_heavy([weights])
    if patient is not None:
        shares = shares_of_patients(table[patient].to_pylist(), None, patient)
        weights = shares if weights is None else weights * shares
    labels: NDArray | None = None
    sets: Sets = ()
    if columns.labels is not None:
        labels, sets = _codes(columns.labels, description)
    there = observed_rows(X)
    if not there.all():
        warn_of_empty_rows(int((~there).sum()), int((~there).argmax()))
        labels, weights = (None if part is None else part[there] for part in (labels, weights))
    if not there.any():
        raise DataError(f"no row of {path} has an observed cell", remedy="a site without rows takes no part")
    if weights is not None and not weights.sum() > 0:
        raise DataError(f"all rows of {path} that have an observed cell have weight zero")
    return LocalData(np.ascontiguousarray(X[there]), labels, weights, sets)


def _codes(cells: NDArray, description: Description) -> tuple[NDArray, Sets]:
    """The numbers of labels, -1 where there is none, and the sets of classes that the last numbers stand for.

    Refused where the description does not know a label.
    """
    number = {str(name): k for k, name in enumerate(sorted_classes(description))}
    found: list[tuple[int, ...] | None] = []
    for i, cell in enumerate(cells.tolist()):
        names = [] if not is_labelled(cell) else sorted(map(_name, cell if isinstance(cell, frozenset) else [cell]))
        unknown = [name for name in names if name not in number]
        if unknown:
            raise LabelError(
                f"row {i + 1} (counted from 1) has the label {unknown[0]!r}, which is not among the description's "
                f"classes: {', '.join(number)}"
            )
        found.append(tuple(sorted(number[name] for name in names)) or None)
    return numbered(found, len(number))


def _name(cell: Any) -> str:
    """A class as the description writes it."""
    return str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell)


def sorted_classes(description: Description) -> list[str | int]:
    """The classes in the order of their components."""
    return sorted(description.classes or [])
