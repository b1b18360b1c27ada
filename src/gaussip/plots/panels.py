"""Panels of lines, as in the paper's figures: rows and columns of panels, a line for each method or setting."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gaussip.plots import save, styled


class Line(NamedTuple):
    """One line of one panel."""

    row: str
    column: str
    label: str
    x: Sequence[Any]
    y: Sequence[float]
    level: bool = False  #: a level that others are held against: drawn dashed over the panel's breadth
    cross: int | None = None  #: the place at which most data sets have collapsed


def draw_panels(
    lines: Sequence[Line], path: str | os.PathLike[str], *, title: str, xlabel: str, ylabel: str, log_y: bool = False
) -> list[Path]:
    """Draw lines in their panels, as PNG and SVG with a table; a label has one colour in all panels."""
    rows, columns = (list(dict.fromkeys(getattr(line, key) for line in lines)) for key in ("row", "column"))
    labels = list(dict.fromkeys(line.label for line in lines if not line.level))
    numbers = all(isinstance(x, int | float) for line in lines for x in line.x)
    with styled() as plt:
        shape = (len(rows), len(columns))
        size = (1.2 + 3.1 * shape[1], 0.9 + 2.6 * shape[0])
        figure, grid = plt.subplots(*shape, figsize=size, sharex=True, sharey=True, squeeze=False)
        for line in lines:
            axes = grid[rows.index(line.row)][columns.index(line.column)]
            colour = f"C{labels.index(line.label)}" if line.label in labels else "#222222"
            if line.level:
                axes.axhline(line.y[-1], color=colour, linestyle="--", linewidth=1.1)
                continue
            marker = "o" if len(line.x) < 8 else None
            axes.plot(line.x, line.y, color=colour, label=line.label, marker=marker, markersize=4)
            if line.cross is not None:
                axes.plot(line.x[line.cross], line.y[line.cross], "X", color=colour, markersize=8)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                axes = grid[i][j]
                axes.set_title(", ".join(filter(None, (row, column))))
                if numbers and min(x for line in lines for x in line.x) > 0:
                    axes.set_xscale("log")
                if log_y:
                    axes.set_yscale("log")
                axes.set_xlabel(xlabel if i == len(rows) - 1 else "")
                axes.set_ylabel(ylabel if j == 0 else "")
        handles: dict[str, Any] = {}
        for axes in grid.flat:
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        if len(handles) > 1:
            figure.legend(handles.values(), handles.keys(), loc="outside right upper")
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        flat = [(line, x, float(y)) for line in lines for x, y in zip(line.x, line.y, strict=True)]
        table = {
            "row": [line.row for line, _, _ in flat],
            "column": [line.column for line, _, _ in flat],
            "line": [line.label + (" (whole sample)" if line.level else "") for line, _, _ in flat],
            xlabel: [x for _, x, _ in flat],
            ylabel: [y if np.isfinite(y) else "" for _, _, y in flat],
        }
        return save(figure, path, table, also=".svg")
