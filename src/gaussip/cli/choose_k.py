"""gaussip choose-k."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaussip.cli import options
from gaussip.cli.console import Answer, Json, drawn, progress
from gaussip.errors import worded
from gaussip.files import refuse_overwriting
from gaussip.settings import default

if TYPE_CHECKING:
    from gaussip.selection import Selection


def run(
    tables: options.Tables,
    sites: options.Sites = None,
    labels: options.Labels = None,
    weights: options.Weights = None,
    feature_columns: options.Features = None,
    others: options.NoFeatures = "",
    na_values: options.NaValues = "",
    at_least: Annotated[int, options.option("at_least")] = default("at_least"),
    at_most: Annotated[int, options.option("at_most")] = default("at_most"),
    types: Annotated[
        str, typer.Option("--types", help="Covariance types to choose from, with commas: full,tied,diag,VEV.")
    ] = default("covariance_type"),
    criterion: Annotated[str, options.option("criterion")] = default("criterion"),
    reg_covar: options.RegCovar = default("reg_covar"),
    device: options.Device = default("device"),
    seed: options.Seed = default("random_state"),
    plot: Annotated[Path | None, options.drawn("the criteria over K")] = None,
    force: options.Overwrite = False,
    json: Json = False,
) -> Answer:
    """Choose the number of components across the sites of a table, by criteria on which all sites agree.

    Example: `gaussip choose-k patients.csv --sites hospital --max 8 --plot criteria.png`
    """
    from gaussip.plots import draw_criteria, paths_of, save
    from gaussip.selection import choose_components

    if plot is not None:
        refuse_overwriting(*paths_of(plot), plot.with_suffix(".svg"), force=force, inputs=tables)
    named = options.Named(sites, labels, weights, feature_columns, others, na_values)
    columns, _ = options.read_columns(tables, named)
    of_row = columns.sites
    assert of_row is not None
    kinds, looks = [kind.strip() for kind in types.split(",")], [0]

    with progress(len(kinds) * at_most + 1) as advance:

        def follow(K: int, steps: int) -> None:
            if looks[-1] != K:
                looks.append(K)
            advance(f"K = {K}, {steps} sums", len(looks) - 1)

        selection = choose_components(
            columns.X, columns.labels, sites=of_row, sample_weight=columns.weights, at_least=at_least,
            at_most=at_most, covariance_types=kinds, criterion=criterion, reg_covar=reg_covar, device=device,
            random_state=seed, watch=follow,
        )  # fmt: skip
    files = [] if plot is None else save(draw_criteria(selection), plot, also=".svg")
    K, ended = selection.n_components, worded(selection.ended, options.as_option)
    settings = {
        "reg_covar": reg_covar, "random_state": seed, "device": device, "n_components": K,
        "covariance_type": selection.covariance_type,
    }  # fmt: skip
    fit = options.fit_command(tables, named, settings | {"init_params": "search"})
    shown = [
        f"{columns.X.num_rows} rows at {len(set(of_row.tolist()))} sites, {columns.X.num_columns} features",
        "",
        drawn(selection.table()),
        "",
        *_verdict(selection),
        *([ended] if ended else []),
        *([f"it is the last K that was looked at: try --max {2 * at_most}"] if at_most == K and not ended else []),
        f"fit it: {fit} --out model.npz",
        *([f"written: {', '.join(map(str, files))}"] if files else []),
    ]
    return Answer(
        shown, components=K, covariance_type=selection.covariance_type, criterion=criterion, ended=ended,
        margin=selection.margin if len(selection.sound) > 1 else None,
        lines=[line._asdict() for line in selection.lines], files=[str(path) for path in files],
    )  # fmt: skip


def _any_degenerate(selection: Selection) -> bool:
    return len(selection.sound) < len(selection.lines)


def _verdict(selection: Selection) -> list[str]:
    """Which K is best, and what that means."""
    K, name = selection.n_components, selection.criterion.upper()
    if len(selection.lines) == 1:
        return [f"K = {K} is the only one that was looked at: there was nothing to compare it with"]
    what = f"K = {K}" + f" of type {selection.covariance_type}" * selection.several_types
    lines = [f"{what} has the least {name}, {selection.margin:.4g} less than the next best{_strength(selection)}"]
    if len(selection.sound) == 1:
        lines = [f"{what} is the only one that is not degenerate: there was nothing to compare it with"]
    elif K > 1:
        lines.append(f"{name} counts Gaussians: a group that is skewed, or otherwise not Gaussian, counts as several")
    if _any_degenerate(selection):
        lines.append(
            "degenerate: whatever the start, the rows of some component have the same value of that feature, or are "
            "too few; its likelihood depends on --reg-covar alone. Leave such features out with --no-features"
        )
    return lines


def _strength(selection: Selection) -> str:
    """What a difference of BIC says, after Kass and Raftery (1995)."""
    if selection.criterion != "bic":
        return ""
    for least, word in ((10, "very strong evidence"), (6, "strong evidence"), (2, "some evidence")):
        if selection.margin > least:
            return f": {word}"
    return ": hardly more than chance; look at both"
