"""Options that several commands take: tables and their columns, and settings from the library's table of them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gaussip.errors import DataError, LabelError, SettingError
from gaussip.settings import LARGEST_SEED, SETTINGS, as_options, default

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
    "privacy": "the private fit",
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
    list[Path], typer.Argument(metavar="TABLE...", help="CSV, TSV or Parquet. One table, or one for each site.")
]
Sites = Annotated[str | None, typer.Option("--sites", help="Column that names each row's site.")]
Labels = Annotated[
    str | None,
    typer.Option("--labels", help="Column of labels, empty (or -1) where unknown; a|b where it is one of these."),
]
Weights = Annotated[str | None, typer.Option("--weights", help="Column of row weights.")]
Features = Annotated[
    str | None, typer.Option("--features", help="Feature columns, with commas; default: all others.")
]
NoFeatures = Annotated[
    str, typer.Option("--no-features", help="Columns that are not features (a patient's number), with commas.")
]
NaValues = Annotated[
    str,
    typer.Option(
        "--na-values", help="Codes for missing cells: -9 in all features, chol=0 in one, with commas between them."
    ),
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
Epsilon = Annotated[float | None, option("epsilon")]
Delta = Annotated[float | None, option("delta", help=f"Its delta; {default('delta'):g} by default.")]
Bounds = Annotated[
    str,
    typer.Option(
        "--bounds",
        help="With --epsilon, the least and largest value of each feature: age=0:120,chol=1:15.",
    ),
]
Patient = Annotated[
    str | None,
    typer.Option("--patient", help="With --epsilon, the column that names whose each row is, for several rows each."),
]
Colluding = Annotated[
    int | None, option("colluding", help=f"{SETTINGS['colluding'].help[:-1]}; {default('colluding')} by default.")
]
Overwrite = Annotated[bool, typer.Option(help="Overwrite output files that exist.")]


class Named(NamedTuple):
    """The columns of a fit by their names, as options have them."""

    sites: str | None = None
    labels: str | None = None
    weights: str | None = None
    features: str | None = None  #: with commas; all others by default
    no_features: str = ""
    na_values: str = ""
    patient: str | None = None  #: kept beside the features

    def words(self) -> list[str]:
        """The words of a command that has these options."""
        pairs = self._asdict().items()
        return [word for name, value in pairs if value for word in (f"--{name.replace('_', '-')}", value)]


def per_class(text: str, labels: Any) -> int | dict[Any, int]:
    """The components of each class as --components-per-class has them: 8, or COVID=16,Normal=8."""
    if text.strip().isdecimal():
        return int(text)
    known = {str(label): label for label in ([] if labels is None else labels.tolist())}
    counts: dict[Any, int] = {}
    for part in text.split(","):
        name, found, number = (word.strip() for word in part.rpartition("="))
        if not found or not number.isdecimal():
            raise SettingError(
                f"--components-per-class {text!r} is neither a number nor classes with numbers, as in ill=4,well=2"
            )
        if known.get(name, name) in counts:
            raise SettingError(f"--components-per-class {text!r} names the class {name!r} twice")
        counts[known.get(name, name)] = int(number)
    return counts


def privacy(
    epsilon: float | None, delta: float | None, bounds: str, colluding: int | None, patient: str | None
) -> dict[str, Any] | None:
    """What --epsilon, --delta, --bounds, --colluding and --patient ask for; None where they ask for nothing."""
    others = {"delta": delta, "colluding": colluding, "patient": patient}
    given = {name: value for name, value in others.items() if value is not None}
    if epsilon is None:
        for name in (*given, *["bounds"] * bool(bounds)):
            raise SettingError(f"--{name} is for a private fit", remedy="give --epsilon too, or leave it out")
        return None
    if not bounds:
        raise SettingError(
            "--epsilon needs the bounds of each feature, known without looking at the rows",
            remedy="give --bounds age=0:120,chol=1:15",
        )
    asked = {"epsilon": epsilon, **given}
    return {**asked, "bounds": _limits(bounds) if "=" not in bounds else dict(map(_named, bounds.split(",")))}


def _named(part: str) -> tuple[str, list[float]]:
    name, _, limits = part.rpartition("=")
    return name.strip(), _limits(limits)


def _limits(text: str) -> list[float]:
    low, _, high = text.partition(":")
    try:
        return [float(low), float(high)]
    except ValueError as error:
        raise SettingError(
            f"--bounds has {text!r}, which is not the least and the largest value with a colon between, as in 0:120"
        ) from error


def read_columns(
    tables: list[Path], named: Named, *, alone: bool = False, warned: bool = True
) -> tuple[Columns, int]:
    """The columns of a fit, each row's site among them, and how many rows are labelled; with a warning of odd ones.

    ``alone`` says that rows need no sites.
    """
    from gaussip.inspection import warn_of_columns
    from gaussip.rows.labels import is_labelled
    from gaussip.rows.missing_codes import Codes
    from gaussip.rows.tables import listed, pick, read_sites, without

    sites, labels = named.sites, named.labels
    for option, name in (("--sites", sites), ("--labels", labels), ("--weights", named.weights)):
        if name is not None and name == named.patient:
            raise SettingError(f"--patient names the column {name!r}, which {option} names already")
    joined, named_by_file = read_sites(tables, [name for name in (sites, labels) if name is not None])
    if sites is None and named_by_file is None and not alone:
        raise SettingError("name the column that holds each row's site with --sites, or give one table for each site")
    both = set(listed(named.features)) & set(listed(named.no_features)) if named.features else set()
    if both:
        raise SettingError(f"{sorted(both)[0]!r} is in --features and in --no-features", remedy="leave it out of one")
    try:
        others = ",".join(filter(None, (named.no_features, named.patient)))
        columns = pick(
            without(joined, others), features=listed(named.features) if named.features else None,
            sites=sites, labels=labels, weights=named.weights, codes=Codes.of_text(named.na_values),
        )  # fmt: skip
    except DataError as error:
        if error.remedy is None and error.column is not None:
            error.remedy = _instead(error.column, sites, labels)
        raise
    if columns.sites is None:
        columns = columns._replace(sites=named_by_file)
    n_labelled = 0 if columns.labels is None else sum(map(is_labelled, columns.labels.tolist()))
    if columns.labels is not None and n_labelled == 0:
        raise LabelError(f"column {labels!r} holds no labels", remedy="leave --labels out to go on without")
    if warned:
        warn_of_columns(columns.X, columns.sites)
    if named.patient is not None:
        columns = columns._replace(X=columns.X.append_column(named.patient, joined[named.patient]))
    return columns, n_labelled


def _instead(name: str, sites: str | None, labels: str | None) -> str:
    """What to do about a column that nobody named, and that does not hold numbers."""
    quoted = shlex.quote(name)
    may_be = [f"--sites {quoted} if it names sites"] * (sites is None)
    may_be += [f"--labels {quoted} if it holds labels"] * (labels is None)
    may_be += ["--na-values WORD if that stands for a missing cell"]
    return f"give {', '.join([*may_be, f'--no-features {quoted} to leave it out'])}, or correct it"


def fit_command(tables: list[Path], named: Named, settings: Mapping[str, Any]) -> str:
    """The command that fits these tables, with options for columns and settings that are not the defaults."""
    return shlex.join(["gaussip", "fit", *map(str, tables), *named.words(), *as_options(settings)])
