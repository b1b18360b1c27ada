"""The report of a study of a feature table: the sites' classes, AUC by method and class, and published numbers."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.plots import Box, draw_bars, draw_boxes, save
from gaussip.plots.drawing import write_csv
from gaussip.studies.cells import POOLED
from gaussip.studies.features.design import Cell, of_text
from gaussip.studies.features.folder import FeatureFolder
from gaussip.studies.methods import parse_method
from gaussip.studies.page import Page
from gaussip.studies.storage import write_texts

CLOSE = 0.01  # of AUC: as good as the whole sample's


class Line(NamedTuple):
    """One method in one mode."""

    cell: Cell
    mode: str
    method: str
    auc: NDArray  #: (R, C), the mean over sites in each replicate
    apart: NDArray  #: (C,), standard deviation over sites, mean over replicates
    distance: float  #: of the sites from the whole sample's estimate, mean over replicates
    rounds: int  #: the most
    converged: int  #: replicates
    collapsed: int

    @property
    def mean(self) -> NDArray:
        """(C,)."""
        return np.asarray(self.auc.mean(axis=0))


class FeatureReport(NamedTuple):
    """What was made, and what it says."""

    folder: Path
    files: list[Path]
    classes: list[str]
    lines: list[Line]
    published: list[dict[str, Any]]
    missing: int  #: fits that were not run
    reduced: bool


def report(folder: FeatureFolder) -> FeatureReport:
    """Make the report from what is done."""
    design, classes = folder.design, folder.about["classes"]
    out = folder.path / "report"
    out.mkdir(exist_ok=True)
    lines = [line for cell in design.cells for line in _lines(folder, cell)]
    modes = list(dict.fromkeys(line.mode for line in lines))
    lines.sort(key=lambda line: (modes.index(line.mode), line.method != "start"))
    missing = sum(len(folder.missing(cell)) for cell in design.cells)
    whole_design = of_text(folder.text, folder.name).design
    reduced = design.replicates < whole_design.replicates or design.rounds < whole_design.rounds
    name = folder.name if folder.name == "xray" else f"{folder.name}.toml"
    page = Page(design.title, design.about.strip())
    page.paragraph(
        f"{folder.about['rows']} rows at {len(folder.about['sites'])} sites; {folder.about['features']} features, of "
        f"which {folder.about['dimensions']} principal components keep {folder.about['explained']:.1%} of the "
        f"variance (basis {folder.about['basis'][:12]}, agreed on over a {design.two_way}). {design.replicates} "
        f"splits, seed {design.seed}; run with `gaussip study run {name} --data TABLE`."
    )
    if reduced:
        page.paragraph("This is a reduced run: fewer splits or rounds than the design has.")
    if missing:
        page.paragraph(f"{missing} fits have not been run; a run into the same folder goes on with them.")
    files: list[Path] = [*_sites(folder, page, out)]
    if lines:
        files += _boxes(lines, classes, page, out, folder.name)
        files.append(_table(lines, classes, page, out))
        _findings(lines, page)
    published = _published(folder, lines)
    if published:
        page.heading("Published and measured")
        columns = ["class", "method", "published", "measured", "difference"]
        page.table(columns, [[line[key] for key in columns] for line in published])
    if design.differs:
        page.heading("What differs")
        page.items(design.differs)
    files += write_texts(out, {"report.md": page.markdown, "report.html": page.html})
    return FeatureReport(out, files, classes, lines, published, missing, reduced)


def _lines(folder: FeatureFolder, cell: Cell) -> list[Line]:
    """The line of a cell, and before the whole sample's that of the start."""
    done = folder.read(cell)
    if not done:
        return []
    pooled, mode = cell.method.algorithm == POOLED, "labels" if cell.method.semi else "no labels"
    if cell.unlabelled_weight != 1:
        mode += f", unlabelled rows count {cell.unlabelled_weight:g}"
    auc = np.stack([replicate["auc"] for replicate in done])
    distance = 0.0 if pooled else float(np.mean([replicate.get("distance", np.nan) for replicate in done]))
    line = Line(
        cell, mode, cell.method.label, auc.mean(axis=1), auc.std(axis=1).mean(axis=0), distance,
        rounds=max(int(replicate["rounds"]) for replicate in done),
        converged=sum(bool(replicate["converged"].all()) for replicate in done),
        collapsed=sum(bool((replicate["collapsed"] > 0).any()) for replicate in done),
    )  # fmt: skip
    if not pooled:
        return [line]
    start = np.stack([replicate["start_auc"] for replicate in done])
    far = float(np.mean([replicate["start_distance"] for replicate in done]))
    return [Line(cell, mode, "start", start, np.zeros(start.shape[1]), far, 0, 0, 0), line]


def _sites(folder: FeatureFolder, page: Page, out: Path) -> list[Path]:
    head, rows = folder.counts()
    counts = np.array([[int(cell) for cell in row[1:]] for row in rows])
    title = "Classes at each site" + " (the paper's figure 5)" * (folder.name == "xray")
    drawing = draw_bars(counts, [row[0] for row in rows], head[1:], title=title)
    page.heading("Who holds what")
    page.image("sites.png", title)
    page.table(head, rows)
    return save(drawing, out / "sites.png", also=".svg")


def _boxes(lines: list[Line], classes: list[str], page: Page, out: Path, study: str) -> list[Path]:
    title = "AUC on the common hold-out, mean over sites, for each split"
    title += " (the paper's figure 6)" * (study == "xray")
    boxes = [
        Box(line.mode, name, line.method.removeprefix("semi-"), line.auc[:, c].tolist())
        for line in lines
        for c, name in enumerate(classes)
    ]
    page.heading("AUC")
    page.image("auc.png", title)
    return save(draw_boxes(boxes, title=title, ylabel="AUC"), out / "auc.png", also=".svg")


def _table(lines: list[Line], classes: list[str], page: Page, out: Path) -> Path:
    columns = ["mode", "method", *classes, "distance", "way gone", "rounds", "converged", "collapsed"]
    far = {line.mode: line.distance for line in lines if line.method == "start"}
    rows = [
        [line.mode, line.method, *line.mean.tolist(), line.distance, _way(line, far), line.rounds, line.converged,
         line.collapsed]
        for line in lines
    ]  # fmt: skip
    page.paragraph(
        "Means over splits and sites. Without labels each site's components are matched to classes on the labelled "
        "training rows, for scoring only: the matching with the largest sum over classes of the mean probability "
        "that the class's rows give its component. The distance is that of the sites' psi from the whole sample's "
        "estimate (EM), and the way gone how much of the start's distance a method has left behind. The start's line "
        "says what is known before the first round, with labels that of the labelled rows alone. A split counts as "
        "collapsed where some site lost a component; its last mixture before that is scored. Rounds are the most of "
        "any split; converged and collapsed count splits."
    )
    page.table(columns, rows)
    spread = [f"{name}, s.d. over {what}" for what in ("splits", "sites") for name in classes]
    path = out / "summary.csv"
    write_csv(path, [*columns, *spread], [
        [f"{value:.6g}" if isinstance(value, float) else value
         for value in (*row, *line.auc.std(axis=0).tolist(), *line.apart.tolist())]
        for row, line in zip(rows, lines, strict=True)])  # fmt: skip
    return path


def unfinished(lines: list[Line]) -> list[str]:
    """Sentences about fits that arrive where they go, and had not yet."""
    arrive = [line for line in lines if line.cell.method.algorithm in (POOLED, "exact") and line.method != "start"]
    return [
        f"{line.method} had not converged in {len(line.auc) - line.converged} of {len(line.auc)} splits: raise rounds"
        for line in arrive
        if line.converged < len(line.auc)
    ]


def _findings(lines: list[Line], page: Page) -> None:
    """Which methods come as near to the whole sample as matters, from the numbers."""
    findings = []
    for mode in dict.fromkeys(line.mode for line in lines):
        here = [line for line in lines if line.mode == mode and line.method != "start"]
        findings += [f"{mode}: {text}." for text in unfinished(here)]
        for pooled in (line for line in here if line.cell.method.algorithm == POOLED):
            close = [
                line.method for line in here if line is not pooled and np.abs(line.mean - pooled.mean).max() <= CLOSE
            ]
            findings.append(
                f"{mode}: within {CLOSE} of the whole sample ({pooled.method}) in every class: "
                f"{'; '.join(close) or 'none'}."
            )
    if findings:
        page.heading("Findings")
        page.items([
            *findings,
            "A method that has gone little of the way from the start to the whole sample's estimate scores like the "
            "start, whatever the whole sample's estimate is worth.",
        ])  # fmt: skip


def _published(folder: FeatureFolder, lines: list[Line]) -> list[dict[str, Any]]:
    classes: list[str] = folder.about["classes"]
    compared = []
    for published in folder.design.published:
        method = parse_method(published.method, 0.01)._replace(semi=published.labelled)
        for line in lines:
            fits = line.cell.method == method and line.cell.unlabelled_weight == 1 and line.method != "start"
            if fits and published.label in classes:
                measured = float(line.mean[classes.index(published.label)])
                compared.append({
                    "class": published.label, "method": line.method, "published": published.auc,
                    "measured": measured, "difference": measured - published.auc,
                })  # fmt: skip
    return compared


def _way(line: Line, far: dict[str, float]) -> float:
    """Share of the way from the start to the whole sample's estimate; NaN where that is not there."""
    return 1 - line.distance / far[line.mode] if line.mode in far else float("nan")
