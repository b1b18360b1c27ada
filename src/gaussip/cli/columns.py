"""The tables and columns that several commands take, and how they are read."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaussip.errors import DataError, LabelError, SettingError

if TYPE_CHECKING:
    from gaussip.rows.tables import Columns

Tables = Annotated[
    list[Path], typer.Argument(metavar="TABLE...", help="CSV or Parquet. One table, or one for each site.")
]
Sites = Annotated[str | None, typer.Option("--sites", help="Column that names each row's site.")]
Labels = Annotated[str | None, typer.Option("--labels", help="Column of labels, empty (or -1) where unknown.")]
Weights = Annotated[str | None, typer.Option("--weights", help="Column of row weights.")]
Features = Annotated[
    str | None, typer.Option("--features", help="Feature columns, with commas; default: all others.")
]
NoFeatures = Annotated[
    str, typer.Option("--no-features", help="Columns that are not features (a patient's number), with commas.")
]


def read_columns(
    tables: list[Path],
    sites: str | None,
    labels: str | None,
    weights: str | None,
    features: str | None,
    others: str,
    *,
    alone: bool = False,
) -> tuple[Columns, int]:
    """The columns of a fit, each row's site among them, and how many rows are labelled.

    ``alone`` says that rows need no sites.
    """
    from gaussip.rows.checks import is_unlabelled
    from gaussip.rows.tables import listed, pick, read_sites, without

    joined, named_by_file = read_sites(tables, [name for name in (sites, labels) if name is not None])
    if sites is None and named_by_file is None and not alone:
        raise SettingError("name the column that holds each row's site with --sites, or give one table for each site")
    named = listed(features) if features else None
    try:
        columns = pick(without(joined, others), features=named, sites=sites, labels=labels, weights=weights)
    except DataError as error:
        if error.remedy is None and error.column is not None:
            error.remedy = _instead(error.column, sites, labels)
        raise
    if columns.sites is None:
        columns = columns._replace(sites=named_by_file)
    n_labelled = 0 if columns.labels is None else sum(not is_unlabelled(v) for v in columns.labels.tolist())
    if columns.labels is not None and n_labelled == 0:
        raise LabelError(f"column {labels!r} holds no labels", remedy="leave --labels out to go on without")
    return columns, n_labelled


def _instead(name: str, sites: str | None, labels: str | None) -> str:
    """What to do about a column that nobody named, and that does not hold numbers."""
    quoted = shlex.quote(name)
    may_be = [f"--sites {quoted} if it names sites"] * (sites is None)
    may_be += [f"--labels {quoted} if it holds labels"] * (labels is None)
    return f"give {', '.join([*may_be, f'--no-features {quoted} to leave it out'])}, or correct it"
