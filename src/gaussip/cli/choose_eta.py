"""gaussip choose-eta."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaussip.cli.columns import Features, Labels, NoFeatures, Sites, Tables, Weights, read_columns
from gaussip.cli.console import Answer, Json, progress, table
from gaussip.files import refuse_overwriting

if TYPE_CHECKING:
    from gaussip.step_size import Step

NO_GAP = 1e-6


def run(
    tables: Tables,
    components: Annotated[int, typer.Option("--components", "-k", help="Number of components K.")],
    sites: Sites = None,
    labels: Labels = None,
    weights: Weights = None,
    feature_columns: Features = None,
    others: NoFeatures = "",
    network: Annotated[
        str, typer.Option(help="ring, star, random-regular(4), circle, ..., or a .csv with columns sender, hearer.")
    ] = "ring",
    mixing: Annotated[str, typer.Option(help="row or metropolis.")] = "row",
    rounds: Annotated[
        int | None, typer.Option(help="The most rounds there may be; the least error within them is sought.")
    ] = None,
    extra: Annotated[float, typer.Option(help="Share that the bias may add to the mean squared error.")] = 0.1,
    reg_covar: Annotated[float, typer.Option(help="Added to every variance.")] = 1e-6,
    shrinkage: Annotated[float, typer.Option(help="As in the fit, in [0, 1).")] = 0.0,
    unlabelled_weight: Annotated[float, typer.Option(help="As in the fit, in [0, 1].")] = 1.0,
    weighting: Annotated[str, typer.Option(help="rows (the pooled target) or equal.")] = "rows",
    start: Annotated[str, typer.Option(help="kmeans, labels or search.")] = "kmeans",
    n_init: Annotated[int, typer.Option(help="Number of starts; the best fit counts.")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of starts and random networks.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the error over eta (.png, .svg, .pdf), with its table (.csv).")
    ] = None,
    force: Annotated[bool, typer.Option(help="Overwrite the picture and its table if they exist.")] = False,
    json: Json = False,
) -> Answer:
    """Choose eta, the step of MNEM, for a table and a network: the largest whose bias is small.

    Example: `gaussip choose-eta patients.csv --sites hospital --components 3 --network circle`
    """
    from gaussip.estimator import NetworkGaussianMixture
    from gaussip.plots import draw_eta, paths_of, save
    from gaussip.rows.sites import by_column
    from gaussip.rows.tables import read_network
    from gaussip.step_size.choice import ETAS, choose_eta

    if plot is not None:
        edges = [Path(network)] if network.endswith(".csv") else []
        refuse_overwriting(*paths_of(plot), force=force, inputs=[*tables, *edges])
    columns, _ = read_columns(tables, sites, labels, weights, feature_columns, others)
    of_row = columns.sites
    names = by_column(of_row)[1].tolist()
    mixture = NetworkGaussianMixture(
        components, algorithm="mnem", init_params=start, n_init=n_init, random_state=seed, mixing=mixing,
        network=read_network(network, names) if network.endswith(".csv") else network, weighting=weighting,
        reg_covar=reg_covar, shrinkage=shrinkage, unlabelled_weight=unlabelled_weight,
    )  # fmt: skip
    with progress(len(ETAS) + 1) as advance:
        found = choose_eta(
            mixture, columns.X, columns.labels, sites=of_row, sample_weight=columns.weights, rounds=rounds,
            extra=extra, watch=advance,
        )  # fmt: skip
    files = [] if plot is None else save(draw_eta(found), plot)
    said = {
        "sites": sites, "labels": labels, "weights": weights, "features": feature_columns, "no-features": others,
        "components": components, "network": network, "mixing": mixing, "reg-covar": reg_covar,
        "shrinkage": shrinkage, "unlabelled-weight": unlabelled_weight, "weighting": weighting, "start": start,
        "n-init": n_init, "seed": seed,
    }  # fmt: skip
    fit = f"gaussip fit {shlex.join(map(str, tables))}{_options(said)}"
    most = rounds or found.max_rounds
    end = f"--tol {found.tol:.2g} --out model.npz"
    shown = [
        f"{columns.X.num_rows} rows at {len(names)} sites, {columns.X.num_columns} features, network {network}",
        "",
        trials_table(found, rounds),
        "",
        f"eta = {found.eta:g}: about {found.rounds} rounds, bias {found.bias:.2g} standard errors of the pooled "
        f"estimate, mean squared error {found.mse:.3g} times its own",
        *_farthest(found),
        *_remarks(found, rounds),
        "",
        _terms(found),
        "",
        *([f"written: {', '.join(map(str, files))}"] if files else []),
        f"fit it: {fit} --algorithm mnem --eta {found.eta:g} --rounds {most} {end}",
        *([f"or:     {fit} {end}"] if found.exact_rounds is not None else []),
    ]
    parts = ("worst", "trials", "terms", "pooled")
    numbers = {name: value for name, value in found._asdict().items() if name not in parts}
    return Answer(
        shown, **numbers, worst=None if found.worst is None else found.worst._asdict(),
        trials=[trial._asdict() for trial in found.trials], terms=found.terms._asdict(),
        sites=names, network=network, files=[str(path) for path in files],
    )  # fmt: skip


def trials_table(found: Step, budget: int | None) -> Any:
    """What is predicted of each eta, the recommended one marked."""
    rows = [
        [
            f"{trial.eta:g}{' *' if trial.eta == found.eta else ''}",
            f"{math.ceil(trial.rounds)}",
            f"{trial.bias:.3g}",
            *([] if trial.worst is None else [f"{trial.worst:.3g}"]),
            f"{trial.mse:.3g}",
        ]
        for trial in found.trials
    ]
    worst = [] if found.worst is None else ["worst parameter"]
    spent = "" if budget is None else f" after {budget} rounds"
    return table(["eta", "rounds", "bias / standard error", *worst, f"MSE / pooled{spent}"], rows)


def _farthest(found: Step) -> list[str]:
    """The single parameter that is farthest off, and the eta that keeps each within one standard error."""
    worst = found.worst
    if worst is None:
        return []
    near = [trial.eta for trial in found.trials if trial.worst is not None and trial.worst <= 1]
    smaller = f"; eta {max(near):g} keeps each within one" if worst.errors > 1 and near else ""
    return [
        f"worst single parameter: {worst.parameter} of {worst.component} at site {worst.site}, {worst.errors:.2g} "
        f"standard errors of its own off{smaller}"
    ]


def _options(said: dict[str, Any]) -> str:
    """Options that are not what a fit takes by itself."""
    usual = {
        "network": "ring", "mixing": "row", "reg-covar": 1e-6, "shrinkage": 0.0, "unlabelled-weight": 1.0,
        "weighting": "rows", "start": "kmeans", "n-init": 1, "seed": 0,
    }  # fmt: skip
    chosen = {name: value for name, value in said.items() if value not in (None, "") and value != usual.get(name)}
    return "".join(f" --{name} {shlex.quote(str(value))}" for name, value in chosen.items())


def _remarks(found: Step, budget: int | None) -> list[str]:
    """What a user should know before taking that eta."""
    said = []
    if found.least_bias:
        said.append(
            f"no eta is good: sites do not count alike on this network, and as eta goes to zero a bias of "
            f"{found.least_bias:.2g} standard errors stays. Below this eta little more is gained; a two-way network, "
            "or one whose weights are balanced (circle), has no such bias"
        )
    (needed,) = (math.ceil(trial.rounds) for trial in found.trials if trial.eta == found.eta)
    if budget is not None and needed > budget:
        said.append(
            f"the fit ends by its {budget} rounds, not by --tol (that is about {needed} rounds), with a warning that "
            "it has not converged"
        )
    elif found.terms.spectral_gap < NO_GAP:
        said.append(
            "differences wander about this network for long (spectral gap 0): a fit that ends by --tol takes more "
            f"rounds; --rounds {found.rounds} is as good, with a warning that it has not converged"
        )
    if found.exact_rounds is None:
        said.append("the network is one-way: exact, which has no eta and no bias, needs a two-way one")
    else:
        said.append(f"exact has no eta and no bias, and needs about {found.exact_rounds} rounds on this network")
    return said


def _terms(found: Step) -> Any:
    terms = found.terms
    rows = [
        ["N, rows", f"{terms.n_rows:g}"],
        ["spectral gap of W", f"{terms.spectral_gap:.4f}"],
        ["SE(W), imbalance", f"{terms.se_w:.4f}"],
        ["SE(F), heterogeneity", f"{terms.se_f:.4f}"],
        ["rate of EM (L_max)", f"{terms.rate:.4f}"],
        ["standard error of the pooled estimate", f"{found.standard_error:.4f}"],
    ]
    return table(["what it depends on", ""], rows)
