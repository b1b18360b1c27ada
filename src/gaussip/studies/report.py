"""A study's report: tables, figures with their tables, published numbers, and one page that brings them together."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gaussip.plots.drawing import write_csv
from gaussip.studies.cells import POOLED, matches
from gaussip.studies.claims import Verdict, verdicts
from gaussip.studies.costs import Cost, cost_table, costs
from gaussip.studies.design import ORDER, of_text
from gaussip.studies.drawing import draw_figure, draw_networks
from gaussip.studies.folder import Folder
from gaussip.studies.page import Page
from gaussip.studies.parts import Published
from gaussip.studies.results import CURVES, SUMMARY, NotRunError, Results
from gaussip.studies.storage import write_texts

FEW = 10  # data sets: a standard error of fewer says little


class Comparison(NamedTuple):
    """A published number and the study's."""

    cell: str
    round: int | str
    source: str
    published: float
    measured: float
    standard_error: float
    difference: float
    allowed: float  #: NaN where nothing was asked for
    verdict: str  #: reproduced, not reproduced, reported (nothing was asked for), not run or round not reached
    note: str


class Report(NamedTuple):
    """What was made, and what it says."""

    folder: Path
    files: list[Path]
    comparisons: list[Comparison]
    verdicts: list[Verdict]
    missing: int  #: cells that were not run
    reduced: bool  #: whether there are fewer data sets or rounds than the design has
    summary: list[dict[str, Any]]  #: what each cell ended with


def report(folder: Folder) -> Report:
    """Make a study's report from its cells; it names those that are missing."""
    results, design = folder.results(), folder.design
    out = folder.path / "report"
    out.mkdir(exist_ok=True)
    files: list[Path] = []
    page = Page(design.title, design.about)
    if design.cells:
        name = design.name if design.name in ORDER else f"{design.name}.toml"
        limit = f" --rounds {design.most_rounds}" if design.most_rounds else ""
        page.paragraph(
            f"{design.replicates} data set{'s' * (design.replicates > 1)} in each of {len(design.cells)} cells, seed "
            f"{design.seed}. Run with "
            f"`gaussip study run {name} --replicates {design.replicates}{limit}`."
        )
    reduced = design.settings != of_text(design.text, design.name).settings
    if reduced:
        page.paragraph("This is a reduced run: with all data sets and rounds of the design verdicts may be others.")
    if results.missing:
        page.paragraph(
            f"{len(results.missing)} cells have not been run; a run into the same folder goes on with them."
        )
    drawn, networks = draw_networks(design, out)
    files += drawn
    for path in drawn:
        if path.suffix == ".png":
            page.image(path.name, path.stem)
    if networks:
        page.table(["network", "SE(W)", "sigma_w", "spectral gap"], networks)
    for figure in design.figures:
        made = draw_figure(results, figure, out)
        files += made
        if made:
            page.image(f"{figure.name}.png", figure.title)
            page.paragraph(f"{figure.title}. Drawn from `{figure.name}.csv`.")
        else:
            page.paragraph(f"{figure.title}: none of the cells has been run.")
    if design.levels:
        spent = costs(results)
        files.append(_csv(out / "costs.csv", Cost._fields, (cost._asdict() for cost in spent)))
        page.heading("Rounds and bytes to the pooled estimate")
        page.paragraph(
            "Medians over data sets of the rounds, and of the megabytes sent over the whole network, until the "
            "distance is at most so much; nothing where fewer than half of the data sets arrive. `costs.csv` has the "
            "worst too."
        )
        page.table(*cost_table(spent))
    compared, judged = comparisons(results), verdicts(results)
    lines = sorted(results.summary(), key=lambda line: line["method"] == POOLED)
    if compared:
        page.heading("Published and measured")
        page.table([name.replace("_", " ") for name in Comparison._fields], compared)
        files.append(_csv(out / "published.csv", Comparison._fields, (line._asdict() for line in compared)))
    if judged:
        page.heading("Claims")
        for claim in judged:
            page.paragraph(f"{claim.verdict.capitalize()}: {claim.text}.")
            page.items(claim.evidence)
        rows = ({**claim._asdict(), "evidence": "; ".join(claim.evidence)} for claim in judged)
        files.append(_csv(out / "claims.csv", Verdict._fields, rows))
    if design.cells:
        files += _tables(results, out)
        page.heading("All cells, after their last round")
        ends = ("round", "log_mse", "standard_error", "mse_ratio", "distance", "collapsed")
        shown = [*design.varying, *ends]
        page.table([key.replace("_", " ") for key in shown], [[_short(line, key) for key in shown] for line in lines])
        page.paragraph("`summary.csv` has all columns, `curves.csv` and `curves.parquet` every round looked at.")
    files += write_texts(out, {"report.md": page.markdown, "report.html": page.html})
    return Report(out, files, compared, judged, len(results.missing), reduced, lines)


def comparisons(results: Results) -> list[Comparison]:
    """Every published number of the design beside the study's."""
    return [_compared(results, published) for published in results.design.published]


def _compared(results: Results, published: Published) -> Comparison:
    (cell,) = [cell for cell in results.design.cells if matches(cell.values, published.where)]
    numbers = dict.fromkeys(("measured", "standard_error", "difference", "allowed"), math.nan)
    compared = Comparison(
        results.describe(cell), published.round or "end", published.source, published.value, **numbers,
        verdict="not run" if cell in results.missing else "round not reached", note=published.note,
    )  # fmt: skip
    try:
        measured = results.log_mse(cell, published.round)
    except NotRunError:
        return compared
    apart = measured.value - published.value
    limits = [] if published.within is None else [published.within]
    if published.within_errors is not None and results.design.replicates >= FEW:
        limits.append(published.within_errors * measured.error)
    verdict = "reported" if not limits else "reproduced" if abs(apart) <= max(limits) else "not reproduced"
    allowed = max(limits, default=math.nan)
    return compared._replace(
        measured=measured.value, standard_error=measured.error, difference=apart, allowed=allowed, verdict=verdict
    )


def _short(line: Mapping[str, Any], key: str) -> Any:
    value = line[key]
    if key == "round" and line["method"] == POOLED:
        return "end"
    return f"{value:.4g}" if isinstance(value, float) and value == value else value


def _tables(results: Results, out: Path) -> list[Path]:
    from gaussip.rows.table_files import write_table  # not at the top: it loads pyarrow

    curves = list(results.curves())
    parquet = out / "curves.parquet"

    def column(key: str) -> list[Any]:
        """One kind of value: what does not matter to a cell is null; fractions in turn are text."""
        values = (line[key] for line in curves)
        return [str(value) if key == "labelled" else None if value == "" else value for value in values]

    write_table(parquet, {key: column(key) for key in CURVES})
    return [_csv(out / "summary.csv", SUMMARY, results.summary()), _csv(out / "curves.csv", CURVES, curves), parquet]


def _csv(path: Path, columns: Sequence[str], lines: Iterable[Mapping[str, Any]]) -> Path:
    write_csv(path, columns, ([_number(line[key]) for key in columns] for line in lines))
    return path


def _number(value: Any) -> Any:
    """Nine digits: those beyond differ between machines and devices by rounding."""
    if isinstance(value, float):
        return f"{value:.9g}" if math.isfinite(value) else ""
    return value
