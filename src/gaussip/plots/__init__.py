"""Figures. Each function draws into the given Axes, or makes its own, and returns a `Drawing`.

A drawing holds the Axes and the table that they show; `save` writes both. matplotlib is loaded by the first drawing.
"""

from gaussip.plots.bars import Box, draw_bars, draw_boxes
from gaussip.plots.cells import draw_cells
from gaussip.plots.curves import draw_convergence, draw_criteria, draw_eta
from gaussip.plots.diagnosis import draw_diagnosis
from gaussip.plots.drawing import Drawing, paths_of, save
from gaussip.plots.network import draw_network
from gaussip.plots.panels import Line, draw_panels

__all__ = [
    "Box",
    "Drawing",
    "Line",
    "draw_bars",
    "draw_boxes",
    "draw_cells",
    "draw_convergence",
    "draw_criteria",
    "draw_diagnosis",
    "draw_eta",
    "draw_network",
    "draw_panels",
    "paths_of",
    "save",
]
