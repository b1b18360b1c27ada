"""gaussip network."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gaussip.cli.console import Answer, Json, table
from gaussip.cli.options import Mixing, Overwrite
from gaussip.errors import SettingError
from gaussip.files import refuse_overwriting
from gaussip.settings import default


def run(
    name: Annotated[
        str, typer.Argument(help="circle, circle(2), ring, star, fixed-degree(3), ..., or a .csv of sender, hearer.")
    ],
    sites: Annotated[
        int | None, typer.Option(min=2, max=5000, help="Number of sites M; not needed for a .csv.")
    ] = None,
    mixing: Mixing = default("mixing"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of networks drawn at random.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf, with its edges in a .csv.")] = None,
    force: Overwrite = False,
    json: Json = False,
) -> Answer:
    """Measure a network, and draw it.

    Example: `gaussip network "fixed-degree(3)" --sites 20 --plot network.png`
    """
    from gaussip.networks import degrees, measures, mixing_weights

    if name.endswith(".csv"):
        from gaussip.rows.tables import read_network

        graph = read_network(name)
        nodes: list[Any] = sorted(graph)
        W = mixing_weights(graph, nodes, mixing)
    elif sites is None:
        raise SettingError("say over how many sites the network goes, with --sites M")
    else:
        nodes = list(range(sites))
        W = mixing_weights(name, nodes, mixing, seed)
    measured = measures(W)
    heard = degrees(W)
    M = len(nodes)
    shares = M * measured.stationary
    rows = [
        ["sites", f"{M}"],
        ["neighbours heard", f"{heard.min():.0f} to {heard.max():.0f}"],
        ["SE(W), imbalance", f"{measured.se_w:.4f}"],
        ["sigma_w, mixing", f"{measured.sigma_w:.4f}"],
        ["spectral gap", f"{measured.spectral_gap:.4f}"],
        ["M x stationary weight", f"{shares.min():.3f} to {shares.max():.3f}"],
    ]
    files = []
    if plot is not None:
        from gaussip.plots import draw_network, paths_of, save

        refuse_overwriting(*paths_of(plot), force=force, inputs=[name] if name.endswith(".csv") else [])
        files = [str(path) for path in save(draw_network(W, nodes, title=f"{name}, {M} sites"), plot)]
    shown: list[object] = [table([name, ""], rows)]
    if files:
        shown.append(f"written: {', '.join(files)}")
    return Answer(
        shown, network=name, sites=nodes, mixing=mixing, se_w=measured.se_w, sigma_w=measured.sigma_w,
        spectral_gap=measured.spectral_gap, stationary=measured.stationary, degrees=heard, files=files,
    )  # fmt: skip
