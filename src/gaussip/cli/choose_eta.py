"""gaussip choose-eta."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gaussip.cli import options
from gaussip.cli.console import Answer, Json, progress, table
from gaussip.files import refuse_overwriting
from gaussip.settings import default

if TYPE_CHECKING:
    from gaussip.step_size import Step

NO_GAP = 1e-6


def run(
    tables: options.Tables,
    components: options.Components,
    sites: options.Sites = None,
    labels: options.Labels = None,
    weights: options.Weights = None,
    feature_columns: options.Features = None,
    others: options.NoFeatures = "",
    na_values: options.NaValues = "",
    network: options.Network = default("network"),
    mixing: options.Mixing = default("mixing"),
    rounds: Annotated[int | None, options.option("rounds")] = default("rounds"),
    extra: Annotated[float, options.option("extra")] = default("extra"),
    reg_covar: options.RegCovar = default("reg_covar"),
    shrinkage: options.Shrinkage = default("shrinkage"),
    unlabelled_weight: options.UnlabelledWeight = default("unlabelled_weight"),
    weighting: options.Weighting = default("weighting"),
    start: Annotated[str, options.option("init_params")] = default("init_params"),
    n_init: options.Starts = default("n_init"),
    seed: options.Seed = default("random_state"),
    plot: Annotated[Path | None, options.drawn("the error over eta")] = None,
    force: options.Overwrite = False,
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
    named = options.Named(sites, labels, weights, feature_columns, others, na_values)
    columns, _ = options.read_columns(tables, named)
    of_row = columns.sites
    names = by_column(of_row)[1].tolist()
    settings: dict[str, Any] = {
        "n_components": components, "network": network, "mixing": mixing, "reg_covar": reg_covar,
        "shrinkage": shrinkage, "unlabelled_weight": unlabelled_weight, "weighting": weighting, "init_params": start,
        "n_init": n_init, "random_state": seed,
    }  # fmt: skip
    joining = read_network(network, names) if network.endswith(".csv") else network
    mixture = NetworkGaussianMixture(**{**settings, "network": joining, "algorithm": "mnem"})
    with progress(len(ETAS) + 1) as advance:
        step = choose_eta(
            mixture, columns.X, columns.labels, sites=of_row, sample_weight=columns.weights, rounds=rounds,
            extra=extra, watch=advance,
        )  # fmt: skip
    files = [] if plot is None else save(draw_eta(step), plot)
    fit = options.fit_command(tables, named, settings)
    most = rounds or step.max_rounds
    end = f"--tol {step.tol:.2g} --out model.npz"
    shown = [
        f"{columns.X.num_rows} rows at {len(names)} sites, {columns.X.num_columns} features, network {network}",
        "",
        trials_table(step, rounds),
        "",
        f"eta = {step.eta:g}: about {step.rounds} rounds, bias {step.bias:.2g} standard errors of the pooled "
        f"estimate, mean squared error {step.mse:.3g} times its own",
        *_farthest(step),
        *_remarks(step, rounds),
        "",
        _terms(step),
        "",
        *([f"written: {', '.join(map(str, files))}"] if files else []),
        f"fit it: {fit} --algorithm mnem --eta {step.eta:g} --rounds {most} {end}",
        f"or:     {fit} {end}",
    ]
    parts = ("worst", "trials", "terms", "pooled")
    numbers = {name: value for name, value in step._asdict().items() if name not in parts}
    return Answer(
        shown, **numbers, worst=None if step.worst is None else step.worst._asdict(),
        trials=[trial._asdict() for trial in step.trials], terms=step.terms._asdict(),
        sites=names, network=network, files=[str(path) for path in files],
    )  # fmt: skip


def trials_table(step: Step, budget: int | None) -> Any:
    """What is predicted of each eta, the recommended one marked."""
    rows = [
        [
            f"{trial.eta:g}{' *' if trial.eta == step.eta else ''}",
            f"{math.ceil(trial.rounds)}",
            f"{trial.bias:.3g}",
            *([] if trial.worst is None else [f"{trial.worst:.3g}"]),
            f"{trial.mse:.3g}",
        ]
        for trial in step.trials
    ]
    worst = [] if step.worst is None else ["worst parameter"]
    spent = "" if budget is None else f" after {budget} rounds"
    return table(["eta", "rounds", "bias / standard error", *worst, f"MSE / pooled{spent}"], rows)


def _farthest(step: Step) -> list[str]:
    """The single parameter that is farthest off, and the eta that keeps each within one standard error."""
    worst = step.worst
    if worst is None:
        return []
    near = [trial.eta for trial in step.trials if trial.worst is not None and trial.worst <= 1]
    smaller = f"; eta {max(near):g} keeps each within one" if worst.errors > 1 and near else ""
    return [
        f"worst single parameter: {worst.parameter} of {worst.component} at site {worst.site}, {worst.errors:.2g} "
        f"standard errors of its own off{smaller}"
    ]


def _remarks(step: Step, budget: int | None) -> list[str]:
    """What a user should know before taking that eta."""
    remarks = []
    if step.least_bias:
        remarks.append(
            f"no eta is good: sites do not count alike on this network, and as eta goes to zero a bias of "
            f"{step.least_bias:.2g} standard errors stays. Below this eta little more is gained; a two-way network, "
            "or one whose weights are balanced (circle), has no such bias"
        )
    (needed,) = (math.ceil(trial.rounds) for trial in step.trials if trial.eta == step.eta)
    if budget is not None and needed > budget:
        remarks.append(
            f"the fit ends by its {budget} rounds, not by --tol (that is about {needed} rounds), with a warning that "
            "it has not converged"
        )
    elif step.terms.spectral_gap < NO_GAP:
        remarks.append(
            "differences wander about this network for long (spectral gap 0): a fit that ends by --tol takes more "
            f"rounds; --rounds {step.rounds} is as good, with a warning that it has not converged"
        )
    remarks.append("masked, the default algorithm, has no eta and no bias, on any network")
    return remarks


def _terms(step: Step) -> Any:
    terms = step.terms
    rows = [
        ["N, rows", f"{terms.n_rows:g}"],
        ["spectral gap of W", f"{terms.spectral_gap:.4f}"],
        ["SE(W), imbalance", f"{terms.se_w:.4f}"],
        ["SE(F), heterogeneity", f"{terms.se_f:.4f}"],
        ["rate of EM (L_max)", f"{terms.rate:.4f}"],
        ["standard error of the pooled estimate", f"{step.standard_error:.4f}"],
    ]
    return table(["what it depends on", ""], rows)
