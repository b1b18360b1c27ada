"""A measure of several methods over rounds."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gaussip.plots.files import save, styled


def draw_convergence(
    curves: Mapping[str, tuple[Any, Any]],
    path: str | os.PathLike[str],
    *,
    ylabel: str,
    title: str = "",
    collapsed: Collection[str] = (),
) -> list[Path]:
    """Draw curves (rounds, values) by method on logarithmic axes; a cross ends those that collapsed."""
    with styled() as plt:
        figure, axes = plt.subplots(figsize=(6.2, 4.2))
        for name, (rounds, values) in curves.items():
            label = f"{name} (collapsed)" if name in collapsed else name
            (line,) = axes.plot(rounds, values, label=label)
            last = np.flatnonzero(np.isfinite(values))[-1:]
            if name in collapsed:
                axes.plot(rounds[last], values[last], "X", color=line.get_color(), markersize=9)
        axes.set(xscale="log", yscale="log", xlabel="round", ylabel=ylabel, title=title)
        axes.legend()
        methods = [name for name, (rounds, _) in curves.items() for _ in rounds]
        return save(
            figure,
            path,
            {
                "method": methods,
                "round": [int(t) for rounds, _ in curves.values() for t in rounds],
                "value": [float(v) for _, values in curves.values() for v in values],
            },
        )
