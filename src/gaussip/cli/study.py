"""gaussip study."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaussip.cli.console import Answer, Json, command, progress, table
from gaussip.errors import SettingError

if TYPE_CHECKING:
    from gaussip.studies.features.design import FeatureDesign
    from gaussip.studies.features.report import FeatureReport
    from gaussip.studies.parts import Design
    from gaussip.studies.report import Report

MANY = 12  # lines of a table on the terminal
app = typer.Typer(
    help="Simulation studies: the paper's figures, and your own designs.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
Name = Annotated[
    str, typer.Argument(help="A study of `gaussip study list`, or the path of your own design, a .toml file.")
]


@contextmanager
def resumable(folder: Path, parts: str) -> Iterator[Callable[[str, float], None]]:
    """A progress bar for work that Ctrl-C interrupts; the parts that are done stay in a folder."""
    try:
        with progress(1000, percent=True) as advance:
            yield lambda text, part: advance(text, int(1000 * part))
    except KeyboardInterrupt:
        kept = f"{folder} keeps the {parts} that are done, and the same command resumes"
        raise KeyboardInterrupt(f"interrupted; {kept if folder.exists() else 'nothing was written'}") from None


@app.command("list")
@command
def list_(json: Json = False) -> Answer:
    """The studies that come with gaussip.

    Example: `gaussip study list`
    """
    from gaussip.studies.design import ORDER, load
    from gaussip.studies.features.design import load as load_features

    designs: dict[str, Design | FeatureDesign] = {name: load(name) for name in ORDER}
    designs["xray"] = load_features("xray").design
    rows = [
        [name, *(map(str, (len(design.cells), design.replicates)) if design.cells else ("", "")), design.title]
        for name, design in designs.items()
    ]
    studies = [
        {"name": name, "title": design.title, "cells": len(design.cells), "replicates": design.replicates}
        for name, design in designs.items()
    ]
    return Answer([table(["study", "cells", "data sets", "title"], rows, texts=["title"])], studies=studies)


@app.command()
@command
def show(name: Name, json: Json = False) -> Answer:
    """A study's design: what it runs, and its TOML to begin your own from.

    Example: `gaussip study show figure2 > mine.toml`
    """
    from gaussip.studies.design import load
    from gaussip.studies.features.design import is_of_features
    from gaussip.studies.features.design import load as load_features

    design: Design | FeatureDesign
    if is_of_features(name):
        study, design, toml = load_features(name)
    else:
        design = load(name)
        study, toml = design.name, design.text
    return Answer(
        [toml.rstrip()], name=study, title=design.title, about=design.about, toml=toml, **design.settings
    )  # fmt: skip


@app.command()
@command
def run(
    name: Name,
    replicates: Annotated[
        int | None, typer.Option(min=1, help="Data sets in each cell; the design's by default.")
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="No cell goes further, but the whole sample's EM, which runs to its end."),
    ] = None,
    where: Annotated[
        str, typer.Option(help="Only the cells with these values: delta=2,spread=heterogeneous (of drawn data).")
    ] = "",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    jobs: Annotated[int, typer.Option(min=1, help="Processes that share the cells (of drawn data).")] = 1,
    data: Annotated[
        Path | None,
        typer.Option(
            help="For xray, or a design of kind = 'features': the table of features (.npz, .parquet, .csv)."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of results; studies/NAME by default.")] = None,
    json: Json = False,
) -> Answer:
    """Run a study, or resume one that was interrupted, and make its report.

    Example: `gaussip study run figure2 --replicates 5 --rounds 500 --jobs 2`
    """
    from gaussip.studies.features.design import is_of_features

    if is_of_features(name):
        if where or jobs > 1:
            raise SettingError("a study of a feature table runs in one process, wholly: leave --where and --jobs out")
        return _run_features(name, replicates, rounds, device, data, out)
    from gaussip.arrays import to_device
    from gaussip.studies.cells import parse_where
    from gaussip.studies.design import load
    from gaussip.studies.report import report as make_report
    from gaussip.studies.run import run as run_study

    design, chosen = load(name, replicates, rounds), parse_where(where)
    if data is not None:
        raise SettingError(f"{name} draws its own data: leave --data out")
    to_device(0.0, device)  # rejects a device that is not there before anything is written
    folder = out or Path("studies") / design.name
    with resumable(folder, "cells") as watch:
        return _answer(make_report(run_study(design, folder, where=chosen, device=device, jobs=jobs, watch=watch)))


@app.command()
@command
def report(
    folder: Annotated[Path, typer.Argument(help="A folder of results.")],
    json: Json = False,
) -> Answer:
    """Make a study's tables, figures and page again, from the cells that are done.

    Example: `gaussip study report studies/figure2`
    """
    from gaussip.studies.features.folder import FeatureFolder, holds_features
    from gaussip.studies.features.report import report as make_features_report
    from gaussip.studies.folder import Folder
    from gaussip.studies.report import report as make_report

    try:
        if holds_features(folder):
            return _features_answer(make_features_report(FeatureFolder.for_report(folder)))
        return _answer(make_report(Folder.for_report(folder)))
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the cells are kept, make the report again") from None


def _run_features(
    name: str, replicates: int | None, rounds: int | None, device: str, data: Path | None, out: Path | None
) -> Answer:
    from gaussip.arrays import to_device
    from gaussip.studies.features.design import load
    from gaussip.studies.features.report import report as make_report
    from gaussip.studies.features.run import run as run_study
    from gaussip.studies.features.table import read_features

    loaded = load(name, replicates, rounds)
    if data is None:
        raise SettingError(
            f"{loaded.name} needs a table of features: --data FILE. Make one with gaussip xray features, bring your "
            "own, or try it on the synthetic one of gaussip xray stand-in"
        )
    to_device(0.0, device)
    folder = out or Path("studies") / loaded.name
    with resumable(folder, "fits") as watch:
        done = run_study(loaded, read_features(data), folder, device=device, watch=watch)
        return _features_answer(make_report(done))


def _features_answer(made: FeatureReport) -> Answer:
    from gaussip.studies.features.report import unfinished

    parts: list[object] = ["AUC on the common hold-out, mean over sites and splits"]
    for mode in dict.fromkeys(line.mode for line in made.lines):
        here = [line for line in made.lines if line.mode == mode]
        rows = [
            [
                line.method.removeprefix("semi-"),
                *(f"{value:.3f}" for value in line.mean),
                f"collapsed in {line.collapsed} of {len(line.auc)}" if line.collapsed else "",
            ]
            for line in here
        ]
        parts.append(table([mode, *made.classes, ""], rows, texts=[""]))
        parts += [f"{mode}: {text}" for text in unfinished(here)]
    lines = [
        {"mode": line.mode, "method": line.method, "auc": dict(zip(made.classes, line.mean.tolist(), strict=True)),
         "distance": line.distance, "rounds": line.rounds, "converged": line.converged, "collapsed": line.collapsed}
        for line in made.lines
    ]  # fmt: skip
    return _finished(made, parts, "splits", "numbers", "fits", lines=lines, published=made.published)


def _answer(made: Report) -> Answer:
    from gaussip.studies.page import shown

    parts: list[object] = []
    few = [line for line in made.comparisons if line.verdict != "reproduced"]
    if made.comparisons:
        columns = ["cell", "round", "published", "measured", "s.e.", "verdict"]
        rows = [
            [*map(shown, (line.cell, line.round, line.published, line.measured, line.standard_error)), line.verdict]
            for line in (made.comparisons if len(made.comparisons) <= MANY else few)
        ]
        good = len(made.comparisons) - len(few)
        title = f"published and measured log MSE: {good} of {len(made.comparisons)} reproduced"
        parts.append(table(columns, rows, title, ["verdict"]))
    if made.verdicts:
        verdicts = [[claim.verdict, claim.text] for claim in made.verdicts]
        parts.append(table(["verdict", "claim"], verdicts, texts=["claim"]))
    return _finished(
        made, parts, "data sets", "verdicts", "cells", cells=made.summary,
        published=[line._asdict() for line in made.comparisons], claims=[claim._asdict() for claim in made.verdicts],
    )  # fmt: skip


def _finished(
    made: Report | FeatureReport, parts: list[object], samples: str, findings: str, runs: str, **result: object
) -> Answer:
    """The answer about a report of either kind."""
    if made.reduced:
        parts.append(f"a reduced run: with all {samples} and rounds of the design {findings} may be others")
    if made.missing:
        parts.append(f"{made.missing} {runs} have not been run")
    parts.append(f"report: {made.folder / 'report.html'} (and report.md)")
    files = [str(path) for path in made.files]
    return Answer(parts, folder=str(made.folder), files=files, missing=made.missing, reduced=made.reduced, **result)
