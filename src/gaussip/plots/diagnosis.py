"""The history of a run with its findings marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gaussip.plots.drawing import Drawing, colour, set_title, style

if TYPE_CHECKING:
    from gaussip.findings.evidence import Evidence
    from gaussip.findings.finding import Finding

MEASURES = {"log_likelihood": "log-likelihood", "change": "change", "disagreement": "disagreement"}


def draw_diagnosis(run: Evidence, findings: Sequence[Finding]) -> Drawing:
    """Draw the measures over rounds, one panel each, and shade the rounds in which a finding shows.

    Where the change is expected to fall further, a dashed line leads there.
    """
    from gaussip.findings.decay import REST  # not at the top: it loads scikit-learn, which other figures do not need

    with style() as plt:
        figure, panels = plt.subplots(len(MEASURES), 1, figsize=(6.6, 5.6), sharex=True)
        axes = dict(zip(MEASURES, panels, strict=True))
        for name, label in MEASURES.items():
            values = getattr(run, name)
            if name != "log_likelihood" and (values > REST).any():
                values = np.where(values > REST, values, np.nan)  # what is less is rounding
                axes[name].set_yscale("log")
            axes[name].plot(run.round, values, color="#0b6e99")
            axes[name].set_ylabel(label)
        if run.tol > 0 and axes["change"].get_yscale() == "log":
            axes["change"].axhline(run.tol, color="#222222", linewidth=0.8, linestyle=":")
        marks = [_mark(axes[finding.measure], finding, run, colour(j + 1)) for j, finding in enumerate(findings)]
        panels[-1].set_xlabel("round")
        if marks:
            names = [finding.name for finding in findings]
            figure.legend(marks, names, loc="outside lower center", ncols=min(3, len(marks)))
        count = "nothing was found" if not findings else f"{len(findings)} finding{'s' * (len(findings) > 1)}"
        set_title(figure, f"{run.algorithm}, {run.rounds} rounds: {count}")
    return Drawing(panels, {name: getattr(run, name).tolist() for name in ("round", *MEASURES)})


def _mark(axes: Any, finding: Finding, run: Evidence, shade: str) -> Any:
    """Shade the rounds in which a finding shows; a line where it is one round."""
    first, last = finding.rounds
    if finding.expected is not None:
        value, when = finding.expected
        axes.plot([run.rounds, when], [run.change[-1], value], color=shade, linestyle="--")
    if first == last:
        return axes.axvline(last, color=shade, linewidth=2)
    return axes.axvspan(first, last, color=shade, alpha=0.25, linewidth=0)
