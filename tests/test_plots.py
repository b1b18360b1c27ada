"""Figures: drawn into given Axes or their own, composed in one figure, and written only by `save`."""

import csv
import os
import subprocess
import sys
from types import SimpleNamespace

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from gaussip import plots
from gaussip.errors import SettingError
from gaussip.inspection import check_table
from gaussip.networks import mixing_weights

TRIALS = [SimpleNamespace(eta=eta, mse=mse, rounds=9.0, bias=0.1) for eta, mse in ((0.01, 1.1), (0.1, 2.0))]
STEP = SimpleNamespace(trials=TRIALS, eta=0.01, mse=1.1)
CURVES = {"MNEM": (np.array([1, 2, 3]), np.array([3.0, 2.0, 1.0])), "NNEM": (np.array([1]), np.array([3.0]))}
LINES = [plots.Line("", column, "a", [1, 10], [2.0, 1.0]) for column in ("left", "right")]
BOXES = [plots.Box("", "", label, [1.0, 2.0]) for label in ("a", "b")]
ON_AXES = {
    "network": lambda ax: plots.draw_network(mixing_weights("star", range(5)), range(5), title="star", ax=ax),
    "eta": lambda ax: plots.draw_eta(STEP, ax=ax),
    "convergence": lambda ax: plots.draw_convergence(CURVES, ylabel="distance", collapsed=["NNEM"], ax=ax),
    "bars": lambda ax: plots.draw_bars(np.array([[1, 2], [5, 0]]), ["A", "B"], ["ill", "well"], ax=ax),
}
PANELS = {
    "panels": lambda: plots.draw_panels(LINES, title="t", xlabel="round", ylabel="y"),
    "boxes": lambda: plots.draw_boxes(BOXES, title="t", ylabel="AUC"),
    "cells": lambda: plots.draw_cells(check_table(np.arange(8.0).reshape(4, 2), sites=[0, 0, 1, 1])),
}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    """No figure is left open, nothing is written but by `save`, and the user's settings stay."""
    monkeypatch.chdir(tmp_path)
    before, backend = dict(matplotlib.rcParams), matplotlib.get_backend()
    yield
    plt.close("all")
    assert matplotlib.get_backend() == backend
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("draw", ON_AXES.values(), ids=ON_AXES)
def test_a_given_ax_is_drawn_into_and_returned(draw):
    _, ax = plt.subplots()
    drawing = draw(ax)
    assert drawing.axes is ax
    assert ax.has_data()
    assert plt.get_fignums() == [ax.figure.number]
    assert len({len(column) for column in drawing.table.values()}) == 1
    assert not os.listdir()


@pytest.mark.parametrize("draw", [*(lambda draw=draw: draw(None) for draw in ON_AXES.values()), *PANELS.values()])
def test_without_an_ax_a_figure_of_its_own_stays_open(draw):
    axes = np.ravel(draw().axes)
    assert plt.get_fignums() == [axes[0].figure.number]
    assert all(ax.has_data() for ax in axes)
    assert not os.listdir()


def test_two_drawings_in_one_figure():
    figure, (left, right) = plt.subplots(1, 2)
    drawings = [ON_AXES["network"](left), ON_AXES["eta"](right)]
    assert [drawing.axes for drawing in drawings] == figure.axes
    line = right.get_lines()[1]
    assert line.get_color() == "#0b6e99"  # gaussip's first colour, whatever the user's cycle
    figure.savefig("both.png")
    assert os.listdir() == ["both.png"]


def test_save_writes_pictures_and_the_table():
    drawing = ON_AXES["bars"](None)
    assert [path.name for path in plots.save(drawing, "sites.png", also=".svg")] == [
        "sites.png",
        "sites.svg",
        "sites.csv",
    ]
    assert sorted(os.listdir()) == ["sites.csv", "sites.png", "sites.svg"]
    with open("sites.csv", newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["site", "ill", "well"], ["B", "5", "0"], ["A", "1", "2"]]
    assert not plt.get_fignums()
    with pytest.raises(SettingError, match=r"sites\.txt: pictures are"):
        plots.save(ON_AXES["bars"](None), "sites.txt")


def test_matplotlib_waits_for_the_first_drawing():
    program = "import sys, gaussip.plots, gaussip.cli; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "False\n", done.stderr
