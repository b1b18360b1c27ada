"""Options that several commands take: tables and their columns, and settings from the library's table of them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaussip.errors import DataError, LabelError, SettingError
from gaussip.settings import LARGEST_SEED, SETTINGS, as_options

if TYPE_CHECKING:
    from gaussip.rows.tables import Columns

ARGUMENTS = {
    "y": "the column of --labels",
    "sites": "the column of --sites",
    "sample_weight": "the column of --weights",
    "the last fit": "the model of --start",
    "warm_start=False": "another --start",
    "means_init, weights_init and covariances_init": "a model file as --start",
    "force=True": "--force",
    "robust=True": "--robust",
    "exchange": "--exchange",
}  #: what is not a setting of the table, by its name in Python


def as_option(setting: str, value: str) -> str:
    """A setting, alone or with a value, as one types it."""
    given = f"{setting}={value}"
    if given in ARGUMENTS:
        return ARGUMENTS[given]
    known = SETTINGS.get(setting)
    name = ARGUMENTS.get(setting) or (known.option if known else "") or setting
    word = value.strip("'")
    return f"{name} {word}" if word else name


def option(name: str, *short: str, help: str = "", **limits: Any) -> Any:
    """The option of a setting; ``help`` in place of the table's."""
    setting = SETTINGS[name]
    return typer.Option(setting.option, *short, help=help or setting.help, **limits)


def drawn(what: str) -> Any:
    """The option of a picture."""
    return typer.Option(help=f"Draw {what} (.png, .svg, .pdf), with its table (.csv).")


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
Components = Annotated[int, option("n_components", "-k")]
Network = Annotated[str, option("network")]
Mixing = Annotated[str, option("mixing")]
RegCovar = Annotated[float, option("reg_covar")]
Shrinkage = Annotated[float, option("shrinkage")]
UnlabelledWeight = Annotated[float, option("unlabelled_weight")]
Weighting = Annotated[str, option("weighting")]
Starts = Annotated[int, option("n_init")]
Device = Annotated[str, option("device")]
Seed = Annotated[int, option("random_state", min=0, max=LARGEST_SEED)]
Overwrite = Annotated[bool, typer.Option(help="Overwrite output files that exist.")]


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


def fit_command(tables: list[Path], columns: Sequence[str | None], settings: Mapping[str, Any]) -> str:
    """The command that fits these tables, with options for columns and settings that are not the defaults."""
    options = ("--sites", "--labels", "--weights", "--features", "--no-features")
    pairs = zip(options, columns, strict=True)
    named = [word for option, column in pairs if column for word in (option, column)]
    return shlex.join(["gaussip", "fit", *map(str, tables), *named, *as_options(settings)])
