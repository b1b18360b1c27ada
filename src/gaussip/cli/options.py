"""Options made from the table of settings, and what the command line calls the library's arguments."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gaussip.settings import LARGEST_SEED, SETTINGS, as_options

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


def fit_command(tables: list[Path], columns: Sequence[str | None], settings: Mapping[str, Any]) -> str:
    """The command that fits these tables, with options for columns and settings that are not the defaults."""
    options = ("--sites", "--labels", "--weights", "--features", "--no-features")
    pairs = zip(options, columns, strict=True)
    named = [word for option, column in pairs if column for word in (option, column)]
    return shlex.join(["gaussip", "fit", *map(str, tables), *named, *as_options(settings)])
