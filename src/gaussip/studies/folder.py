"""A study's folder (`gaussip.studies.storage`), with a file cells/NAME.npz for each cell that is done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gaussip.arrays import NDArray
from gaussip.errors import DesignError
from gaussip.studies import storage
from gaussip.studies.cells import Cell
from gaussip.studies.design import of_text
from gaussip.studies.parts import Design
from gaussip.studies.results import Results

KEYS = {"name", "most_rounds", "settings"}  # of study.json


class Folder:
    """The folder of one study."""

    def __init__(self, path: Path, design: Design) -> None:
        self.path, self.design = path, design

    @classmethod
    def for_run(cls, path: Path, design: Design) -> Folder:
        """A new folder, or one in which the same study was begun; anything else is rejected."""
        before = storage.begun(path, KEYS)
        if before is not None:
            _compare(path, before["settings"], design.settings)
        about = {"name": design.name, "most_rounds": design.most_rounds, "settings": design.settings}
        storage.make(path)
        storage.write_design(path, design.text, about)  # with the figures and claims of today
        return cls(path, design)

    @classmethod
    def for_report(cls, path: Path) -> Folder:
        """The folder of a study that was run, wholly or partly."""
        toml, about = storage.read_design(path, KEYS)
        design = of_text(toml, about["name"], about["settings"]["replicates"], about["most_rounds"])
        _compare(path, about["settings"], design.settings)
        return cls(path, design)

    def file_of(self, cell: Cell) -> Path:
        """Where a cell's numbers are kept."""
        return self.path / "cells" / f"{self.design.name_of(cell)}.npz"

    def done(self, cell: Cell) -> bool:
        """Whether a cell's numbers are there."""
        return self.file_of(cell).exists()

    def read(self, cell: Cell) -> dict[str, NDArray]:
        """A cell's numbers."""
        return storage.read_arrays(self.file_of(cell))

    def write(self, cell: Cell, numbers: Mapping[str, NDArray]) -> None:
        """Keep a cell's numbers, whole or not at all."""
        storage.write_arrays(self.file_of(cell), numbers)

    def results(self) -> Results:
        """The results of the cells that are done."""
        return Results(self.design, {cell: self.read(cell) for cell in self.design.cells if self.done(cell)})


def _compare(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Reject a folder whose numbers come from another design."""
    storage.compare_settings(path, before, now, "cells")
    held, wanted = ({json.dumps(cell, sort_keys=True) for cell in side["cells"]} for side in (before, now))
    if held != wanted:
        raise DesignError(
            f"{path} holds another study: {len(held - wanted)} of its {len(held)} cells are not in this design, and "
            f"{len(wanted - held)} of this design's {len(wanted)} are not in it; {storage.ELSEWHERE}"
        )
