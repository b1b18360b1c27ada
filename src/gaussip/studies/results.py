"""What a study found: its cells by their values, and their numbers as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.comparison import log_mean
from gaussip.errors import GaussipError
from gaussip.studies.cells import COLUMNS, POOLED, Cell
from gaussip.studies.design import Design, matches
from gaussip.studies.folder import Folder


class NotRunError(GaussipError):
    """A number was asked for that the study has not computed."""


class Value(NamedTuple):
    """A number with its standard error over data sets."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.3f}"


class Results:
    """The cells that are done."""

    def __init__(self, folder: Folder) -> None:
        self.design: Design = folder.design
        self._found = {cell: folder.read(cell) for cell in self.design.cells if folder.done(cell)}

    @property
    def missing(self) -> list[Cell]:
        """The cells that are not done."""
        return [cell for cell in self.design.cells if cell not in self._found]

    def all(self, **where: Any) -> list[Cell]:
        """The cells with these values that are done, the whole sample's only where asked for."""
        return [
            cell for cell in self._found
            if matches(cell.values, where) and (where.get("method") or cell.method.algorithm != POOLED)
        ]  # fmt: skip

    def one(self, **where: Any) -> Cell:
        """The cell with these values."""
        found = self.all(**where)
        if len(found) != 1:
            raise NotRunError(f"{len(found)} cells have been run with {where}")
        return found[0]

    def rounds(self, cell: Cell) -> NDArray:
        """The rounds a cell was looked at, (L,)."""
        return self._found[cell]["rounds"]

    def at(self, cell: Cell, round: int) -> int:
        """The place of a round among those a cell was looked at; 0 is the last."""
        if not round:
            return -1
        place = np.flatnonzero(self.rounds(cell) == round)
        if not place.size:
            raise NotRunError(f"{self.design.name_of(cell)} was not looked at in round {round}")
        return int(place[0])

    def log_mse(self, cell: Cell, round: int = 0) -> Value:
        """The log MSE after a round; NaN where every data set has collapsed."""
        return Value(*log_mean(self._found[cell]["mse"][self.at(cell, round)]))

    def log_mse_curve(self, cell: Cell) -> NDArray:
        """The log MSE along the rounds, (L,)."""
        return np.array([log_mean(mse)[0] for mse in self._found[cell]["mse"]])

    def mse_ratio(self, cell: Cell) -> Value:
        """The last MSE over the whole sample's, over the data sets that are left."""
        ours, theirs = self._found[cell]["mse"][-1], self._of_pooled(cell)["mse"][-1]
        left = np.isfinite(ours) & np.isfinite(theirs)
        if not left.any():
            return Value(np.nan, np.nan)
        ratio = ours[left].mean() / theirs[left].mean()
        apart = (ours[left] - ratio * theirs[left]) / theirs[left].mean()
        error = apart.std(ddof=1) / np.sqrt(left.sum()) if left.sum() > 1 else np.nan
        return Value(float(ratio), float(error))

    def distance(self, cell: Cell) -> Value:
        """The last distance from the whole sample's estimate, mean over the data sets that are left."""
        return _mean(self._found[cell]["distance"][-1])

    def heterogeneity(self, cell: Cell) -> Value:
        """SE(F)."""
        return _mean(self._of_pooled(cell)["se_f"])

    def contraction(self, cell: Cell) -> Value:
        """EM's rate at the whole sample's estimate."""
        found = self._of_pooled(cell)
        if "contraction" not in found:
            raise NotRunError("the contraction was not measured; write contraction = true in the design")
        return _mean(found["contraction"][:, 1])

    def collapsed(self, cell: Cell) -> NDArray:
        """The round of each data set's collapse, 0 where there was none."""
        return self._found[cell]["collapsed"]

    def _of_pooled(self, cell: Cell) -> dict[str, NDArray]:
        if cell.pooled not in self._found:
            raise NotRunError(f"the whole sample's cell of {self.design.name_of(cell)} has not been run")
        return self._found[cell.pooled]

    def summary(self) -> Iterator[dict[str, Any]]:
        """A line for each cell: what it ended with."""
        for cell, found in self._found.items():
            log_mse, ratio, distance = self.log_mse(cell), self.mse_ratio(cell), self.distance(cell)
            yield {
                **cell.values, "round": int(found["rounds"][-1]), "log_mse": log_mse.value,
                "standard_error": log_mse.error, "mse_ratio": ratio.value, "distance": distance.value,
                "bytes": int(found["bytes"][-1]), "data_sets": self.design.replicates,
                "collapsed": int((found["collapsed"] > 0).sum()),
            }  # fmt: skip

    def curves(self) -> Iterator[dict[str, Any]]:
        """A line for each cell and round looked at."""
        for cell, found in self._found.items():
            for place, round_ in enumerate(found["rounds"].tolist()):
                value, error = log_mean(found["mse"][place])
                yield {
                    **cell.values, "round": round_, "log_mse": value, "standard_error": error,
                    "distance": _mean(found["distance"][place]).value, "bytes": int(found["bytes"][place]),
                    "data_sets_left": int(np.isfinite(found["mse"][place]).sum()),
                }  # fmt: skip


SUMMARY = (*COLUMNS, "round", "log_mse", "standard_error", "mse_ratio", "distance", "bytes", "data_sets", "collapsed")
CURVES = (*COLUMNS, "round", "log_mse", "standard_error", "distance", "bytes", "data_sets_left")


def _mean(values: NDArray) -> Value:
    left = values[np.isfinite(values)]
    if not left.size:
        return Value(np.nan, np.nan)
    return Value(float(left.mean()), float(left.std(ddof=1) / np.sqrt(left.size)) if left.size > 1 else np.nan)
