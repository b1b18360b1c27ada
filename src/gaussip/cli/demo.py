"""gaussip demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from gaussip.cli.console import Answer, Json, err, progress, table
from gaussip.cli.console import out as console
from gaussip.errors import PausedError

if TYPE_CHECKING:
    from gaussip.studies.demo import Line
    from gaussip.studies.demo_sites import Outcome


def run(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the pictures.")] = Path("out"),
    rounds: Annotated[int, typer.Option(min=1, help="Most rounds.")] = 3000,
    json: Json = False,
) -> Answer:
    """Fit breast-cancer data over eight sites, most of which have one diagnosis only.

    First all methods, with the sites simulated in one process; then the sites as processes, one of which is killed.

    Example: `gaussip demo --out out`
    """
    from gaussip.studies.demo import METHODS, run_demo

    with progress(rounds * len(METHODS)) as advance:
        results, paths = run_demo(
            out, rounds, lambda method, now: advance(method.name, METHODS.index(method) * rounds + now.round)
        )
    lines = [
        [line.method, f"{line.log_likelihood:.3f}", f"{line.auc:.3f}", f"{line.distance:.4f}", *_spent(line)]
        if line.collapse is None
        else [line.method, "collapsed", "", "", *_spent(line)]
        for line in results
    ]
    title = "569 breast-cancer patients, 8 sites sorted by diagnosis, 10% of the training rows labelled"
    columns = ["method", "hold-out log-likelihood", "AUC", "distance to pooled", "rounds", "exchanges"]
    notes = [f"{line.method}: {line.collapse}" for line in results if line.collapse]
    files = [str(path) for path in paths]
    shown = [table(columns, lines, title), "", *notes, f"written: {', '.join(files)}", ""]
    if not json:
        for part in shown:
            console.print(part)
    ended = _sites(out, rounds, quiet=json)
    verdict = f"{sum(ended.equal)} of {len(ended.sites)} models are the simulation's, bit for bit"
    last = (
        f"8 sites as processes over mutual TLS, masked sums: a search for a start, then {ended.rounds} rounds, "
        f"{ended.exchanges} exchanges in {ended.seconds:.0f} s. {ended.killed} was killed after exchange "
        f"{ended.killed_in} and resumed: {verdict}. Their folders, logs and models: {ended.folder}"
    )
    if not all(ended.equal):
        raise PausedError(last)
    return Answer(
        [last], results=[line._asdict() for line in results], files=files,
        sites={**ended._asdict(), "folder": str(ended.folder)},
    )  # fmt: skip


def _spent(line: Line) -> list[str]:
    return [str(line.rounds), str(line.exchanges) if line.exchanges else ""]


def _sites(out: Path, rounds: int, quiet: bool) -> Outcome:
    """Run the sites, with a live table of their states."""
    from gaussip.studies.demo_sites import run_sites

    if quiet:
        return run_sites(out, rounds)

    def drawn(statuses: list[dict[str, Any]], note: str) -> Table:
        rows = [
            [
                status["site"], status.get("state", "starting"), status.get("phase", ""),
                str(status.get("exchange", "")), str(status.get("round", "")), _number(status.get("change")),
            ]
            for status in statuses
        ]  # fmt: skip
        columns = ["site", "state", "now", "exchange", "round", "change"]
        return table(columns, rows, f"8 sites, 8 processes, mutual TLS: {note}", texts=["state", "now"])

    with Live(console=err, refresh_per_second=4, transient=False) as live:
        outcome = run_sites(out, rounds, lambda statuses, note: live.update(drawn(statuses, note)))
    if not err.is_terminal:
        err.print()  # the table was drawn once, without an end of line
    return outcome


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
