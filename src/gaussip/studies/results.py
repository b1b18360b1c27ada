"""The results of a study: its cells by their values, and their numbers as tables."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import GaussipError
from gaussip.studies.cells import COLUMNS, POOLED, Cell, matches
from gaussip.studies.comparison import log_mean
from gaussip.studies.parts import Design


class NotRunError(GaussipError):
    """A number was asked for that the study has not computed."""


class Value(NamedTuple):
    """A number with its standard error over data sets."""

    value: float
    error: float


class Results:
    """The cells that are done."""

    def __init__(self, design: Design, numbers: Mapping[Cell, Mapping[str, NDArray]]) -> None:
        self.design, self._numbers = design, numbers

    @property
    def missing(self) -> list[Cell]:
        """The cells that are not done."""
        return [cell for cell in self.design.cells if cell not in self._numbers]

    def all(self, **where: Any) -> list[Cell]:
        """The cells with these values that are done."""
        return [cell for cell in self._numbers if matches(cell.values, where)]

    def others(self, **where: Any) -> list[Cell]:
        """The same without the whole sample's."""
        return [cell for cell in self.all(**where) if cell.method.algorithm != POOLED]

    def cell(self, **where: Any) -> Cell:
        """The cell with these values."""
        cells = self.all(**where)
        if len(cells) != 1:
            shown = ", ".join(f"{key} {value}" for key, value in where.items())
            raise NotRunError(f"{'no cell' if not cells else f'{len(cells)} cells'} with {shown} has been run")
        return cells[0]

    def describe(self, cell: Cell) -> str:
        """A cell in a sentence: its method, and the columns that vary."""
        shown = [f"{key} {value}" for key, value in self.design.varying_of(cell).items()]
        return f"{cell.method.name} ({', '.join(shown)})" if shown else cell.method.name

    def at(self, cell: Cell, round: int) -> int:
        """The place of a round among those a cell was looked at; 0 is the last."""
        if not round:
            return -1
        place = np.flatnonzero(self.numbers(cell)["rounds"] == round)
        if not place.size:
            raise NotRunError(f"{self.design.name_of(cell)} was not looked at in round {round}")
        return int(place[0])

    def log_mse(self, cell: Cell, round: int = 0) -> Value:
        """The log MSE after a round; NaN where every data set has collapsed."""
        return Value(*log_mean(self.numbers(cell)["mse"][self.at(cell, round)]))

    def curve(self, cell: Cell, measure: str = "log_mse") -> NDArray:
        """The log MSE, or the mean distance, along the rounds, (L,)."""
        if measure == "log_mse":
            return np.array([log_mean(mse)[0] for mse in self.numbers(cell)["mse"]])
        return np.array([_mean(distance).value for distance in self.numbers(cell)["distance"]])

    def mse_ratio(self, cell: Cell) -> Value:
        """The last MSE over the whole sample's, over the data sets that are left."""
        ours, theirs = self.numbers(cell)["mse"][-1], self.numbers(cell.pooled)["mse"][-1]
        left = np.isfinite(ours) & np.isfinite(theirs)
        if not left.any():
            return Value(np.nan, np.nan)
        ratio = ours[left].mean() / theirs[left].mean()
        apart = (ours[left] - ratio * theirs[left]) / theirs[left].mean()
        error = apart.std(ddof=1) / np.sqrt(left.sum()) if left.sum() > 1 else np.nan
        return Value(float(ratio), float(error))

    def distance(self, cell: Cell) -> Value:
        """The last distance from the whole sample's estimate, mean over the data sets that are left."""
        return _mean(self.numbers(cell)["distance"][-1])

    def heterogeneity(self, cell: Cell) -> Value:
        """SE(F)."""
        return _mean(self.numbers(cell.pooled)["se_f"])

    def norm(self, cell: Cell) -> Value:
        """L_max at the whole sample's estimate."""
        return self.contraction(cell, column=0)

    def contraction(self, cell: Cell, column: int = 1) -> Value:
        """EM's rate at the whole sample's estimate."""
        numbers = self.numbers(cell.pooled)
        if "contraction" not in numbers:
            raise NotRunError("the contraction was not measured; write contraction = true in the design")
        return _mean(numbers["contraction"][:, column])

    def numbers(self, cell: Cell) -> Mapping[str, NDArray]:
        """What `gaussip.studies.run.compute` gave for a cell."""
        if cell not in self._numbers:
            raise NotRunError(f"{self.design.name_of(cell)} has not been run")
        return self._numbers[cell]

    def summary(self) -> Iterator[dict[str, Any]]:
        """A line for each cell: what it ended with."""
        for cell, numbers in self._numbers.items():
            log_mse, distance = self.log_mse(cell), self.distance(cell)
            ratio = self.mse_ratio(cell) if cell.pooled in self._numbers else Value(np.nan, np.nan)
            yield {
                **cell.values, "round": int(numbers["rounds"][-1]), "log_mse": log_mse.value,
                "standard_error": log_mse.error, "mse_ratio": ratio.value, "mse_ratio_error": ratio.error,
                "distance": distance.value, "distance_error": distance.error, "bytes": int(numbers["bytes"][-1]),
                "data_sets": self.design.replicates, "collapsed": int((numbers["collapsed"] > 0).sum()),
            }  # fmt: skip

    def curves(self) -> Iterator[dict[str, Any]]:
        """A line for each cell and round looked at."""
        for cell, numbers in self._numbers.items():
            for place, round_ in enumerate(numbers["rounds"].tolist()):
                value, error = log_mean(numbers["mse"][place])
                yield {
                    **cell.values, "round": round_, "log_mse": value, "standard_error": error,
                    "distance": _mean(numbers["distance"][place]).value, "bytes": int(numbers["bytes"][place]),
                    "data_sets_left": int(np.isfinite(numbers["mse"][place]).sum()),
                }  # fmt: skip


SUMMARY = (
    *COLUMNS, "round", "log_mse", "standard_error", "mse_ratio", "mse_ratio_error", "distance", "distance_error",
    "bytes", "data_sets", "collapsed",
)  # fmt: skip
CURVES = (*COLUMNS, "round", "log_mse", "standard_error", "distance", "bytes", "data_sets_left")


def _mean(values: NDArray) -> Value:
    left = values[np.isfinite(values)]
    if not left.size:
        return Value(np.nan, np.nan)
    return Value(float(left.mean()), float(left.std(ddof=1) / np.sqrt(left.size)) if left.size > 1 else np.nan)
