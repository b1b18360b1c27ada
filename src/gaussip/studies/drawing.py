"""A study's figures, drawn from its results."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from gaussip.networks import measures, mixing_weights
from gaussip.plots import Line, draw_network, draw_panels, save
from gaussip.studies.cells import POOLED, Cell, plain
from gaussip.studies.parts import Design, Figure
from gaussip.studies.results import NotRunError, Results

NAMES = {"log_mse": "log MSE", "mse_ratio": "MSE over the whole sample's", "distance": "distance",
         "contraction": "contraction", "delta": "Delta", "labelled": "r", "rows": "N", "sites": "M",
         "round": "round"}  # fmt: skip


def draw_figure(results: Results, figure: Figure, folder: Path) -> list[Path]:
    """Draw a figure of the design; nothing where none of its cells has been run."""
    lines = list(_lines(results, figure))
    if not any(not line.level for line in lines):
        return []
    drawing = draw_panels(
        lines, title=figure.title, xlabel=NAMES.get(figure.along, figure.along), ylabel=NAMES[figure.measure],
        points=figure.along != "round", log_y=figure.measure == "distance",
    )  # fmt: skip
    return save(drawing, folder / f"{figure.name}.png", also=".svg")


def _lines(results: Results, figure: Figure) -> Iterator[Line]:
    cells = [cell for cell in figure.drawn(results.design.cells) if cell not in results.missing]
    if figure.along != "round":
        yield from _along(results, figure, cells)
        return
    for cell in cells:
        numbers, curve = results.numbers(cell), results.curve(cell, figure.measure)
        rounds, collapsed = numbers["rounds"], numbers["collapsed"]
        left = np.mean((collapsed == 0) | (collapsed > rounds[:, None]), axis=1)
        shown = (rounds > 0) & (left > 0.5) & np.isfinite(curve)
        x, y = rounds[shown].tolist(), curve[shown].tolist()
        if not x:  # gone at once: a cross where it began
            x, y = [1], curve[:1].tolist()
        yield Line(*_panel(cell, figure), _label(cell, figure), x, y, cross=bool(left[-1] <= 0.5))
    if figure.measure == "log_mse":
        yield from _levels(results, figure, cells)


def _levels(results: Results, figure: Figure, cells: list[Cell]) -> Iterator[Line]:
    """The whole sample's log MSE in each panel."""
    done = set(results.all(method=POOLED))
    placed = [(cell.pooled, *_panel(cell, figure)) for cell in cells if cell.pooled in done]
    last = max((cell.rounds for cell in cells), default=1)
    for cell, row, column in dict.fromkeys(placed):
        value = results.log_mse(cell).value
        by_line = figure.lines != "method" and cell.values[figure.lines] != ""
        label = _label(cell, figure) if by_line else cell.method.name
        yield Line(row, column, label, [1, last], [value, value], level=True)


def _along(results: Results, figure: Figure, cells: list[Cell]) -> Iterator[Line]:
    measure = getattr(results, figure.measure)
    groups: dict[tuple[str, str, str], list[tuple[Any, float]]] = {}
    for cell in cells:
        with suppress(NotRunError):
            point = (cell.values[figure.along], measure(cell).value)
            groups.setdefault((*_panel(cell, figure), _label(cell, figure)), []).append(point)
    for (row, column, label), points in groups.items():
        if all(isinstance(x, int | float) for x, _ in points):
            points.sort()
        yield Line(row, column, label, [x for x, _ in points], [y for _, y in points])


def _panel(cell: Cell, figure: Figure) -> tuple[str, str]:
    row, column = (_named(key, cell.values[key]) if key else "" for key in (figure.rows, figure.columns))
    return row, column


def _label(cell: Cell, figure: Figure) -> str:
    if figure.lines != "method":
        return _named(figure.lines, cell.values[figure.lines])
    method = cell.method._replace(semi=False) if figure.along == "labelled" else cell.method
    return method.name if figure.along == "eta" else method.label


def _named(key: str, value: Any) -> str:
    if value == "":  # it does not matter to this cell
        return ""
    text = plain(value)
    if key == "labelled" and isinstance(value, str):
        text = f"{value.replace(' ', ', ')} in turn"
    return text if key in ("spread", "network") else f"{NAMES.get(key, key)} = {text}"


def draw_networks(design: Design, folder: Path) -> tuple[list[Path], list[list[Any]]]:
    """Draw the networks of a design; the files, and the measures of each."""
    files: list[Path] = []
    rows: list[list[Any]] = []
    if design.drawing is None:
        return files, rows
    sites = range(design.drawing.sites)
    for name in design.drawing.networks:
        W = mixing_weights(name, sites, seed=design.seed)
        file = f"{name.replace('(', '-').replace(')', '')}.png"
        measured = measures(W)
        files += save(draw_network(W, sites, title=name), folder / file, also=".svg")
        rows.append([name, measured.se_w, measured.sigma_w, measured.spectral_gap])
    return files, rows
