"""The cells of a study: what may vary, what each value may be, and all combinations of what does."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from gaussip.errors import GaussipError, SettingError
from gaussip.files.toml import Path, Source
from gaussip.networks import mixing_weights
from gaussip.networks.named import parse
from gaussip.settings import MIXINGS, WEIGHTINGS, check_choice
from gaussip.studies.methods import Method, parse_method
from gaussip.studies.simulation_model import SPREADS, Setting

POOLED = "em"  # the whole sample's estimate, which the others are measured against
ALONE = (POOLED, "local")  # they hear nobody: the network means nothing to them
LONG = 20_000  # the whole sample's EM goes on until it converges, or so far


def _whole(least: int) -> Callable[[str, Any], int]:
    def check(key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise SettingError(f"{key} = {value!r} must be a whole number of at least {least}")
        return value

    return check


def _number(low: float, high: float, what: str, open_at_low: bool = False) -> Callable[[str, Any], float]:
    def check(key: str, value: Any) -> float:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        if not fits or (open_at_low and value == low):
            raise SettingError(f"{key} = {value!r} must be {what}")
        return float(value)

    return check


def _choice(choices: tuple[str, ...]) -> Callable[[str, Any], str]:
    def check(key: str, value: Any) -> str:
        check_choice(key, value, choices)
        return str(value)

    return check


def _fractions(key: str, value: Any) -> float | tuple[float, ...]:
    if not isinstance(value, list):
        return _fraction(key, value)
    if not value:
        raise SettingError(f"{key} = []: give at least one fraction")
    return tuple(_fraction(key, one) for one in value)


def _network(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SettingError(f"{key} = {value!r} must be a network's name, for instance {key} = 'circle'")
    parse(value)
    return value


def _method(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SettingError(f"{key}: {value!r} is no method; write for instance 'mnem' or 'ngd=0.003'")
    if parse_method(value, 0.01).semi:
        raise SettingError(f"{key}: write {value[5:]!r} for {value!r}; methods see the labels there are (labelled)")
    return value


_fraction = _number(0, 1, "a fraction in [0, 1]")
_step = _number(0, 1, "a step in (0, 1]", open_at_low=True)
#: what a cell is made of: the check of one value, and the paper's value
KEYS: dict[str, tuple[Callable[[str, Any], Any], Any]] = {
    "rows": (_whole(1), 30_000),
    "sites": (_whole(1), 20),
    "features": (_whole(1), 6),
    "delta": (_number(0, 1e6, "a number of at least 0"), 2.0),
    "spread": (_choice(SPREADS), "heterogeneous"),
    "concentration": (_number(0, 1e6, "a positive number", open_at_low=True), 0.5),
    "size_ratio": (_number(1, 1e6, "a number of at least 1"), 1.0),
    "labelled": (_fractions, 0.0),
    "network": (_network, "circle"),
    "mixing": (_choice(MIXINGS), "row"),
    "weighting": (_choice(WEIGHTINGS), "equal"),
    "noise": (_number(0, 1e6, "a number of at least 0"), 0.1),
    "rounds": (_whole(1), 3000),
    "eta": (_step, 0.01),
    "methods": (_method, None),
}
BY_NETWORK = ("network", "mixing", "weighting")
COLUMNS = (*(key for key in KEYS if key not in ("methods", "rounds", "eta")), "method", "eta")


class Cell(NamedTuple):
    """One method in one setting, over all replicates."""

    setting: Setting
    method: Method
    rounds: int
    noise: float
    network: str  #: empty where the method hears nobody, as mixing and weighting
    mixing: str
    weighting: str

    @property
    def values(self) -> dict[str, Any]:
        """The cell by the names of `COLUMNS`; what does not matter to its method is empty."""
        s = self.setting
        return {
            "rows": s.n_rows, "sites": s.n_sites, "features": s.n_features, "delta": s.delta, "spread": s.spread,
            "concentration": s.concentration if s.spread == "dirichlet" else "", "size_ratio": s.size_ratio,
            "labelled": in_turn(s.labelled), "network": self.network, "mixing": self.mixing,
            "weighting": self.weighting, "noise": self.noise, "method": self.method.algorithm,
            "eta": self.method.eta if self.method.has_step else "",
        }  # fmt: skip

    @property
    def pooled(self) -> Cell:
        """The whole sample's cell of the same data and start."""
        method = Method(POOLED, 1.0, self.method.semi)
        return self._replace(method=method, rounds=LONG, network="", mixing="", weighting="")


def in_turn(labelled: float | tuple[float, ...]) -> float | str:
    """A labelled fraction, or those of the sites in turn as one text: ``0 0.2``."""
    if not isinstance(labelled, tuple):
        return labelled
    M = len(labelled)
    period = next(n for n in range(1, M + 1) if all(labelled[m] == labelled[m % n] for m in range(M)))
    return " ".join(str(r).removesuffix(".0") for r in labelled[:period])


def cells_of(source: Source, seed: int, most_rounds: int | None) -> tuple[Cell, ...]:
    """Every cell of a design, the whole sample's first, each once.

    Keys at the top of the file hold for all tables ``[[cells]]``; a list stands for all of its values.
    """
    tables = source.values.get("cells", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise source.error("cells are tables: write [[cells]] above the keys of each", ("cells",))
    common = {key: source.values[key] for key in KEYS if key in source.values}
    found: dict[Cell, None] = {}
    for number, table in enumerate(tables):
        lists: dict[str, tuple[list[Any], Path]] = {}
        for at, given in (((), common), (("cells", number), table)):
            for key, value in given.items():
                lists[key] = (_values(source, key, value, (*at, key)), (*at, key))
        if "methods" not in lists:
            raise source.error("methods are missing; write for instance methods = ['em', 'mnem']", ("cells", number))
        for combination in itertools.product(*(values for values, _ in lists.values())):
            chosen = dict(zip(lists, combination, strict=True))
            try:
                found.update(dict.fromkeys(_cells(chosen, seed, most_rounds)))
            except GaussipError as error:
                where = lists.get(error.setting or "", (None, ("cells", number)))[1]
                raise source.error(str(error), where) from error
    return tuple(sorted(found, key=lambda cell: cell.method.algorithm != POOLED))


def _values(source: Source, key: str, value: Any, path: Path) -> list[Any]:
    if key not in KEYS:
        raise source.error(f"unknown key {key!r}; a cell's keys are {', '.join(KEYS)}", path)
    values = value if isinstance(value, list) else [value]
    if not values:
        raise source.error(f"{key} = [] gives no value", path)
    try:
        return [KEYS[key][0](key, one) for one in values]
    except GaussipError as error:
        raise source.error(str(error), path) from error


def _cells(chosen: Mapping[str, Any], seed: int, most_rounds: int | None) -> Iterator[Cell]:
    """The cell of one combination of values, and the whole sample's of the same data."""
    value = {key: chosen.get(key, default) for key, (_, default) in KEYS.items()}
    M, labelled = value["sites"], value["labelled"]
    if isinstance(labelled, tuple):
        if len(labelled) > M:
            text = f"labelled gives {len(labelled)} fractions in turn for {M} sites"
            raise SettingError(text, setting="labelled")
        labelled = tuple(itertools.islice(itertools.cycle(labelled), M))
    spread = value["spread"]
    setting = Setting(
        n_rows=value["rows"],
        n_sites=M,
        n_features=value["features"],
        delta=value["delta"],
        spread=spread,
        concentration=value["concentration"] if spread == "dirichlet" else KEYS["concentration"][1],
        size_ratio=value["size_ratio"],
        labelled=labelled,
    )
    semi = max(labelled) > 0 if isinstance(labelled, tuple) else labelled > 0
    method = parse_method(value["methods"], value["eta"])._replace(semi=semi)
    rounds = value["rounds"] if most_rounds is None else min(value["rounds"], most_rounds)
    placed = [value[key] for key in BY_NETWORK]
    mixing_weights(value["network"], range(M), value["mixing"], seed)  # refuses what cannot be
    alone = method.algorithm in ALONE
    cell = Cell(setting, method, rounds, value["noise"], *(["", "", ""] if alone else placed))
    yield cell.pooled
    if method.algorithm != POOLED:
        yield cell


def plain(value: Any) -> str:
    """A value as people write it: 2, not 2.0."""
    return f"{value:g}" if isinstance(value, float) else str(value)


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
        if key not in COLUMNS or not value or key in found:
            what = "write column=value, one value for each column"
            raise SettingError(f"--where {part!r}: {what}; the columns are {', '.join(COLUMNS)}")
        try:
            found[key] = float(value)
        except ValueError:
            found[key] = value
    return found
