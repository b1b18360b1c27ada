"""The cells of a study: what may vary, what each value may be, and all combinations of what does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from gaussip.errors import GaussipError, SettingError
from gaussip.networks import mixing_weights
from gaussip.settings import MIXINGS, WEIGHTINGS
from gaussip.studies import checks
from gaussip.studies.checks import Check, Table
from gaussip.studies.methods import Method, parse_method
from gaussip.studies.simulation_model import SPREADS, Setting

POOLED = "em"  # the whole sample's estimate, which the others are measured against
ALONE = (POOLED, "local")  # they exchange nothing: the network means nothing to them
LOOKS = 60  # rounds that are looked at, about, unless a design asks for more
LONG = 20_000  # most rounds of the whole sample's EM, which runs until it converges


def _values(check: Check) -> Check:
    """One value, or a list of them, as a list."""

    def check_all(key: str, value: Any) -> list[Any]:
        values = value if isinstance(value, list) else [value]
        if not values:
            raise SettingError(f"{key} = [] gives no value")
        return [check(key, item) for item in values]

    return check_all


def _fractions(key: str, value: Any) -> float | tuple[float, ...]:
    """The labelled fraction of all sites, or those of the sites in turn."""
    fractions = _values(checks.fraction)(key, value)
    return tuple(fractions) if isinstance(value, list) else fractions[0]


#: what a cell is made of: the check of a value, and the paper's value
KEYS: dict[str, tuple[Check, Any]] = {
    "rows": (checks.whole(1), 30_000),
    "sites": (checks.whole(1), 20),
    "features": (checks.whole(1), 6),
    "delta": (checks.not_negative, 2.0),
    "spread": (checks.choice(SPREADS), "heterogeneous"),
    "concentration": (checks.number(0, 1e6, "a positive number", above_low=True), 0.5),
    "size_ratio": (checks.number(1, 1e6, "a number of at least 1"), 1.0),
    "labelled": (_fractions, 0.0),
    "network": (checks.network_name, "circle"),
    "mixing": (checks.choice(MIXINGS), "row"),
    "weighting": (checks.choice(WEIGHTINGS), "equal"),
    "noise": (checks.not_negative, 0.1),
    "rounds": (checks.whole(1), 3000),
    "eta": (checks.number(0, 1, "a step in (0, 1]", above_low=True), 0.01),
    "methods": (checks.method_name, None),
}
BY_NETWORK = ("network", "mixing", "weighting")
COLUMNS = (*(key for key in KEYS if key not in ("methods", "rounds", "eta")), "method", "eta")


class Cell(NamedTuple):
    """One method in one setting, over all replicates."""

    setting: Setting
    method: Method
    rounds: int
    noise: float
    network: str  #: empty where the method exchanges nothing, as mixing and weighting
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


def cells_of(design: Table, seed: int, most_rounds: int | None) -> tuple[Cell, ...]:
    """Every cell of a design, the whole sample's first, each once.

    Keys at the top of the file hold for all tables ``[[cells]]``; a list stands for all of its values.
    """
    common = {key: design.get(key, _values(KEYS[key][0])) for key in KEYS if key in design.values}
    cells: dict[Cell, None] = {}
    for table in design.tables("cells"):
        table.check_keys(KEYS)
        lists = common | {key: table.get(key, _values(KEYS[key][0])) for key in table.values}
        if "methods" not in lists:
            raise table.error("methods are missing; write for instance methods = ['em', 'mnem']")
        for combination in itertools.product(*lists.values()):
            chosen = dict(zip(lists, combination, strict=True))
            try:
                cells.update(dict.fromkeys(_cells(chosen, seed, most_rounds)))
            except GaussipError as error:
                key = error.setting or ""
                place = design if key in common and key not in table.values else table
                raise place.error(str(error), key) from error
    return tuple(sorted(cells, key=lambda cell: cell.method.algorithm != POOLED))


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
    mixing_weights(value["network"], range(M), value["mixing"], seed)  # rejects what cannot be
    alone = method.algorithm in ALONE
    cell = Cell(setting, method, rounds, value["noise"], *(["", "", ""] if alone else placed))
    yield cell.pooled
    if method.algorithm != POOLED:
        yield cell


def marks(rounds: int, looks: int = LOOKS) -> list[int]:
    """The rounds that are looked at: spaced evenly on a logarithmic scale, with the round numbers among them."""
    even = np.rint(np.geomspace(1, rounds, looks)).astype(int).tolist()
    round_numbers = [digit * 10**power for power in range(len(str(rounds))) for digit in (1, 2, 3, 5)]
    return sorted({*even, *(mark for mark in round_numbers if mark <= rounds)})


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
    where: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key not in COLUMNS or not value or key in where:
            what = "write column=value, one value for each column"
            raise SettingError(f"--where {part!r}: {what}; the columns are {', '.join(COLUMNS)}")
        try:
            where[key] = float(value)
        except ValueError:
            where[key] = value
    return where
