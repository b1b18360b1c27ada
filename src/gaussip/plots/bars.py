"""Bars and boxes: which site holds what, and box plots in panels, as in the paper's comparison of AUC."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gaussip.arrays import NDArray
from gaussip.plots.drawing import Drawing, colour, set_title, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_bars(
    counts: NDArray, sites: Sequence[str], classes: Sequence[str], *, title: str = "", ax: Axes | None = None
) -> Drawing:
    """Draw a stacked bar for each site, the largest first; ``counts`` (M, C) are rows of each site and class."""
    order = (-counts.sum(axis=1)).argsort(kind="stable")
    names, counts = [sites[m] for m in order], counts[order]
    totals = counts.sum(axis=1)
    places = range(len(names))
    with style() as plt:
        height = 0.34 * len(names)  # inches
        axes = plt.subplots(figsize=(7.5, 1.2 + height))[1] if ax is None else ax
        left = 0 * totals / 1.0
        for c, name in enumerate(classes):
            share = counts[:, c] / totals
            axes.barh(places, share, left=left, label=name, color=colour(c))
            left = left + share
        axes.set_yticks(places, names)
        for place, total in zip(places, totals, strict=True):
            axes.text(1.01, place, f"{total:,}", va="center", fontsize=9)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of the site's rows; at the right their number")
        axes.grid(False, axis="y")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.5 / height), ncols=min(4, len(classes)))
        axes.set_title(title)
    table = {"site": names} | {name: counts[:, c].tolist() for c, name in enumerate(classes)}
    return Drawing(axes, table)


class Box(NamedTuple):
    """One box of one panel."""

    row: str
    column: str
    label: str
    values: Sequence[float]


def draw_boxes(boxes: Sequence[Box], *, title: str, ylabel: str) -> Drawing:
    """Draw boxes in their panels; a label has one colour in all panels."""
    rows, columns, labels = (
        list(dict.fromkeys(getattr(box, key) for box in boxes)) for key in ("row", "column", "label")
    )
    with style() as plt:
        colours = plt.get_cmap("viridis")
        size = (1.0 + 2.5 * len(columns), 1.5 + 2.3 * len(rows))
        figure, grid = plt.subplots(len(rows), len(columns), figsize=size, sharex=True, sharey="row", squeeze=False)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                axes = grid[i][j]
                here = [box for box in boxes if (box.row, box.column) == (row, column)]
                places = [labels.index(box.label) for box in here]
                drawn = axes.boxplot(
                    [list(box.values) for box in here], positions=places, widths=0.7, patch_artist=True,
                    medianprops={"color": "#222222"}, flierprops={"markersize": 3},
                )  # fmt: skip
                for place, patch in zip(places, drawn["boxes"], strict=True):
                    patch.set_facecolor(colours(place / max(1, len(labels) - 1)))
                axes.set_xticks(range(len(labels)), labels, rotation=90)
                axes.set_title(column if i == 0 else "")
                axes.set_ylabel("\n".join([*textwrap.wrap(row, 22), ylabel]) if j == 0 else "", fontsize=9)
        set_title(figure, title)
    flat = [(box, number, value) for box in boxes for number, value in enumerate(box.values)]
    table: dict[str, Sequence[Any]] = {
        "row": [box.row for box, _, _ in flat], "column": [box.column for box, _, _ in flat],
        "box": [box.label for box, _, _ in flat], "replicate": [number for _, number, _ in flat],
        ylabel: [f"{value:.6g}" for _, _, value in flat],
    }  # fmt: skip
    return Drawing(grid, table)
