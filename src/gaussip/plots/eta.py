"""The predicted error of MNEM over eta, with the recommended eta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gaussip.plots.style import Drawing, colour, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gaussip.step_size import Step


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
