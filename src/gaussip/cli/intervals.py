"""gaussip intervals."""

from pathlib import Path
from typing import Annotated

import typer

from gaussip.cli.console import Answer, Json, component_names, progress, table
from gaussip.cli.options import Labels, Overwrite, Sites, Weights, option
from gaussip.errors import DataError, LabelError, SettingError
from gaussip.files import refuse_overwriting
from gaussip.settings import check, default

MOST = 30  # covariances that are shown: more are for files


def run(
    model: Annotated[Path, typer.Argument(help="A model written by gaussip fit.")],
    tables: Annotated[
        list[Path],
        typer.Argument(
            metavar="TABLE...",
            help="The rows of the fit: one table, or one for each site. Features are found by the model's names.",
        ),
    ],
    sites: Sites = None,
    labels: Labels = None,
    weights: Weights = None,
    level: Annotated[float, option("level")] = default("level"),
    robust: Annotated[
        bool, typer.Option("--robust", help="For sampling weights, and components that are not quite Gaussian.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV or Parquet to write, with all covariances.")
    ] = None,
    force: Overwrite = False,
    json: Json = False,
) -> Answer:
    """Standard errors and confidence intervals of a fitted model, with the rows of the fit.

    Example: `gaussip intervals model.npz patients.csv --sites hospital --labels diagnosis --out intervals.csv`
    """
    import numpy as np

    from gaussip.estimator import NetworkGaussianMixture
    from gaussip.inference.intervals import refuse_site_model, uncertainty
    from gaussip.rows.tables import pick, read_sites, table_kind, write_table

    if out is not None:
        table_kind(out)
        refuse_overwriting(out, force=force, inputs=[model, *tables])
    check(level=level)
    mixture = NetworkGaussianMixture.load(model)
    refuse_site_model(mixture)
    features = [str(name) for name in getattr(mixture, "feature_names_in_", [])]
    if labels is None and len(mixture.classes_):
        raise LabelError(f"the fit of {model} had labels: name their column with --labels")
    joined, named_by_file = read_sites(tables, [name for name in (sites, labels) if name is not None])
    columns = pick(joined, features=features or None, sites=sites, labels=labels, weights=weights)
    if columns.X.num_columns != mixture.n_features_in_:
        raise DataError(f"the model has {mixture.n_features_in_} features, the table {columns.X.num_columns} columns")
    of_row = columns.sites if columns.sites is not None else named_by_file
    if of_row is None and len(mixture.sites_) > 1:
        raise SettingError("name the column that holds each row's site with --sites, or give one table for each site")
    X = columns.X if features else np.column_stack([column.to_numpy() for column in columns.X.columns])
    with progress(len(mixture.sites_)) as advance:
        result = uncertainty(
            mixture, X, columns.labels, sites=of_row, sample_weight=columns.weights, robust=robust,
            watch=lambda done: advance("sites", done),
        )  # fmt: skip
    intervals = result.table(component_names(mixture), columns.X.column_names, level)
    if out is not None:
        write_table(out, intervals)
    rows = [list(row) for row in zip(*intervals.values(), strict=True)]
    few = [row for row in rows if not row[1].startswith("covariance ")]
    n_more = len(rows) - len(few)
    shown = rows if n_more <= MOST else few
    cells = [[component, name, *(f"{value:.4g}" for value in values)] for component, name, *values in shown]
    drawn = table([name.replace("_", " ") for name in intervals], cells, texts=["parameter"])
    kind = "robust standard errors" if robust else "standard errors from the information"
    head = f"{columns.X.num_rows} rows at {len(mixture.sites_)} sites: {kind}, {100 * level:g}% intervals"
    notes = [f"{n_more} covariances are not shown: --out FILE, or --json, has them"] * (n_more > MOST)
    notes += [] if out is None else [f"written to {out}"]
    return Answer(
        [head, "", drawn, *([""] if notes else []), *notes],
        rows=columns.X.num_rows, sites=mixture.sites_, level=level, robust=robust, away=result.away,
        out=None if out is None else str(out), intervals=[dict(zip(intervals, row, strict=True)) for row in rows],
    )  # fmt: skip
