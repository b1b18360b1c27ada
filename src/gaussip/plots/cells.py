"""Where each feature lies at each site, and how much of it is missing."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from gaussip.plots.drawing import Drawing, colour, set_title, style

if TYPE_CHECKING:
    from gaussip.inspection import Cells, TableCheck

MOST = 24  # panels; those with a warning come first
MANY = 30  # sites: of more, no names are written
COLUMNS = 4


def draw_cells(seen: TableCheck) -> Drawing:
    """Draw a panel for each feature: at each site the range, the middle nine tenths, and the median.

    Cells with a warning are drawn in another colour. At the right stands the share of missing cells. Of many features
    only some are drawn, those with a warning first; the table has all.
    """
    found = seen.found_at
    odd = {name: dict.fromkeys(c.name for c in seen.concerns if name in c.features) for name in seen.features}
    order = sorted(seen.features, key=lambda name: not odd[name])[:MOST]
    drawn = [name for name in seen.features if name in order]
    M = len(seen.sites)
    n_columns = min(COLUMNS, len(drawn))
    n_rows = math.ceil(len(drawn) / n_columns)
    with style() as plt:
        size = (0.8 + 2.9 * n_columns, 0.7 + n_rows * (0.6 + min(6.0, 0.24 * M)))
        figure, grid = plt.subplots(n_rows, n_columns, figsize=size, sharey=True, squeeze=False)
        for axes in grid.flat[len(drawn) :]:
            axes.set_axis_off()
        for axes, name in zip(grid.flat, drawn, strict=False):
            _panel(axes, [cells for cells in seen.cells if cells.feature == name], seen, found)
            axes.set_title("\n".join([name, *odd[name]]), fontsize=9)
        grid[0][0].set_ylim(M - 0.5, -0.5)
        more = f"; {len(seen.features) - len(drawn)} more features in the table" if drawn != seen.features else ""
        missing = "; at the right: missing cells" if any(cells.missing for cells in seen.cells) else ""
        n = len(seen.concerns)
        set_title(figure, f"{n or 'no'} warning{'s' * (n != 1)}{more}{missing}")
    table = {field: [getattr(cells, field) for cells in seen.cells] for field in seen.cells[0]._fields}
    warnings = [" and ".join(found.get((cells.feature, cells.site), [])) for cells in seen.cells]
    return Drawing(grid, table | {"warnings": warnings})


def _panel(axes: Any, row: Sequence[Cells], seen: TableCheck, found: Collection[tuple[str, Any]]) -> None:
    """One feature at all sites."""
    M = len(seen.sites)
    for place, cells in enumerate(row):
        shade = colour(1 if (cells.feature, cells.site) in found else 0)
        axes.plot([cells.least, cells.largest], [place, place], color=shade, linewidth=0.8)
        axes.plot([cells.low, cells.high], [place, place], color=shade, linewidth=4, solid_capstyle="butt")
        axes.plot([cells.median], [place], "o", color="white", markeredgecolor=shade, markersize=4)
        if cells.missing:
            share = f"{cells.missing / cells.rows:.0%}"
            axes.text(1.01, place, share, transform=axes.get_yaxis_transform(), va="center", fontsize=7)
    axes.set_yticks(range(M) if M <= MANY else [], [str(site) for site in seen.sites] if M <= MANY else [])
    axes.tick_params(labelsize=8)
