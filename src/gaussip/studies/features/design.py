"""The design of a study of a feature table."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gaussip import algorithms
from gaussip.errors import DesignError, GaussipError
from gaussip.files.toml import Source
from gaussip.networks.named import parse
from gaussip.rows.checks import check_unlabelled_weight
from gaussip.settings import check as check_setting
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
    differs: list[str] = []  #: what is not as it was where those numbers come from

    @property
    def cells(self) -> list[Cell]:
        """Each method without labels, and with them at every weight of the unlabelled rows."""
        found = [parse_method(text, 0.01) for text in self.methods]
        semi = [Cell(method._replace(semi=True), w) for w in self.unlabelled_weights for method in found]
        return [Cell(method, 1.0) for method in found] + semi

    @staticmethod
    def is_two_way(cell: Cell) -> bool:
        """Whether a cell's method needs a two-way network."""
        return bool(algorithms.REGISTRY[cell.method.algorithm].two_way)

    def network_of(self, cell: Cell) -> str:
        """Over which a cell's sites talk."""
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
    """A design from its TOML, checked: what is wrong is named with its line."""
    source = Source(text, f"{name}.toml", DesignError)
    design: FeatureDesign = source.converted(source.values, FeatureDesign)
    changed = {key: value for key, value in (("replicates", replicates), ("rounds", rounds)) if value is not None}
    design = msgspec.structs.replace(design, **changed)
    for key, check in _checks(design).items():
        try:
            check()
        except GaussipError as error:
            raise source.error(str(error), (key,)) from error
    return Loaded(name, design, text)


def _checks(d: FeatureDesign) -> dict[str, Any]:
    def at_least(key: str, least: float, most: float = float("inf")) -> Any:
        def check() -> None:
            if not least <= getattr(d, key) <= most:
                raise DesignError(f"{key} = {getattr(d, key)} must be from {least:g} to {most:g}")

        return check

    def weights() -> None:
        if not d.unlabelled_weights:
            raise DesignError("unlabelled_weights is empty; give at least one, 1.0 for rows that count alike")
        for weight in d.unlabelled_weights:
            check_unlabelled_weight(weight, labelled=True)

    def names() -> None:
        for text in d.methods:
            if parse_method(text, 0.01).semi:
                raise DesignError(f"write {text[5:]!r} for {text!r}: every method is run with labels and without")
        if len({cell.name for cell in d.cells}) < len(d.cells) or not d.methods:
            raise DesignError("methods must be at least one, each named once")

    def published() -> None:
        for one in d.published:
            parse_method(one.method, 0.01)

    def components() -> None:
        whole = isinstance(d.components, int) and d.components >= 1
        if not (whole or 0 < d.components < 1):
            raise DesignError(
                f"components = {d.components} is neither a number of components nor a share of the variance in (0, 1)"
            )

    return {
        "replicates": at_least("replicates", 1), "seed": at_least("seed", 0), "rounds": at_least("rounds", 1),
        "train": at_least("train", 0.01, 0.99), "labelled": at_least("labelled", 0.0, 1.0),
        "tol": at_least("tol", 0.0), "reg_covar": at_least("reg_covar", 0.0),
        "components": components, "published": published, "shrinkage": lambda: check_setting(shrinkage=d.shrinkage),
        "unlabelled_weights": weights, "methods": names, "network": lambda: parse(d.network),
        "two_way": lambda: parse(d.two_way), "weighting": lambda: check_setting(weighting=d.weighting),
    }  # fmt: skip
