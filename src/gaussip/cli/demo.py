"""gaussip demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gaussip.cli.console import Answer, Json, progress, table


def run(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the pictures.")] = Path("out"),
    rounds: Annotated[int, typer.Option(min=1, help="Most rounds.")] = 3000,
    json: Json = False,
) -> Answer:
    """Fit breast-cancer data over eight sites, most of which see one diagnosis only.

    Example: `gaussip demo --out out`
    """
    from gaussip.demo import METHODS, run_demo

    with progress(rounds * len(METHODS)) as advance:
        found = run_demo(
            out, rounds, lambda method, now: advance(method.name, METHODS.index(method) * rounds + now.round)
        )
    lines = [
        [line.method, f"{line.log_likelihood:.3f}", f"{line.auc:.3f}", f"{line.distance:.4f}", str(line.rounds)]
        if line.collapse is None
        else [line.method, "collapsed", "", "", str(line.rounds)]
        for line in found.lines
    ]
    title = "569 breast-cancer patients, 8 sites sorted by diagnosis, 10% of the training rows labelled"
    columns = ["method", "hold-out log-likelihood", "AUC", "distance to pooled", "rounds"]
    notes = [f"{line.method}: {line.collapse}" for line in found.lines if line.collapse]
    files = [str(path) for path in found.files]
    return Answer(
        [table(columns, lines, title), "", *notes, f"written: {', '.join(files)}"],
        results=[line._asdict() for line in found.lines],
        files=files,
    )
