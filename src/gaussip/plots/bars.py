"""Which site holds what: each site's rows by class, as shares of its rows, with their number beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gaussip.arrays import NDArray
from gaussip.plots.style import Drawing, colour, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_bars(
    counts: NDArray, sites: Sequence[str], classes: Sequence[str], *, title: str = "", ax: Axes | None = None
) -> Drawing:
    """Draw a stacked bar for each site, the largest first.

    Parameters
    ----------
    counts : (M, C), rows of each site and class
    """
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
