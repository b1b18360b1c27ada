"""A study's design: what is run, what is drawn of it, and what it is held against."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from gaussip.errors import DesignError
from gaussip.files.toml import Source
from gaussip.studies.cells import COLUMNS, KEYS, Cell, cells_of, plain
from gaussip.studies.marks import LOOKS
from gaussip.studies.parts import (
    Drawing,
    Figure,
    Published,
    claims_of,
    drawing_of,
    figures_of,
    levels_of,
    published_of,
    typed,
)

SHIPPED = files("gaussip.studies") / "designs"
ORDER = (
    "figure1",
    "figure2",
    "figure3",
    "figure4",
    "networks",
    "circles",
    "label-fractions",
    "starts",
    "theory",
    "exact",
)
TOP = (
    "title",
    "about",
    "replicates",
    "seed",
    "looks",
    "levels",
    "contraction",
    "cells",
    "figures",
    "published",
    "claims",
    "drawing",
)


@dataclass(frozen=True)
class Design:
    """What a study runs, draws and holds itself against."""

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
    drawing: Drawing | None
    text: str  #: the TOML
    most_rounds: int | None  #: a limit on every cell's rounds, where one was asked for

    @property
    def settings(self) -> dict[str, Any]:
        """All that the numbers depend on, as JSON has it."""
        cells = [{**cell.values, "rounds": cell.rounds} for cell in self.cells]
        keys = ("replicates", "seed", "looks", "levels", "contraction")
        made = {**{key: getattr(self, key) for key in keys}, "cells": cells}
        again: dict[str, Any] = json.loads(json.dumps(made))
        return again

    @property
    def varying(self) -> list[str]:
        """The columns in which cells differ."""
        values = [cell.values for cell in self.cells]
        return [key for key in COLUMNS if len({str(one[key]) for one in values if one[key] != ""}) > 1]

    def name_of(self, cell: Cell) -> str:
        """A cell's name, for people and for its file: what varies, and a few letters of all that it is."""
        values = cell.values
        shown = [f"{key}={plain(values[key])}" for key in self.varying if key != "method" and values[key] != ""]
        whole = json.dumps({**values, "rounds": cell.rounds}, sort_keys=True).encode()
        letters = hashlib.sha256(whole).hexdigest()[:6]
        joined = "_".join([values["method"], *shown]).replace(" ", "-").replace("(", "-").replace(")", "")
        return f"{joined}_{letters}"


def names() -> list[str]:
    """The studies that come with gaussip."""
    return list(ORDER)


def load(name: str | Path, replicates: int | None = None, most_rounds: int | None = None) -> Design:
    """A design that comes with gaussip, by name, or one's own, by the path of its TOML file."""
    if str(name) in ORDER:
        return of_text((SHIPPED / f"{name}.toml").read_text(encoding="utf-8"), str(name), replicates, most_rounds)
    path = Path(name)
    if path.suffix != ".toml":
        raise DesignError(
            f"there is no study {str(name)!r}; there are: {', '.join(ORDER)}, xray. Your own is a .toml file"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DesignError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return of_text(text, path.stem, replicates, most_rounds)


def of_text(text: str, name: str, replicates: int | None = None, most_rounds: int | None = None) -> Design:
    """A design from its TOML, checked: what is wrong is named with its line."""
    source = Source(text, f"{name}.toml", DesignError)
    values = source.values
    for key in values:
        if key not in TOP and key not in KEYS:
            raise source.error(f"unknown key {key!r}; there are {', '.join((*TOP, *KEYS))}", (key,))
    for key, wanted in (("replicates", replicates), ("rounds", most_rounds)):
        if wanted is not None and wanted < 1:
            raise DesignError(f"{key} must be at least 1, not {wanted}")

    def get(key: str, kind: type, default: Any) -> Any:
        return typed(source, (key,), values.get(key, default), kind)

    chosen = get("replicates", int, 100) if replicates is None else replicates
    seed = get("seed", int, 1)
    looks = get("looks", int, LOOKS)
    for key, value, least in (("replicates", chosen, 1), ("seed", seed, 0), ("looks", looks, 2)):
        if value < least:
            raise source.error(f"{key} must be at least {least}, not {value}", (key,))
    cells = cells_of(source, seed, most_rounds)
    drawing = drawing_of(source) if "drawing" in values else None
    if not cells and drawing is None:
        raise source.error("the design has no [[cells]]; add at least one")
    return Design(
        name=name,
        title=get("title", str, name),
        about=get("about", str, "").strip(),
        replicates=chosen,
        seed=seed,
        looks=looks,
        levels=levels_of(source),
        contraction=get("contraction", bool, False),
        cells=cells,
        figures=figures_of(source, cells),
        published=published_of(source, cells, reduced=most_rounds is not None),
        claims=claims_of(source),
        drawing=drawing,
        text=text,
        most_rounds=most_rounds,
    )
