"""Criteria for the number of components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gaussip.plots.panels import Line, draw_panels
from gaussip.plots.style import Drawing

if TYPE_CHECKING:
    from gaussip.selection import Selection


def draw_criteria(selection: Selection) -> Drawing:
    """Draw BIC and AIC over K, and ICL where it is the criterion: its range would hide the others."""
    Ks = [str(line.n_components) for line in selection.lines]
    shown = ("bic", "aic", "icl") if selection.criterion == "icl" else ("bic", "aic")
    lines = [Line("", "", name.upper(), Ks, [getattr(line, name) for line in selection.lines]) for name in shown]
    title = f"{selection.criterion.upper()} is least at K = {selection.n_components}"
    return draw_panels(lines, title=title, xlabel="number of components", ylabel="criterion", points=True)
