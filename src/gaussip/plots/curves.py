"""Curves: a measure of several methods over rounds, MNEM's predicted error over eta, and criteria over K."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gaussip.plots.drawing import Drawing, colour, style
from gaussip.plots.panels import Line, draw_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gaussip.selection import Selection
    from gaussip.step_size import Step

SEMI = "semi-"  # with labels


def draw_convergence(
    curves: Mapping[str, tuple[Any, Any]],
    *,
    ylabel: str,
    title: str = "",
    collapsed: Collection[str] = (),
    ax: Axes | None = None,
) -> Drawing:
    """Draw curves (exchanges, values) by method on logarithmic axes; a cross ends those that collapsed.

    With labels (semi-) a method's line is dashed.
    """
    algorithms = list(dict.fromkeys(name.removeprefix(SEMI) for name in curves))
    with style() as plt:
        axes = plt.subplots(figsize=(6.2, 4.2))[1] if ax is None else ax
        for name, (exchanges, values) in curves.items():
            label = f"{name} (collapsed)" if name in collapsed else name
            look: dict[str, Any] = {"color": colour(algorithms.index(name.removeprefix(SEMI)))}
            axes.plot(exchanges, values, linestyle="--" if name.startswith(SEMI) else "-", label=label, **look)
            last = np.flatnonzero(np.isfinite(values))[-1:]
            if name in collapsed:
                axes.plot(exchanges[last], values[last], "X", markersize=9, **look)
        axes.set(xscale="log", yscale="log", xlabel="exchange", ylabel=ylabel, title=title)
        axes.legend()
    table: dict[str, Sequence[Any]] = {
        "method": [name for name, (exchanges, _) in curves.items() for _ in exchanges],
        "exchange": [int(t) for exchanges, _ in curves.values() for t in exchanges],
        "value": [float(v) for _, values in curves.values() for v in values],
    }
    return Drawing(axes, table)


def draw_eta(step: Step, *, ax: Axes | None = None) -> Drawing:
    """Draw the mean squared error over that of the pooled estimate, on logarithmic axes."""
    etas = [trial.eta for trial in step.trials]
    errors = [trial.mse for trial in step.trials]
    with style() as plt:
        axes = plt.subplots(figsize=(6.2, 4.2))[1] if ax is None else ax
        axes.axhline(1.0, color="#222222", linestyle="--", linewidth=1.1, label="pooled estimate")
        axes.plot(etas, errors, color=colour(0), marker="o", markersize=4, label="MNEM, predicted")
        recommended = f"recommended: eta = {step.eta:g}"
        axes.plot([step.eta], [step.mse], "o", color=colour(1), markersize=9, label=recommended)
        axes.set(xscale="log", yscale="log", xlabel="eta", ylabel="mean squared error / pooled")
        ticks = [value for value in (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000) if value <= 1.05 * max(errors)]
        for axis, places in ((axes.xaxis, (0.001, 0.01, 0.1, 1)), (axes.yaxis, ticks)):
            axis.set_ticks(places, [f"{place:g}" for place in places])
        axes.minorticks_off()
        axes.legend()
    table: dict[str, Sequence[Any]] = {
        "eta": etas,
        "rounds": [round(trial.rounds) for trial in step.trials],
        "bias": [trial.bias for trial in step.trials],
        "mse": errors,
        "recommended": [int(eta == step.eta) for eta in etas],
    }
    return Drawing(axes, table)


def draw_criteria(selection: Selection) -> Drawing:
    """Draw BIC and AIC over K, and ICL where it is the criterion: its range would hide the others.

    In place of a K with a degenerate component stands the reason. Of several covariance types the criterion is drawn.
    """
    if selection.several_types:
        return _of_types(selection)
    found = selection.lines
    Ks, why = [str(line.n_components) for line in found], [line.degenerate for line in found]
    shown = ("bic", "aic", "icl") if selection.criterion == "icl" else ("bic", "aic")
    heights = {name: [np.nan if line.degenerate else getattr(line, name) for line in found] for name in shown}
    lines = [Line("", "", name.upper(), Ks, heights[name]) for name in shown]
    title = f"{selection.criterion.upper()} is least at K = {selection.n_components}"
    axes, table = draw_panels(lines, title=title, xlabel="number of components", ylabel="criterion", points=True)
    look = {"rotation": 90, "ha": "center", "va": "center", "fontsize": 8, "color": "#555555"}
    for one in axes.flat if any(why) else ():
        one.set_xlim(-0.5, len(Ks) - 0.5)
        for place, reason in enumerate(why):
            if reason:
                one.text(place, 0.5, f"degenerate: {reason}", transform=one.get_xaxis_transform(), **look)
    return Drawing(axes, {**table, "degenerate": why * len(shown)})


def _of_types(selection: Selection) -> Drawing:
    """The criterion of each covariance type over K; nothing where a component is degenerate."""
    numbers = sorted({line.n_components for line in selection.lines})
    kinds = list(dict.fromkeys(line.covariance_type for line in selection.lines))
    heights = {
        (line.covariance_type, line.n_components): np.nan if line.degenerate else getattr(line, selection.criterion)
        for line in selection.lines
    }
    Ks, name = [str(K) for K in numbers], selection.criterion.upper()
    lines = [Line("", "", kind, Ks, [heights.get((kind, K), np.nan) for K in numbers]) for kind in kinds]
    title = f"{name} is least at K = {selection.n_components}, {selection.covariance_type}"
    axes, table = draw_panels(lines, title=title, xlabel="number of components", ylabel=name, points=True)
    return Drawing(axes, table)
