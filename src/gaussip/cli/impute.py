"""gaussip impute."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gaussip.cli.console import Answer, Json, progress, table
from gaussip.cli.model_tables import read_for
from gaussip.cli.options import Labels, Named, NaValues, Overwrite, Seed, Sites, Weights
from gaussip.errors import DataError, SettingError
from gaussip.files import refuse_overwriting
from gaussip.settings import default


def run(
    model: Annotated[Path, typer.Argument(help="A model written by gaussip fit.")],
    rows: Annotated[Path, typer.Argument(metavar="TABLE", help="CSV, TSV or Parquet with the model's features.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the filled table goes (.csv, .tsv or .parquet).")],
    draws: Annotated[
        int | None,
        typer.Option(min=1, help="Draw missing cells at random, so many times; default: conditional means, once."),
    ] = None,
    parameters: Annotated[
        bool,
        typer.Option(
            "--parameters",
            help="Draw the model's parameters too: TABLE has the rows of the fit, with --sites, --labels and "
            "--weights as then.",
        ),
    ] = False,
    sites: Sites = None,
    labels: Labels = None,
    weights: Weights = None,
    deviations: Annotated[
        bool, typer.Option("--deviations", help="Add a column 'sd of FEATURE' for each feature with missing cells.")
    ] = False,
    na_values: NaValues = "",
    seed: Seed = default("random_state"),
    force: Overwrite = False,
    json: Json = False,
) -> Answer:
    """Fill in the missing cells of a table by a model's conditional means, or by draws for multiple imputation.

    With --draws M the table is written M times, one below the other, with its number in a column "draw": analyse
    each, and combine the results by Rubin's rules. Their standard errors are right with --parameters, and otherwise
    too small where much is missing.

    Example: `gaussip impute model.npz patients.csv --draws 40 --parameters --sites hospital --out imputed.csv`
    """
    import numpy as np

    from gaussip.estimator import NetworkGaussianMixture
    from gaussip.inference.intervals import refuse_site_model, uncertainty
    from gaussip.rows.frames import as_numbers
    from gaussip.rows.table_files import table_kind, write_table

    table_kind(out)
    refuse_overwriting(out, force=force, inputs=[model, rows])
    mixture = NetworkGaussianMixture.load(model)
    if draws is not None and deviations:
        raise DataError("draws have no standard deviations of their own", remedy="leave --deviations or --draws out")
    fitted = (sites, labels, weights)
    if parameters and draws is None:
        raise SettingError("--parameters is for draws", remedy="add --draws 40")
    if not parameters and fitted != (None, None, None):
        raise SettingError("--sites, --labels and --weights are for --parameters", remedy="add it, or leave them out")
    given = read_for(mixture, [rows], Named(*fitted, na_values=na_values))
    features, times = given.columns.X.column_names, draws or 1
    missing = np.isnan(np.column_stack([column.to_numpy() for column in given.columns.X.columns]))
    more: dict[str, Any] = {}
    if draws is None:
        filled = mixture.impute(given.X)
        values = as_numbers(filled.values)
        if deviations:
            some, sds = np.flatnonzero(missing.any(axis=0)).tolist(), as_numbers(filled.deviations)
            more = {f"sd of {features[j]}": sds[:, j] for j in some}
    else:
        spread = None
        if parameters:
            refuse_site_model(mixture)
            columns = given.columns
            with progress(len(mixture.sites_)) as advance:
                spread = uncertainty(
                    mixture, given.X, columns.labels, sites=columns.sites, sample_weight=columns.weights,
                    watch=lambda done: advance("sites", done),
                )  # fmt: skip
        drawn = mixture.impute_draws(given.X, draws, uncertainty=spread, random_state=seed)
        values = np.concatenate([as_numbers(one) for one in drawn])
        more = {"draw": np.repeat(np.arange(1, draws + 1), len(missing))}
    beside = {name: column.to_pylist() * times for name, column in given.others.items()}
    clash = [name for name in more if name in beside or name in features]
    if clash:
        raise DataError(f"{rows} already has a column {clash[0]!r}", column=clash[0], remedy="rename it")
    write_table(out, beside | {name: values[:, j] for j, name in enumerate(features)} | more)
    counts = {name: int(n) for name, n in zip(features, missing.sum(axis=0), strict=True) if n}
    empty = int(missing.all(axis=1).sum())
    text = f"{len(missing)} rows, {missing.sum()} missing cells in {int(missing.any(axis=1).sum())} of them"
    shown: list[Any] = [text if draws is None else f"{text}, drawn {draws} times"]
    if counts:
        lines = [[name, str(n), f"{n / len(missing):.1%}"] for name, n in counts.items()]
        shown += ["", table(["feature", "missing", "share"], lines), ""]
    if empty:
        shown.append(f"{empty} rows have no cell at all: what is filled in says nothing of them, only of the mixture")
    return Answer(
        [*shown, f"written to {out}"], rows=len(missing), missing=counts, empty=empty, draws=draws, out=str(out)
    )
