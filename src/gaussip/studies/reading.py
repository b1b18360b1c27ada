"""The parts of a design beside its cells, read from its TOML: figures, published numbers, claims, networks."""

from typing import Any

from gaussip.errors import NetworkError
from gaussip.networks import by_name
from gaussip.studies.cells import COLUMNS, POOLED, Cell, in_turn, marks, matches
from gaussip.studies.checks import Table, each, number, table, text, whole
from gaussip.studies.claims import CLAIMS
from gaussip.studies.parts import Figure, NetworkDrawings, Published

MEASURES = ("log_mse", "distance", "mse_ratio", "contraction")  # the first two also along rounds
TABLES = ("summary", "curves", "published", "claims", "report")  # names that a figure cannot have
VALUE = number(-1e300, 1e300, "a number")


def figures_of(design: Table, cells: tuple[Cell, ...]) -> tuple[Figure, ...]:
    """The figures of a design."""
    figures: list[Figure] = []
    for given in design.tables("figures"):
        figure = _figure(given, cells, bool(design.values.get("contraction")))
        if figure.name in (*TABLES, *(other.name for other in figures)):
            raise given.error(f"name = {figure.name!r} is taken", "name")
        figures.append(figure)
    return tuple(figures)


def _figure(given: Table, cells: tuple[Cell, ...], with_contraction: bool) -> Figure:
    given.check_keys(Figure._fields, ("name", "title"))
    texts = {key: given.get(key, text) for key in given.values if key not in ("methods", "where")}
    figure = Figure(**texts, methods=given.get("methods", each(text), ()), where=_where(given))
    if not figure.name.replace("-", "").isalnum():
        raise given.error(f"name = {figure.name!r} must be made of letters, digits and hyphens", "name")
    for key in ("rows", "columns", "lines", "along"):
        column, known = getattr(figure, key), (("round", *COLUMNS) if key == "along" else COLUMNS)
        if column and column not in known:
            raise given.error(f"{key} = {column!r} is not a column; there are {', '.join(known)}", key)
    allowed = MEASURES[:2] if figure.along == "round" else MEASURES
    if figure.measure not in allowed or (figure.measure == "contraction" and not with_contraction):
        needs = {"contraction": "; contraction needs contraction = true above"}.get(figure.measure, "")
        there = f"along {figure.along} there are {', '.join(allowed)}{needs}"
        raise given.error(f"measure = {figure.measure!r}; {there}", "measure")
    run = {cell.method.algorithm for cell in cells}
    for name in figure.methods:
        if name not in run:
            raise given.error(f"methods: {name!r} is not run; there are {', '.join(sorted(run))}", "methods")
    if figure.measure == "contraction" and figure.methods != (POOLED,):
        raise given.error(f"contraction is the whole sample's: write methods = ['{POOLED}']", "measure")
    _check_drawn(given, figure, cells)
    return figure


def _check_drawn(given: Table, figure: Figure, cells: tuple[Cell, ...]) -> None:
    """Reject a figure without cells, or one in which two of them would be the same line, or point of a line."""
    drawn = figure.drawn(cells)
    if not drawn:
        raise given.error("no cell is drawn: see its where and its methods")
    keys = [key for key in (figure.rows, figure.columns, figure.lines, figure.along) if key and key != "round"]
    keys += ["eta"] if figure.lines == "method" else []
    seen: dict[tuple[Any, ...], Cell] = {}
    for cell in drawn:
        other = seen.setdefault(tuple(cell.values[key] for key in keys), cell)
        if other is not cell:
            differ = ", ".join(key for key in COLUMNS if cell.values[key] != other.values[key])
            raise given.error(f"cells differ in {differ} too: add it to rows, columns, lines or where")


def published_of(design: Table, cells: tuple[Cell, ...], looks: int, reduced: bool) -> tuple[Published, ...]:
    """The published numbers of a design."""
    return tuple(_published(given, cells, looks, reduced) for given in design.tables("published"))


def _published(given: Table, cells: tuple[Cell, ...], looks: int, reduced: bool) -> Published:
    given.check_keys(Published._fields, ("where", "value", "source"))
    where = _where(given)
    if any(isinstance(value, list) and len(value) != 1 for value in where.values()):
        raise given.error("where: give one value for each column; fractions in turn as [[0, 0.2]]", "where")
    matching = [cell for cell in cells if matches(cell.values, where)]
    if len(matching) != 1:
        differ = [key for key in COLUMNS if len({cell.values[key] for cell in matching}) > 1]
        how = f"; they differ in {', '.join(differ)}" if differ else ""
        count = f"stands for {len(matching)} cells, not for one"
        raise given.error(f"where = {given.values['where']} {count}{how}", "where")
    checks = {"round": whole(0), "source": text, "note": text}
    values = {key: given.get(key, checks.get(key, VALUE)) for key in given.values if key != "where"}
    published, looked = Published(where, **values), marks(matching[0].rounds, looks)
    if published.round and published.round not in looked and not reduced:
        near = sorted(looked, key=lambda mark: abs(mark - published.round))[:2]
        there = f"of {looked[-1]} rounds the nearest are {' and '.join(map(str, near))}"
        raise given.error(f"round {published.round} is not looked at; {there}", "round")
    return published


def _where(given: Table) -> dict[str, Any]:
    """Columns with their value, or a list of values; fractions in turn are a list in a list."""
    where = dict(given.get("where", table, {}))
    for key, value in where.items():
        if key not in COLUMNS:
            raise given.error(f"where: {key!r} is not a column; there are {', '.join(COLUMNS)}", "where")
        if key == "method" and str(value).startswith("semi-"):
            raise given.error(f"where: write method = {value[5:]!r}; methods see the labels there are", "where")
        if key == "labelled" and isinstance(value, list):
            try:
                where[key] = [in_turn(tuple(map(float, item))) if isinstance(item, list) else item for item in value]
            except (TypeError, ValueError):
                raise given.error(f"where: labelled = {value} must be fractions", "where") from None
    return where


def claims_of(design: Table) -> tuple[str, ...]:
    """The names of a design's claims."""
    names: tuple[str, ...] = design.get("claims", each(text), ())
    for name in names:
        if name not in CLAIMS:
            raise design.error(f"there is no claim {name!r}; there are {', '.join(sorted(CLAIMS))}", "claims")
    return names


def drawing_of(design: Table) -> NetworkDrawings | None:
    """The networks a design draws."""
    if "drawing" not in design.values:
        return None
    given = Table(design.source, ("drawing",), design.get("drawing", table))
    given.check_keys(NetworkDrawings._fields, NetworkDrawings._fields)
    drawing = NetworkDrawings(given.get("networks", each(text)), given.get("sites", whole(1)))
    for network in drawing.networks:
        try:
            by_name(network, drawing.sites, 0)
        except NetworkError as error:
            raise given.error(str(error), "networks") from error
    return drawing
