"""gaussip network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gaussip.cli.console import Answer, Json, table


def run(
    name: Annotated[str, typer.Argument(help="circle, circle(2), ring, star, fixed-degree(3), grid, ...")],
    sites: Annotated[int, typer.Option(help="Number of sites M.")],
    mixing: Annotated[str, typer.Option(help="row or metropolis.")] = "row",
    seed: Annotated[int, typer.Option(help="Seed of networks drawn at random.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf, with its edges in a .csv.")] = None,
    json: Json = False,
) -> Answer:
    """Measure a network, and draw it.

    Example: `gaussip network "fixed-degree(3)" --sites 20 --plot network.png`
    """
    from gaussip.networks import degrees, measures, mixing_weights

    W = mixing_weights(name, range(sites), mixing, seed)
    found = measures(W)
    heard = degrees(W)
    shares = sites * found.stationary
    rows = [
        ["sites", f"{sites}"],
        ["neighbours heard", f"{heard.min():.0f} to {heard.max():.0f}"],
        ["SE(W), imbalance", f"{found.se_w:.4f}"],
        ["sigma_w, mixing", f"{found.sigma_w:.4f}"],
        ["spectral gap", f"{found.spectral_gap:.4f}"],
        ["M x stationary weight", f"{shares.min():.3f} to {shares.max():.3f}"],
    ]
    files = []
    if plot is not None:
        from gaussip.plots.network import draw_network

        files = [str(path) for path in draw_network(W, range(sites), plot, title=f"{name}, {sites} sites")]
    shown: list[object] = [table([name, ""], rows)]
    if files:
        shown.append(f"written: {', '.join(files)}")
    return Answer(
        shown, network=name, sites=sites, mixing=mixing, se_w=found.se_w, sigma_w=found.sigma_w,
        spectral_gap=found.spectral_gap, stationary=found.stationary, degrees=heard, files=files,
    )  # fmt: skip
