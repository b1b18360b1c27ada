"""A study's design as records: what is run, what is drawn of it, and what it is compared with."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gaussip.studies.cells import COLUMNS, POOLED, Cell, matches, plain


class Figure(NamedTuple):
    """A grid of panels with lines in them."""

    name: str
    title: str
    measure: str = "log_mse"  #: the height of a line
    along: str = "round"  #: rounds, or the column of the cells along which a line runs
    rows: str = ""  #: the column that the rows of panels differ in, if any
    columns: str = ""
    lines: str = "method"  #: the column that the lines of a panel differ in
    methods: tuple[str, ...] = ()  #: those drawn; all where empty. The whole sample's is a dashed line
    where: Mapping[str, Any] = {}  #: which cells are drawn: columns with their value, or a list of values

    def drawn(self, cells: tuple[Cell, ...]) -> list[Cell]:
        """The cells of the figure; the whole sample's only where its methods name it."""
        chosen = [cell for cell in cells if matches(cell.values, self.where)]
        return [
            cell for cell in chosen if cell.method.algorithm in (self.methods or {cell.method.algorithm} - {POOLED})
        ]


class Published(NamedTuple):
    """A published number, and how near to it the study should come."""

    where: Mapping[str, Any]  #: columns of the cell
    value: float
    source: str
    round: int = 0  #: 0: the last
    within: float | None = None  #: of the value
    within_errors: float | None = None  #: of the value, in standard errors of the study's
    note: str = ""


class NetworkDrawings(NamedTuple):
    """Networks to be drawn."""

    networks: tuple[str, ...]
    sites: int


@dataclass(frozen=True)
class Design:
    """What a study runs, draws and is compared with."""

    name: str
    title: str
    about: str
    replicates: int
    seed: int
    looks: int  #: how many rounds are looked at, about
    levels: tuple[float, ...]  #: distances from the pooled estimate whose cost is asked for
    contraction: bool  #: whether the whole sample's cells measure L_max
    cells: tuple[Cell, ...]
    figures: tuple[Figure, ...]
    published: tuple[Published, ...]
    claims: tuple[str, ...]
    drawing: NetworkDrawings | None
    text: str  #: the TOML
    most_rounds: int | None  #: a limit on every cell's rounds, where one was asked for

    @property
    def settings(self) -> dict[str, Any]:
        """All that the numbers depend on, as JSON has it."""
        cells = [{**cell.values, "rounds": cell.rounds} for cell in self.cells]
        keys = ("replicates", "seed", "looks", "levels", "contraction")
        settings: dict[str, Any] = json.loads(
            json.dumps({**{key: getattr(self, key) for key in keys}, "cells": cells})
        )
        return settings

    @property
    def varying(self) -> list[str]:
        """The columns in which cells differ."""
        values = [cell.values for cell in self.cells]
        return [key for key in COLUMNS if len({str(line[key]) for line in values if line[key] != ""}) > 1]

    def varying_of(self, cell: Cell) -> dict[str, str]:
        """What varies of a cell, beside its method."""
        values = cell.values
        return {key: plain(values[key]) for key in self.varying if key != "method" and values[key] != ""}

    def name_of(self, cell: Cell) -> str:
        """A cell's name, for people and for its file: what varies, and a few letters of all that it is."""
        values = cell.values
        shown = [f"{key}={value}" for key, value in self.varying_of(cell).items()]
        whole = json.dumps({**values, "rounds": cell.rounds}, sort_keys=True).encode()
        letters = hashlib.sha256(whole).hexdigest()[:6]
        joined = "_".join([values["method"], *shown]).replace(" ", "-").replace("(", "-").replace(")", "")
        return f"{joined}_{letters}"
