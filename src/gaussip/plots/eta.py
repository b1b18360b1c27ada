"""The predicted error of MNEM over eta, with the recommended eta."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gaussip.plots.files import save, styled

if TYPE_CHECKING:
    from gaussip.step_size import Step


def draw_eta(step: Step, path: str | os.PathLike[str]) -> list[Path]:
    """Draw the mean squared error over that of the pooled estimate, on logarithmic axes."""
    etas = [trial.eta for trial in step.trials]
    errors = [trial.mse for trial in step.trials]
    with styled() as plt:
        figure, axes = plt.subplots(figsize=(6.2, 4.2))
        axes.axhline(1.0, color="#222222", linestyle="--", linewidth=1.1, label="pooled estimate")
        axes.plot(etas, errors, marker="o", markersize=4, label="MNEM, predicted")
        axes.plot([step.eta], [step.mse], "o", markersize=9, label=f"recommended: eta = {step.eta:g}")
        axes.set(xscale="log", yscale="log", xlabel="eta", ylabel="mean squared error / pooled")
        ticks = [value for value in (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000) if value <= 1.05 * max(errors)]
        for axis, places in ((axes.xaxis, (0.001, 0.01, 0.1, 1)), (axes.yaxis, ticks)):
            axis.set_ticks(places, [f"{place:g}" for place in places])
        axes.minorticks_off()
        axes.legend()
        return save(
            figure,
            path,
            {
                "eta": etas,
                "rounds": [round(trial.rounds) for trial in step.trials],
                "bias": [trial.bias for trial in step.trials],
                "mse": errors,
                "recommended": [int(eta == step.eta) for eta in etas],
            },
        )
