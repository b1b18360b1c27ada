"""gaussip choose-k."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaussip.cli.columns import Features, Labels, NoFeatures, Sites, Tables, Weights, read_columns
from gaussip.cli.console import Answer, Json, progress, table, with_options
from gaussip.files import refuse_overwriting

if TYPE_CHECKING:
    from gaussip.selection import Selection


def run(
    tables: Tables,
    sites: Sites = None,
    labels: Labels = None,
    weights: Weights = None,
    feature_columns: Features = None,
    others: NoFeatures = "",
    at_least: Annotated[int, typer.Option("--min", help="The first number of components.")] = 1,
    at_most: Annotated[int, typer.Option("--max", help="The last number of components.")] = 8,
    criterion: Annotated[str, typer.Option(help="bic, aic or icl.")] = "bic",
    reg_covar: Annotated[float, typer.Option(help="Added to every variance.")] = 1e-6,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the starts.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="A picture of the criteria (.png, .pdf), also as .svg, and its table (.csv).")
    ] = None,
    force: Annotated[bool, typer.Option(help="Overwrite the picture and its table if they exist.")] = False,
    json: Json = False,
) -> Answer:
    """Choose the number of components across the sites of a table, by criteria on which all sites agree.

    Example: `gaussip choose-k patients.csv --sites hospital --max 8 --plot criteria.png`
    """
    import numpy as np

    from gaussip.plots import draw_criteria, paths_of, save
    from gaussip.selection import choose_components

    if plot is not None:
        refuse_overwriting(*paths_of(plot), plot.with_suffix(".svg"), force=force, inputs=tables)
    columns, _ = read_columns(tables, sites, labels, weights, feature_columns, others)
    of_row = columns.sites
    assert of_row is not None
    X = np.column_stack([column.to_numpy() for column in columns.X.columns])
    with progress(at_most + 1) as advance:
        found = choose_components(
            X, columns.labels, sites=of_row, sample_weight=columns.weights, at_least=at_least, at_most=at_most,
            criterion=criterion, reg_covar=reg_covar, device=device, random_state=seed,
            watch=lambda K, steps: advance(f"K = {K}, {steps} passes", K),
        )  # fmt: skip
    files = [] if plot is None else save(draw_criteria(found), plot, also=".svg")
    K, ended = found.n_components, with_options(found.ended)
    said = {
        "sites": sites, "labels": labels, "weights": weights, "features": feature_columns, "no-features": others,
        "reg-covar": None if reg_covar == 1e-6 else reg_covar, "seed": seed or None,
        "device": None if device == "cpu" else device,
    }  # fmt: skip
    options = "".join(
        f" --{name} {shlex.quote(str(value))}" for name, value in said.items() if value not in (None, "")
    )
    files_named = shlex.join(map(str, tables))
    shown = [
        f"{len(X)} rows at {len(set(of_row.tolist()))} sites, {X.shape[1]} features",
        "",
        lines_table(found),
        "",
        *_verdict(found),
        *([ended] if ended else []),
        *_at_the_edge(found, at_most),
        f"fit it: gaussip fit {files_named}{options} --components {K} --start search --out model.npz",
        *([f"written: {', '.join(map(str, files))}"] if files else []),
    ]
    return Answer(
        shown, components=K, criterion=criterion, margin=found.margin if len(found.lines) > 1 else None, ended=ended,
        lines=[line._asdict() for line in found.lines], files=[str(path) for path in files],
    )  # fmt: skip


def lines_table(found: Selection) -> object:
    """The criteria of each K, the best marked."""
    rows = []
    for place, line in enumerate(found.lines):
        mark = " *" if place == found.best else ""
        values = (line.bic, line.aic, line.icl)
        rows.append(
            [f"{line.n_components}{mark}", str(line.n_parameters), f"{line.log_likelihood:.2f}"]
            + [f"{value:.2f}" for value in values]
        )
    return table(["K", "parameters", "log-likelihood", "BIC", "AIC", "ICL"], rows)


def _verdict(found: Selection) -> list[str]:
    """Which K is best, and what that means."""
    K, name = found.n_components, found.criterion.upper()
    if len(found.lines) == 1:
        return [f"K = {K} is the only one that was looked at: there was nothing to compare it with"]
    said = [f"K = {K} has the least {name}, {found.margin:.4g} less than the next best{_strength(found)}"]
    if K > 1:
        said.append(f"{name} counts Gaussians: a group that is skewed, or otherwise not Gaussian, counts as several")
    return said


def _strength(found: Selection) -> str:
    """What a difference of BIC says, after Kass and Raftery (1995)."""
    if found.criterion != "bic":
        return ""
    for least, word in ((10, "very strong evidence"), (6, "strong evidence"), (2, "some evidence")):
        if found.margin > least:
            return f": {word}"
    return ": hardly more than chance; look at both"


def _at_the_edge(found: Selection, at_most: int) -> list[str]:
    if found.n_components == at_most and not found.ended:
        return [f"it is the last K that was looked at: try --max {2 * at_most}"]
    return []
