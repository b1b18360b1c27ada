"""gaussip diagnose."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gaussip.cli.console import Answer, Json
from gaussip.cli.options import Overwrite
from gaussip.files import refuse_overwriting


def run(
    path: Annotated[
        Path, typer.Argument(metavar="RUN", help="A model written by gaussip fit, or a real site's folder.")
    ],
    plot: Annotated[Path | None, typer.Option(help="Draw the history with the findings marked (.png, .svg).")] = None,
    force: Overwrite = False,
    json: Json = False,
) -> Answer:
    """Why a fit failed, or may not be trusted: from its history, without a row, with what to do about it.

    Exit codes: 0 judged, whatever was found, 2 not a run that can be judged.

    Example: `gaussip diagnose model.npz --plot why.png`
    """
    from gaussip.diagnosis import evidence_of
    from gaussip.findings import examine
    from gaussip.plots import draw_diagnosis, paths_of, save

    if plot is not None:
        refuse_overwriting(*paths_of(plot), force=force, inputs=[path])
    seen = evidence_of(path)
    diagnosis = examine(seen)
    files = [] if plot is None else [str(file) for file in save(draw_diagnosis(seen, diagnosis.findings), plot)]
    state = "converged" if seen.converged else "not converged" if seen.over else "still running"
    head = f"{seen.path}: {seen.algorithm}, {len(seen.names)} sites, {state} after {seen.rounds} rounds"
    shown: list[Any] = [f"{head}, change {seen.change[-1]:.2g}", ""]
    for finding in diagnosis.findings:
        numbers = ", ".join(f"{name} {_number(value)}" for name, value in finding.evidence.items())
        shown += [finding.name, f"  {finding.sentence}", f"  evidence: {numbers}", f"  remedy: {finding.remedy}", ""]
    if not diagnosis.findings:
        shown += ["nothing was found", ""]
    elif seen.private:
        shown += ["each remedy is another private fit, whose budget adds to what was spent", ""]
    shown.append(f"looked for: {', '.join(diagnosis.judged)}")
    shown += [f"not judged: {name} ({why})" for name, why in diagnosis.not_judged.items()]
    shown += [f"written: {', '.join(files)}"] if files else []
    return Answer(
        shown, run=str(path), findings=[finding.as_json() for finding in diagnosis.findings], judged=diagnosis.judged,
        not_judged=diagnosis.not_judged, rounds=seen.rounds, converged=seen.converged, files=files,
    )  # fmt: skip


def _number(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(str, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)
