"""gaussip simulate."""

from typing import Annotated

import typer

from gaussip.cli.console import Answer, Json, progress, table


def run(
    algorithms: Annotated[
        str, typer.Option(help="With commas; semi- uses the labels, =ETA sets a step: semi-em,semi-mnem,ngd=0.003")
    ] = "em,local,nnem,mnem,dem,ngd=0.003",
    delta: Annotated[float, typer.Option(help="Separation of the components.")] = 2.0,
    rows: Annotated[int, typer.Option(help="Rows N over all sites.")] = 30_000,
    sites: Annotated[int, typer.Option(help="Number of sites M.")] = 20,
    spread: Annotated[str, typer.Option(help="homogeneous, heterogeneous (sorted) or dirichlet.")] = "heterogeneous",
    size_ratio: Annotated[float, typer.Option(help="Largest site over smallest.")] = 1.0,
    labelled: Annotated[float, typer.Option(help="Fraction of labelled rows at each site.")] = 0.0,
    network: Annotated[str, typer.Option(help="circle, ring, star, fixed-degree(3), ...")] = "circle",
    mixing: Annotated[str, typer.Option(help="row or metropolis.")] = "row",
    weighting: Annotated[str, typer.Option(help="rows or equal.")] = "rows",
    eta: Annotated[float, typer.Option(help="Step of those methods that are given none.")] = 0.01,
    rounds: Annotated[int, typer.Option(help="Most rounds.")] = 1000,
    noise: Annotated[
        float, typer.Option(min=0, help="Standard deviation of the starting means about the truth.")
    ] = 0.1,
    replicates: Annotated[int, typer.Option(help="Data sets.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and starts.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    json: Json = False,
) -> Answer:
    """Fit data from the paper's simulation model by several algorithms, and compare their errors.

    Example: `gaussip simulate --labelled 0.1 --algorithms semi-em,semi-mnem,nnem --rounds 3000`
    """
    from gaussip.studies.comparison import Trial, compare
    from gaussip.studies.methods import parse_method
    from gaussip.studies.simulation_model import Setting

    setting = Setting(
        n_rows=rows, n_sites=sites, delta=delta, spread=spread, size_ratio=size_ratio, labelled=labelled
    )  # fmt: skip
    methods = [parse_method(text, eta) for text in algorithms.split(",")]
    with progress(rounds * len(methods)) as advance:
        trial = Trial(
            setting, network=network, mixing=mixing, weighting=weighting, noise=noise, replicates=replicates,
            seed=seed, device=device,
        )  # fmt: skip
        scores = compare(
            trial, methods, max_rounds=rounds,
            watch=lambda method, now: advance(method.name, methods.index(method) * rounds + now.round),
        )  # fmt: skip
    lines = [
        [
            score.method.name,
            f"{score.method.eta:g}" if score.method.has_step else "",
            f"{score.log_mse:.3f}" if score.collapsed < replicates else "collapsed",
            f"{score.standard_error:.3f}" if score.standard_error == score.standard_error else "",
            str(score.rounds),
            f"{score.collapsed} of {replicates}" if score.collapsed else "",
            f"{score.seconds:.1f}",
        ]
        for score in scores
    ]
    notes = [f"{s.method.name}: {s.collapse}" for s in scores if s.collapse]
    title = f"log MSE, {spread}, delta={delta:g}, {network}, {labelled:.0%} labelled, {replicates} data set(s)"
    shown = [table(["method", "eta", "log MSE", "s.e.", "rounds", "collapsed", "seconds"], lines, title), *notes]
    return Answer(
        shown,
        setting=setting.__dict__,
        results=[
            {**score._asdict(), "method": score.method.name, "eta": score.method.eta} for score in scores
        ],
    )  # fmt: skip
