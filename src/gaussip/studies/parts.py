"""What a design holds beside its cells: figures, published numbers, claims, and networks to be drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from gaussip.errors import NetworkError
from gaussip.files.toml import Path as Where
from gaussip.files.toml import Source
from gaussip.networks import by_name
from gaussip.studies.cells import COLUMNS, POOLED, Cell, in_turn, matches
from gaussip.studies.marks import LOOKS, marks

MEASURES = ("log_mse", "distance", "mse_ratio", "contraction")  # the first two also along rounds
TABLES = ("summary", "curves", "published", "claims", "report")  # what a figure cannot be called


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


def typed(source: Source, path: Where, value: Any, kind: type) -> Any:
    """A value of the wanted kind, or an error with its line."""
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not fits:
        kinds = {int: "a whole number", str: "a text", bool: "true or false", float: "a number", list: "a list"}
        raise source.error(f"{path[-1]} = {value!r} must be {kinds.get(kind, 'a table')}", path)
    return value


def _tables(source: Source, key: str, read: Callable[[Source, Where, dict[str, Any]], Any]) -> list[Any]:
    tables = typed(source, (key,), source.values.get(key, []), list)
    return [read(source, (key, n), typed(source, (key, n), table, dict)) for n, table in enumerate(tables)]


def _known(
    source: Source, at: Where, table: Mapping[str, Any], keys: tuple[str, ...], needed: tuple[str, ...]
) -> None:
    for key in table:
        if key not in keys:
            raise source.error(f"unknown key {key!r}; there are {', '.join(keys)}", (*at, key))
    for key in needed:
        if key not in table:
            raise source.error(f"{key} is missing", at)


def _texts(source: Source, path: Where, value: Any) -> tuple[str, ...]:
    return tuple(typed(source, path, text, str) for text in typed(source, path, value, list))


def figures_of(source: Source, cells: tuple[Cell, ...]) -> tuple[Figure, ...]:
    """The figures of a design."""
    figures = _tables(source, "figures", lambda source, at, table: _figure(source, at, table, cells))
    for number, figure in enumerate(figures):
        if figure.name in (*TABLES, *(other.name for other in figures[:number])):
            raise source.error(f"name = {figure.name!r} is taken", ("figures", number, "name"))
    return tuple(figures)


def drawn(figure: Figure, cells: Iterable[Cell]) -> list[Cell]:
    """The cells of a figure; the whole sample's only where its methods name it."""
    chosen = [cell for cell in cells if matches(cell.values, figure.where)]
    return [
        cell for cell in chosen if cell.method.algorithm in (figure.methods or {cell.method.algorithm} - {POOLED})
    ]


def _check_drawn(source: Source, at: Where, figure: Figure, cells: tuple[Cell, ...]) -> None:
    """Refuse a figure without cells, or one in which two of them would be the same line, or point of a line."""
    shown = drawn(figure, cells)
    if not shown:
        raise source.error("no cell is drawn: see its where and its methods", at)
    keys = [key for key in (figure.rows, figure.columns, figure.lines, figure.along) if key and key != "round"]
    keys += ["eta"] if figure.lines == "method" else []
    seen: dict[tuple[Any, ...], Cell] = {}
    for cell in shown:
        other = seen.setdefault(tuple(cell.values[key] for key in keys), cell)
        if other is not cell:
            differ = ", ".join(key for key in COLUMNS if cell.values[key] != other.values[key])
            raise source.error(f"cells differ in {differ} too: add it to rows, columns, lines or where", at)


def _figure(source: Source, at: Where, table: dict[str, Any], cells: tuple[Cell, ...]) -> Figure:
    _known(source, at, table, Figure._fields, ("name", "title"))
    texts = {
        key: typed(source, (*at, key), value, str) for key, value in table.items() if key not in ("methods", "where")
    }
    where = _where(source, (*at, "where"), table.get("where", {}))
    figure = Figure(**texts, methods=_texts(source, (*at, "methods"), table.get("methods", [])), where=where)
    if not figure.name.replace("-", "").isalnum():
        raise source.error(f"name = {figure.name!r} must be made of letters, digits and hyphens", (*at, "name"))
    for key in ("rows", "columns", "lines", "along"):
        column = getattr(figure, key)
        if column and column not in (*COLUMNS, *(("round",) if key == "along" else ())):
            known = ", ".join((*(("round",) if key == "along" else ()), *COLUMNS))
            raise source.error(f"{key} = {column!r} is no column; there are {known}", (*at, key))
    along_rounds = figure.along == "round"
    allowed = MEASURES[:2] if along_rounds else MEASURES
    if figure.measure not in allowed or (figure.measure == "contraction" and not source.values.get("contraction")):
        needs = {"contraction": "; contraction needs contraction = true above"}.get(figure.measure, "")
        what = ", ".join(allowed)
        raise source.error(
            f"measure = {figure.measure!r}; along {figure.along} there are {what}{needs}", (*at, "measure")
        )
    run = {cell.method.algorithm for cell in cells}
    for name in figure.methods:
        if name not in run:
            raise source.error(f"methods: {name!r} is not run; there are {', '.join(sorted(run))}", (*at, "methods"))
    if figure.measure == "contraction" and figure.methods != (POOLED,):
        raise source.error(f"contraction is the whole sample's: write methods = ['{POOLED}']", (*at, "measure"))
    _check_drawn(source, at, figure, cells)
    return figure


def published_of(source: Source, cells: tuple[Cell, ...], reduced: bool) -> tuple[Published, ...]:
    """The published numbers of a design."""
    return tuple(
        _tables(source, "published", lambda source, at, table: _published(source, at, table, cells, reduced))
    )


def _published(source: Source, at: Where, table: dict[str, Any], cells: tuple[Cell, ...], reduced: bool) -> Published:
    _known(source, at, table, Published._fields, ("where", "value", "source"))
    where = _where(source, (*at, "where"), table["where"])
    if any(isinstance(value, list) and len(value) != 1 for value in where.values()):
        raise source.error("where: give one value for each column; fractions in turn as [[0, 0.2]]", (*at, "where"))
    matching = [cell for cell in cells if matches(cell.values, where)]
    if len(matching) != 1:
        differ = [key for key in COLUMNS if len({cell.values[key] for cell in matching}) > 1]
        how = f"; they differ in {', '.join(differ)}" if differ else ""
        raise source.error(
            f"where = {table['where']} stands for {len(matching)} cells, not for one{how}", (*at, "where")
        )
    round_ = typed(source, (*at, "round"), table.get("round", 0), int)
    looked = marks(matching[0].rounds, source.values.get("looks", LOOKS))
    if round_ and round_ not in looked and not reduced:
        near = sorted(looked, key=lambda mark: abs(mark - round_))[:2]
        what = " and ".join(map(str, near))
        raise source.error(
            f"round {round_} is not looked at; of {looked[-1]} rounds the nearest are {what}", (*at, "round")
        )
    limits = {
        key: typed(source, (*at, key), table[key], float) for key in ("within", "within_errors") if key in table
    }
    return Published(
        where=where,
        round=round_,
        value=typed(source, (*at, "value"), table["value"], float),
        within=limits.get("within"),
        within_errors=limits.get("within_errors"),
        source=typed(source, (*at, "source"), table["source"], str),
        note=typed(source, (*at, "note"), table.get("note", ""), str),
    )


def _where(source: Source, path: Where, given: Any) -> dict[str, Any]:
    """Columns with their value, or a list of values; fractions in turn are a list in a list."""
    where = dict(typed(source, path, given, dict))
    for key, value in where.items():
        if key not in COLUMNS:
            raise source.error(f"where: {key!r} is no column; there are {', '.join(COLUMNS)}", path)
        if key == "method" and str(value).startswith("semi-"):
            raise source.error(f"where: write method = {value[5:]!r}; methods see the labels there are", path)
        if key == "labelled" and isinstance(value, list):
            try:
                where[key] = [in_turn(tuple(map(float, one))) if isinstance(one, list) else one for one in value]
            except (TypeError, ValueError):
                raise source.error(f"where: labelled = {value} must be fractions", path) from None
    return where


def levels_of(source: Source) -> tuple[float, ...]:
    """The distances whose cost a design asks for."""
    levels = [
        typed(source, ("levels",), one, float)
        for one in typed(source, ("levels",), source.values.get("levels", []), list)
    ]
    if not all(0 < level < 1e6 for level in levels):
        raise source.error(f"levels = {levels} must be positive distances", ("levels",))
    return tuple(levels)


def claims_of(source: Source) -> tuple[str, ...]:
    """The names of a design's claims."""
    from gaussip.studies.claims import CLAIMS

    names = _texts(source, ("claims",), source.values.get("claims", []))
    for name in names:
        if name not in CLAIMS:
            raise source.error(f"there is no claim {name!r}; there are {', '.join(sorted(CLAIMS))}", ("claims",))
    return names


def drawing_of(source: Source) -> Drawing:
    """The networks a design draws."""
    table, at = typed(source, ("drawing",), source.values["drawing"], dict), ("drawing",)
    _known(source, at, table, Drawing._fields, Drawing._fields)
    drawing = Drawing(
        _texts(source, (*at, "networks"), table["networks"]),
        typed(source, (*at, "sites"), table["sites"], int),
    )
    for network in drawing.networks:
        try:
            by_name(network, drawing.sites, 0)
        except NetworkError as error:
            raise source.error(str(error), (*at, "networks")) from error
    return drawing
