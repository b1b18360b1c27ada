"""Panels of lines, as in the paper's figures: rows and columns of panels, a line for each method or setting."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.plots.drawing import Drawing, colour, set_title, style


class Line(NamedTuple):
    """One line of one panel."""

    row: str
    column: str
    label: str
    x: Sequence[Any]
    y: Sequence[float]
    level: bool = False  #: a level that others are held against: drawn dashed over the panel's breadth
    cross: bool = False  #: whether it ends because most data sets have collapsed


def draw_panels(
    lines: Sequence[Line], *, title: str, xlabel: str, ylabel: str, points: bool = False, log_y: bool = False
) -> Drawing:
    """Draw lines in their panels; a label has one colour in all panels.

    ``points`` says that lines run over a few values, which are marked on the axis, and not over rounds.
    """
    rows, columns = (list(dict.fromkeys(getattr(line, key) for line in lines)) for key in ("row", "column"))
    labels = list(dict.fromkeys(line.label for line in lines if not line.level))
    with style() as plt:
        from matplotlib.ticker import NullFormatter

        shape = (len(rows), len(columns))
        size = (max(5.0, 1.0 + 3.1 * shape[1]), 1.3 + 2.6 * shape[0])
        figure, grid = plt.subplots(*shape, figsize=size, sharex=True, sharey=True, squeeze=False)
        place = _axis(grid, lines, points)
        for line in lines:
            axes = grid[rows.index(line.row)][columns.index(line.column)]
            shade = colour(labels.index(line.label)) if line.label in labels else "#222222"
            x = [place(value) for value in line.x]
            if line.level:
                axes.plot(x, line.y, color=shade, linestyle="--", linewidth=1.1)
                continue
            axes.plot(x, line.y, color=shade, label=line.label, marker="o" if points else None, markersize=4)
            if line.cross:
                axes.plot(x[-1], line.y[-1], "X", color=shade, markersize=8)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                axes = grid[i][j]
                axes.set_title(", ".join(filter(None, (row, column))))
                axes.set_xlabel(xlabel if i == len(rows) - 1 else "")
                axes.set_ylabel(ylabel if j == 0 else "")
                if log_y:
                    axes.set_yscale("log")
                    heights = [y for line in lines for y in line.y if y > 0]
                    axes.yaxis.set_major_formatter("{x:g}")
                    axes.yaxis.set_minor_formatter("{x:g}" if max(heights) < 30 * min(heights) else NullFormatter())
        handles: dict[str, Any] = {}
        for axes in grid.flat:
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        if len(handles) > 1:
            per_row = max(1, int(size[0] / (0.7 + 0.09 * max(map(len, handles)))))
            figure.legend(
                handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), per_row)
            )
        set_title(figure, title)
    flat = [(line, x, float(y)) for line in lines for x, y in zip(line.x, line.y, strict=True)]
    table = {
        "row": [line.row for line, _, _ in flat],
        "column": [line.column for line, _, _ in flat],
        "line": [line.label + (" (whole sample)" if line.level else "") for line, _, _ in flat],
        xlabel: [x for _, x, _ in flat],
        ylabel: [y if np.isfinite(y) else "" for _, _, y in flat],
    }
    return Drawing(grid, table)


def _axis(grid: Any, lines: Sequence[Line], points: bool) -> Any:
    """Set the axis of x up; the place of a value on it: texts stand side by side in the longest line's order."""
    longest_first = sorted(lines, key=lambda line: -len(line.x))
    values = list(dict.fromkeys(x for line in longest_first for x in line.x))
    if all(isinstance(x, int | float) for x in values):
        if min(values) > 0:
            for axes in grid.flat:
                axes.set_xscale("log")
        if points:
            _ticks(grid, sorted(values), [f"{x:g}" for x in sorted(values)])
        return lambda x: x
    _ticks(grid, range(len(values)), [str(x) for x in values])
    return values.index


def _ticks(grid: Any, places: Sequence[float], names: Sequence[str]) -> None:
    for axes in grid.flat:
        axes.set_xticks(places, names)
        axes.minorticks_off()
