"""A measure of several methods over rounds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gaussip.plots.style import Drawing, colour, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_convergence(
    curves: Mapping[str, tuple[Any, Any]],
    *,
    ylabel: str,
    title: str = "",
    collapsed: Collection[str] = (),
    ax: Axes | None = None,
) -> Drawing:
    """Draw curves (rounds, values) by method on logarithmic axes; a cross ends those that collapsed."""
    with style() as plt:
        axes = plt.subplots(figsize=(6.2, 4.2))[1] if ax is None else ax
        for number, (name, (rounds, values)) in enumerate(curves.items()):
            label = f"{name} (collapsed)" if name in collapsed else name
            axes.plot(rounds, values, color=colour(number), label=label)
            last = np.flatnonzero(np.isfinite(values))[-1:]
            if name in collapsed:
                axes.plot(rounds[last], values[last], "X", color=colour(number), markersize=9)
        axes.set(xscale="log", yscale="log", xlabel="round", ylabel=ylabel, title=title)
        axes.legend()
    table: dict[str, Sequence[Any]] = {
        "method": [name for name, (rounds, _) in curves.items() for _ in rounds],
        "round": [int(t) for rounds, _ in curves.values() for t in rounds],
        "value": [float(v) for _, values in curves.values() for v in values],
    }
    return Drawing(axes, table)
