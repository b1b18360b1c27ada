"""The tables and columns that several commands take, and how they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaussip.errors import LabelError, SettingError

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
    str, typer.Option("--no-features", help="Columns that are no features (a patient's number), with commas.")
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
    found = pick(without(joined, others), features=named, sites=sites, labels=labels, weights=weights)
    if found.sites is None:
        found = found._replace(sites=named_by_file)
    n_labelled = 0 if found.labels is None else sum(not is_unlabelled(v) for v in found.labels.tolist())
    if found.labels is not None and n_labelled == 0:
        raise LabelError(f"column {labels!r} holds no labels; leave --labels out to go on without")
    return found, n_labelled
