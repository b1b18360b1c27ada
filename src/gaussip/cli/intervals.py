"""gaussip intervals."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gaussip.cli.console import Answer, Json, progress, table
from gaussip.cli.model_tables import read_for
from gaussip.cli.options import Labels, Named, NaValues, Overwrite, Sites, Weights, option
from gaussip.errors import LabelError, SettingError
from gaussip.files import refuse_overwriting
from gaussip.settings import check, default

MOST = 30  # covariances that are shown: more are for files


def run(
    model: Annotated[Path, typer.Argument(help="A model written by gaussip fit.")],
    tables: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[TABLE]...",
            help="The rows of the fit: one table, or one for each site; none for a private fit. Features are "
            "found by the model's names.",
        ),
    ] = None,
    sites: Sites = None,
    labels: Labels = None,
    weights: Weights = None,
    na_values: NaValues = "",
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
    """Standard errors and confidence intervals of a fitted model, with the rows of the fit; of a private one without.

    Example: `gaussip intervals model.npz patients.csv --sites hospital --labels diagnosis --out intervals.csv`
    """
    from gaussip.estimator import NetworkGaussianMixture
    from gaussip.inference.intervals import refuse_site_model, uncertainty
    from gaussip.rows.table_files import table_kind

    if out is not None:
        table_kind(out)
        refuse_overwriting(out, force=force, inputs=[model, *(tables or [])])
    check(level=level)
    mixture = NetworkGaussianMixture.load(model)
    if mixture.privacy_ is None:
        refuse_site_model(mixture)
    else:
        result = mixture.uncertainty(tables or None, robust=robust)
        about = f"{mixture.privacy_}\n{100 * level:g}% intervals, noise included"
        return _answer(result, about, level, robust, out, sites=mixture.sites_, privacy=mixture.privacy_.as_json())
    if not tables:
        raise SettingError("give the table of the fit's rows: standard errors come from them")
    if labels is None and len(mixture.classes_):
        raise LabelError(f"the fit of {model} had labels: name their column with --labels")
    given = read_for(mixture, tables, Named(sites, labels, weights, na_values=na_values))
    columns = given.columns
    of_row = columns.sites if columns.sites is not None else given.named_by_file
    if of_row is None and len(mixture.sites_) > 1:
        raise SettingError("name the column that holds each row's site with --sites, or give one table for each site")
    with progress(len(mixture.sites_)) as advance:
        result = uncertainty(
            mixture, given.X, columns.labels, sites=of_row, sample_weight=columns.weights, robust=robust,
            watch=lambda done: advance("sites", done),
        )  # fmt: skip
    kind = "robust standard errors" if robust else "standard errors from the information"
    head = f"{columns.X.num_rows} rows at {len(mixture.sites_)} sites: {kind}, {100 * level:g}% intervals"
    return _answer(result, head, level, robust, out, rows=columns.X.num_rows, sites=mixture.sites_)


def _answer(result: Any, head: str, level: float, robust: bool, out: Path | None, **more: Any) -> Answer:
    """The intervals, shown and written."""
    from gaussip.rows.table_files import write_table

    intervals = result.table(level).columns
    if out is not None:
        write_table(out, intervals)
    rows = [list(row) for row in zip(*intervals.values(), strict=True)]
    few = [row for row in rows if not row[1].startswith("covariance ")]
    n_more = len(rows) - len(few)
    shown = rows if n_more <= MOST else few
    cells = [[component, name, *(f"{value:.4g}" for value in values)] for component, name, *values in shown]
    drawn = table([name.replace("_", " ") for name in intervals], cells, texts=["parameter"])
    notes = [f"{n_more} covariances are not shown: --out FILE, or --json, has them"] * (n_more > MOST)
    notes += [] if out is None else [f"written to {out}"]
    return Answer(
        [head, "", drawn, *([""] if notes else []), *notes],
        **more, level=level, robust=robust, away=result.away,
        out=None if out is None else str(out), intervals=[dict(zip(intervals, row, strict=True)) for row in rows],
    )  # fmt: skip
