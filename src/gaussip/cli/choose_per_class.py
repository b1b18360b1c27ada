"""gaussip choose-per-class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaussip.cli import options
from gaussip.cli.console import Answer, Json, drawn, progress
from gaussip.errors import SettingError, worded
from gaussip.settings import default

if TYPE_CHECKING:
    from gaussip.selection import PerClass


def run(
    tables: options.Tables,
    labels: options.Labels = None,
    sites: options.Sites = None,
    weights: options.Weights = None,
    feature_columns: options.Features = None,
    others: options.NoFeatures = "",
    na_values: options.NaValues = "",
    candidates: Annotated[
        str, typer.Option(metavar="N,...", help="Numbers of components to try for each class.")
    ] = "1,2,4,8,16",
    covariance_type: Annotated[str, options.option("covariance_type")] = default("covariance_type"),
    reg_covar: options.RegCovar = default("reg_covar"),
    shrinkage: options.Shrinkage = default("shrinkage"),
    unlabelled_weight: options.UnlabelledWeight = default("unlabelled_weight"),
    device: options.Device = default("device"),
    seed: options.Seed = default("random_state"),
    json: Json = False,
) -> Answer:
    """Choose how many components each class has, by labels that the fits do not see.

    Example: `gaussip choose-per-class patients.csv --sites hospital --labels diagnosis`
    """
    from gaussip.estimator import NetworkGaussianMixture
    from gaussip.selection import choose_per_class

    if labels is None:
        raise SettingError("name the column that holds classes with --labels")
    named = options.Named(sites, labels, weights, feature_columns, others, na_values)
    columns, n_labelled = options.read_columns(tables, named)
    numbers = _numbers(candidates)
    settings: dict[str, Any] = {
        "covariance_type": covariance_type, "reg_covar": reg_covar, "shrinkage": shrinkage,
        "unlabelled_weight": unlabelled_weight, "device": device, "random_state": seed,
    }  # fmt: skip
    with progress(len(numbers)) as advance:
        choice = choose_per_class(
            NetworkGaussianMixture(network="complete", **settings), columns.X, columns.labels, sites=columns.sites,
            sample_weight=columns.weights, candidates=numbers,
            watch=lambda done, total: advance(f"{done} of {total} fitted", done),
        )  # fmt: skip
    each = ",".join(f"{name}={number}" for name, number in choice.components_per_class.items())
    fit = options.fit_command(
        tables, named, {"n_components": choice.n_components, "components_per_class": each, **settings}
    )
    shown = [
        f"{columns.X.num_rows} rows, {columns.X.num_columns} features, {n_labelled} labelled, of which "
        f"{choice.held_out} were held out",
        "",
        drawn(choice.table()),
        "",
        *[worded(line, options.as_option) for line in choice.failures()],
        *_verdict(choice, max(numbers)),
        f"fit it: {fit} --out model.npz",
    ]
    return Answer(
        shown, components=choice.n_components, components_per_class=choice.components_per_class,
        held_out=choice.held_out, lines=[line._asdict() for line in choice.lines],
    )  # fmt: skip


def _numbers(text: str) -> list[int]:
    """The numbers of components to try."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise SettingError(f"--candidates {text!r} must be whole numbers with commas between them, as in 1,2,4")
    return [int(word) for word in words]


def _verdict(choice: PerClass, most: int) -> list[str]:
    """Which candidate is best, and what would be worth a try."""
    best = choice.lines[choice.best]
    lines = [
        f"{best.shown}: comes nearest to the labels held out (Brier score {best.brier:.4g}), and "
        f"{best.accuracy:.1%} of them are predicted"
    ]
    if max(best.components_per_class.values()) == most:
        lines.append(f"these are the most that were tried: try --candidates {most},{2 * most}")
    return lines
