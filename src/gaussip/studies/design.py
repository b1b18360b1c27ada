"""A study's design: what is run, what is drawn of it, and what it is held against."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from gaussip.errors import DesignError, NetworkError
from gaussip.networks import by_name
from gaussip.studies.cells import COLUMNS, KEYS, Cell, cells_of
from gaussip.studies.source import Path as Where
from gaussip.studies.source import Source

SHIPPED = files("gaussip.studies") / "designs"
ORDER = ("figure1", "figure2", "figure3", "figure4", "networks", "label-fractions", "starts", "theory")
MEASURES = ("log_mse", "mse_ratio", "distance", "contraction")
TOP = ("title", "about", "replicates", "seed", "contraction", "cells", "figures", "published", "claims", "drawing")


class Figure(NamedTuple):
    """A grid of panels with lines in them."""

    name: str
    title: str
    measure: str = "log_mse"  #: the height of a line, one of `MEASURES`
    along: str = "round"  #: rounds, or the column of the cells along which a line runs
    rows: str = ""  #: the column that the rows of panels differ in, if any
    columns: str = ""
    lines: str = "method"  #: the column that the lines of a panel differ in
    methods: tuple[str, ...] = ()  #: those drawn; all where empty. The whole sample's is a dashed line
    where: Mapping[str, Any] = {}  #: which cells are drawn: columns with their value, or a list of values


class Published(NamedTuple):
    """A number that somebody else has found, and how near to it we should come."""

    where: Mapping[str, Any]  #: columns of the cell
    round: int  #: 0: the last
    value: float
    within: float | None  #: of the value
    within_errors: float | None  #: of the value, in our standard errors
    source: str
    note: str


class Drawing(NamedTuple):
    """Networks to be drawn."""

    networks: tuple[str, ...]
    sites: int


@dataclass(frozen=True)
class Design:
    """What a study runs, draws and holds itself against."""

    name: str
    title: str
    about: str
    replicates: int
    seed: int
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
        made = {"replicates": self.replicates, "seed": self.seed, "contraction": self.contraction, "cells": cells}
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
        shown = [f"{key}={values[key]:g}" if isinstance(values[key], float) else f"{key}={values[key]}"
                 for key in self.varying if key != "method" and values[key] != ""]  # fmt: skip
        whole = json.dumps({**values, "rounds": cell.rounds}, sort_keys=True).encode()
        letters = hashlib.sha256(whole).hexdigest()[:6]
        plain = "_".join([values["method"], *shown]).replace(" ", "-").replace("(", "-").replace(")", "")
        return f"{plain}_{letters}"


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
            f"there is no study {str(name)!r}; there are: {', '.join(ORDER)}. Your own design is a .toml file"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DesignError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return of_text(text, path.stem, replicates, most_rounds)


def of_text(text: str, name: str, replicates: int | None = None, most_rounds: int | None = None) -> Design:
    """A design from its TOML, checked: what is wrong is named with its line."""
    source = Source(text, f"{name}.toml")
    values = source.values
    for key in values:
        if key not in TOP and key not in KEYS:
            raise source.error(f"unknown key {key!r}; there are {', '.join((*TOP, *KEYS))}", (key,))
    for key, wanted in (("replicates", replicates), ("rounds", most_rounds)):
        if wanted is not None and wanted < 1:
            raise DesignError(f"{key} must be at least 1, not {wanted}")

    def get(key: str, kind: type, default: Any) -> Any:
        return _typed(source, (key,), values.get(key, default), kind)

    chosen = get("replicates", int, 100) if replicates is None else replicates
    seed = get("seed", int, 1)
    if chosen < 1 or seed < 0:
        raise source.error("replicates must be at least 1 and seed at least 0", ("replicates",))
    cells = cells_of(source, seed, most_rounds)
    drawing = _drawing(source) if "drawing" in values else None
    if not cells and drawing is None:
        raise source.error("the design has no [[cells]]; add at least one")
    design = Design(
        name=name,
        title=get("title", str, name),
        about=get("about", str, "").strip(),
        replicates=chosen,
        seed=seed,
        contraction=get("contraction", bool, False),
        cells=cells,
        figures=tuple(_tables(source, "figures", _figure)),
        published=tuple(_tables(source, "published", lambda source, at, table: _published(source, at, table, cells))),
        claims=_claims(source),
        drawing=drawing,
        text=text,
        most_rounds=most_rounds,
    )
    return design


def _typed(source: Source, path: Where, value: Any, kind: type) -> Any:
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not fits:
        kinds = {int: "a whole number", str: "a text", bool: "true or false", float: "a number", list: "a list"}
        raise source.error(f"{path[-1]} = {value!r} must be {kinds.get(kind, 'a table')}", path)
    return value


def _tables(source: Source, key: str, read: Callable[[Source, Where, dict[str, Any]], Any]) -> list[Any]:
    tables = _typed(source, (key,), source.values.get(key, []), list)
    return [read(source, (key, n), _typed(source, (key, n), table, dict)) for n, table in enumerate(tables)]


def _known(
    source: Source, at: Where, table: Mapping[str, Any], keys: tuple[str, ...], needed: tuple[str, ...]
) -> None:
    for key in table:
        if key not in keys:
            raise source.error(f"unknown key {key!r}; there are {', '.join(keys)}", (*at, key))
    for key in needed:
        if key not in table:
            raise source.error(f"{key} is missing", at)


def _figure(source: Source, at: Where, table: dict[str, Any]) -> Figure:
    _known(source, at, table, Figure._fields, ("name", "title"))
    given = {**table, "methods": tuple(_typed(source, (*at, "methods"), table.get("methods", []), list))}
    figure = Figure(**given)
    _columns(source, (*at, "where"), _typed(source, (*at, "where"), figure.where, dict))
    if figure.measure not in MEASURES:
        raise source.error(f"measure = {figure.measure!r}; there are {', '.join(MEASURES)}", (*at, "measure"))
    for key in ("rows", "columns", "lines", "along"):
        column = getattr(figure, key)
        if column and column not in (*COLUMNS, *(("round",) if key == "along" else ())):
            raise source.error(f"{key} = {column!r} is no column; there are {', '.join(COLUMNS)}", (*at, key))
    if not figure.name.replace("-", "").isalnum():
        raise source.error(f"name = {figure.name!r} must be made of letters, digits and hyphens", (*at, "name"))
    return figure


def _published(source: Source, at: Where, table: dict[str, Any], cells: tuple[Cell, ...]) -> Published:
    _known(source, at, table, Published._fields, ("where", "value", "source"))
    where = _typed(source, (*at, "where"), table["where"], dict)
    _columns(source, (*at, "where"), where)
    matching = [cell for cell in cells if matches(cell.values, where)]
    if len(matching) != 1:
        raise source.error(f"where = {where} stands for {len(matching)} cells, not for one", (*at, "where"))
    limits = {
        key: _typed(source, (*at, key), table[key], float) for key in ("within", "within_errors") if key in table
    }
    return Published(
        where=where,
        round=_typed(source, (*at, "round"), table.get("round", 0), int),
        value=_typed(source, (*at, "value"), table["value"], float),
        within=limits.get("within"),
        within_errors=limits.get("within_errors"),
        source=_typed(source, (*at, "source"), table["source"], str),
        note=_typed(source, (*at, "note"), table.get("note", ""), str),
    )


def _columns(source: Source, path: Where, where: Mapping[str, Any]) -> None:
    for key in where:
        if key not in COLUMNS:
            raise source.error(f"where: {key!r} is no column; there are {', '.join(COLUMNS)}", path)


def matches(values: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Whether a cell's values are those asked for; an empty one, which does not matter to the cell, always is."""
    return all(
        values[key] == "" or values[key] in (wanted if isinstance(wanted, list) else [wanted])
        for key, wanted in where.items()
    )


def parse_where(text: str) -> dict[str, Any]:
    """Values of columns as written on the command line: ``delta=2,spread=heterogeneous``."""
    found: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in COLUMNS or not value:
            raise DesignError(f"--where {part!r}: write column=value; the columns are {', '.join(COLUMNS)}")
        try:
            found[key] = float(value)
        except ValueError:
            found[key] = value
    return found


def _claims(source: Source) -> tuple[str, ...]:
    from gaussip.studies.claims import CLAIMS

    names = _typed(source, ("claims",), source.values.get("claims", []), list)
    for name in names:
        if name not in CLAIMS:
            raise source.error(f"there is no claim {name!r}; there are {', '.join(sorted(CLAIMS))}", ("claims",))
    return tuple(names)


def _drawing(source: Source) -> Drawing:
    table, at = _typed(source, ("drawing",), source.values["drawing"], dict), ("drawing",)
    _known(source, at, table, Drawing._fields, Drawing._fields)
    drawing = Drawing(
        tuple(_typed(source, (*at, "networks"), table["networks"], list)),
        _typed(source, (*at, "sites"), table["sites"], int),
    )
    for network in drawing.networks:
        try:
            by_name(network, drawing.sites, 0)
        except NetworkError as error:
            raise source.error(str(error), (*at, "networks")) from error
    return drawing
