"""The design of a study of a feature table."""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gaussip import algorithms
from gaussip.errors import DesignError
from gaussip.files.toml import Source
from gaussip.rows.checks import check_unlabelled_weight
from gaussip.settings import WEIGHTINGS
from gaussip.settings import check as check_setting
from gaussip.studies import checks
from gaussip.studies.design import SHIPPED
from gaussip.studies.methods import Method, parse_method

KIND = "features"


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mean AUC that was published."""

    label: str
    method: str
    labelled: bool
    auc: float


class Cell(NamedTuple):
    """One method, with or without labels."""

    method: Method  #: ``semi`` where it sees the labels
    unlabelled_weight: float

    @property
    def name(self) -> str:
        """For people and for its folder."""
        step = f"={self.method.eta:g}" if self.method.has_step else ""
        weight = f"_unlabelled={self.unlabelled_weight:g}" if self.method.semi else ""
        return f"{'semi-' * self.method.semi}{self.method.algorithm}{step}{weight}"


class FeatureDesign(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a study of a feature table runs."""

    kind: str = KIND
    title: str
    about: str = ""
    replicates: int = 20
    seed: int = 1
    components: int | float
    train: float = 0.7
    labelled: float = 0.2
    rounds: int = 3000
    tol: float = 1e-5
    reg_covar: float = 1e-6
    shrinkage: float = 0.0
    unlabelled_weights: tuple[float, ...] = (1.0,)
    methods: list[str]
    network: str = "circle"
    two_way: str = "ring"
    weighting: str = "rows"
    published: list[Published] = []
    differs: list[str] = []  #: how the study differs from the one that published them

    @property
    def cells(self) -> list[Cell]:
        """Each method without labels, and with them at every weight of the unlabelled rows."""
        methods = [parse_method(text, 0.01) for text in self.methods]
        semi = [Cell(method._replace(semi=True), w) for w in self.unlabelled_weights for method in methods]
        return [Cell(method, 1.0) for method in methods] + semi

    @staticmethod
    def is_two_way(cell: Cell) -> bool:
        """Whether a cell's method needs a two-way network."""
        return bool(algorithms.REGISTRY[cell.method.algorithm].two_way)

    def network_of(self, cell: Cell) -> str:
        """The network of a cell's sites."""
        return self.two_way if self.is_two_way(cell) else self.network

    @property
    def settings(self) -> dict[str, Any]:
        """All that the numbers depend on."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return {key: value for key, value in values.items() if key not in ("title", "about", "published", "differs")}


class Loaded(NamedTuple):
    """A design, its name and its TOML."""

    name: str
    design: FeatureDesign
    text: str


def is_of_features(name: str | Path) -> bool:
    """Whether this is a study of a feature table: one that comes with gaussip, or a .toml file of that kind."""
    if str(name) == "xray":
        return True
    path = Path(name)
    if path.suffix != ".toml" or not path.is_file():
        return False
    kind = Source(path.read_text(encoding="utf-8", errors="replace"), str(path), DesignError).values.get("kind")
    if kind not in (None, KIND):
        raise DesignError(f"{path}: there is no kind {kind!r} of study; leave kind out, or write kind = {KIND!r}")
    return kind == KIND


def load(name: str | Path, replicates: int | None = None, rounds: int | None = None) -> Loaded:
    """A design that comes with gaussip, by name, or one's own, by the path of its TOML file."""
    shipped = str(name) == "xray"
    text = (SHIPPED / "xray.toml" if shipped else Path(name)).read_text(encoding="utf-8")
    return of_text(text, "xray" if shipped else Path(name).stem, replicates, rounds)


def of_text(text: str, name: str, replicates: int | None = None, rounds: int | None = None) -> Loaded:
    """A design from its TOML, checked: an error names the line."""
    source = Source(text, f"{name}.toml", DesignError)
    design: FeatureDesign = source.converted(source.values, FeatureDesign)
    changed = {key: value for key, value in (("replicates", replicates), ("rounds", rounds)) if value is not None}
    design = msgspec.structs.replace(design, **changed)
    table = checks.Table(source, (), source.values)
    for key, check in CHECKS.items():
        table.judge(key, check, getattr(design, key))
    if len({cell.name for cell in design.cells}) < len(design.cells) or not design.methods:
        raise table.error("methods must be at least one, each named once", "methods")
    return Loaded(name, design, text)


def _components(key: str, value: float) -> None:
    if not ((isinstance(value, int) and value >= 1) or 0 < value < 1):
        raise DesignError(f"{key} = {value} is neither a number of components nor a share of the variance in (0, 1)")


def _weights(key: str, values: tuple[float, ...]) -> None:
    if not values:
        raise DesignError(f"{key} is empty; give at least one, 1.0 for rows that count alike")
    for value in values:
        check_unlabelled_weight(value, labelled=True)


CHECKS: dict[str, checks.Check] = {
    "replicates": checks.whole(1),
    "seed": checks.whole(0),
    "components": _components,
    "train": checks.number(0.01, 0.99, "a fraction from 0.01 to 0.99"),
    "labelled": checks.fraction,
    "rounds": checks.whole(1),
    "tol": checks.not_negative,
    "reg_covar": checks.not_negative,
    "shrinkage": lambda _, value: check_setting(shrinkage=value),
    "unlabelled_weights": _weights,
    "methods": checks.each(checks.method_name),
    "network": checks.network_name,
    "two_way": checks.network_name,
    "weighting": checks.choice(WEIGHTINGS),
    "published": checks.each(lambda _, published: parse_method(published.method, 0.01)),
}
