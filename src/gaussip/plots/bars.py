"""Who holds what: each site's rows by class, as shares of the site's rows, the number of rows beside."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gaussip.arrays import NDArray
from gaussip.plots.files import save, styled


def draw_bars(
    counts: NDArray, sites: Sequence[str], classes: Sequence[str], path: str | os.PathLike[str], *, title: str
) -> list[Path]:
    """Draw stacked bars, as PNG and SVG with a table.

    Parameters
    ----------
    counts : (M, C), rows of each site and class
    """
    totals = counts.sum(axis=1)
    order = (-totals).argsort(kind="stable")
    with styled() as plt:
        figure, axes = plt.subplots(figsize=(7.5, 1.2 + 0.34 * len(sites)))
        places = range(len(sites))
        before = 0 * totals[order] / 1.0
        for c, name in enumerate(classes):
            share = counts[order, c] / totals[order]
            axes.barh(places, share, left=before, label=name, color=f"C{c}")
            before = before + share
        axes.set_yticks(places, [f"{sites[m]}" for m in order])
        for place, m in zip(places, order, strict=True):
            axes.text(1.01, place, f"{totals[m]:,}", va="center", fontsize=9)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of the site's rows; at the right their number")
        axes.grid(False, axis="y")
        figure.legend(loc="outside lower center", ncols=min(4, len(classes)))
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        table = {"site": [sites[m] for m in order]} | {
            name: counts[order, c].tolist() for c, name in enumerate(classes)
        }
        return save(figure, path, table, also=".svg")
