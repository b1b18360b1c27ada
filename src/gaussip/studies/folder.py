"""A study's folder: its design, and a file for each cell that is done.

study.toml   the design
study.json   how it was run: replicates, seed, all cells
cells/       NAME.npz, each written whole when its cell is done
log.jsonl    a line for each run and each cell: when, where and how long
report/      tables, figures and pages, made anew by `gaussip study report`
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gaussip import __version__
from gaussip.arrays import NDArray
from gaussip.errors import DesignError, FileError
from gaussip.files import whole
from gaussip.studies.cells import Cell
from gaussip.studies.design import Design, of_text


class Folder:
    """The folder of one study."""

    def __init__(self, path: Path, design: Design) -> None:
        self.path, self.design = path, design

    @classmethod
    def for_run(cls, path: Path, design: Design) -> Folder:
        """A new folder, or one in which the same study was begun; anything else is refused."""
        held = path / "study.json"
        if held.exists():
            _compare(path, _read(held)["settings"], design.settings)
        elif path.exists() and (not path.is_dir() or any(not _ours(entry) for entry in path.iterdir())):
            raise DesignError(f"{path} exists and holds no study; choose another --out")
        try:
            (path / "cells").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make the folder {path}: {error.strerror or error}") from error
        about = {"name": design.name, "most_rounds": design.most_rounds, "settings": design.settings}
        _write(path / "study.toml", design.text)  # with the figures and claims of today
        _write(held, json.dumps(about, indent=1) + "\n")
        return cls(path, design)

    @classmethod
    def for_report(cls, path: Path) -> Folder:
        """The folder of a study that was run, wholly or partly."""
        if not (path / "study.json").is_file():
            raise DesignError(f"{path} holds no study; make one with: gaussip study run NAME --out {path}")
        about = _read(path / "study.json")
        try:
            text = (path / "study.toml").read_text(encoding="utf-8")
        except OSError as error:
            raise DesignError(f"cannot read {path / 'study.toml'}: {error.strerror or error}") from error
        design = of_text(text, about["name"], about["settings"]["replicates"], about["most_rounds"])
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
        return read_arrays(self.file_of(cell))

    def write(self, cell: Cell, found: Mapping[str, NDArray]) -> None:
        """Keep a cell's numbers, whole or not at all."""
        write_arrays(self.file_of(cell), found)

    def log(self, **what: Any) -> None:
        """Add a line to the log."""
        log_line(self.path, **what)


def log_line(folder: Path, **what: Any) -> None:
    """Add a line to a folder's log."""
    line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "gaussip": __version__, **what}
    with open(folder / "log.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_arrays(path: Path) -> dict[str, NDArray]:
    """A cell's numbers."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise DesignError(f"{path} cannot be read ({error}); delete it and run the study again") from error


def write_arrays(path: Path, found: Mapping[str, NDArray]) -> None:
    """Keep a cell's numbers, whole or not at all."""
    with whole(path) as partial:
        np.savez(partial, **found)  # type: ignore[arg-type]  # no array is called allow_pickle


def _ours(entry: Path) -> bool:
    """Whether a run that was killed as it began may have left this."""
    if entry.name == "cells":
        return entry.is_dir() and not any(entry.iterdir())
    return entry.name == "study.toml" or (entry.name.startswith(".study.") and ".part" in entry.name)


def _compare(path: Path, held: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse a folder whose numbers come from another design, naming the first difference."""
    for key in ("replicates", "seed", "looks", "levels", "contraction"):
        if held.get(key) != wanted[key]:
            raise DesignError(
                f"{path} holds a study with {key} = {held.get(key)}, not {wanted[key]}; choose another --out, or "
                "delete it"
            )
    before, now = ({json.dumps(cell, sort_keys=True) for cell in side["cells"]} for side in (held, wanted))
    if before != now:
        raise DesignError(
            f"{path} holds another study: {len(before - now)} of its {len(before)} cells are not in this design, and "
            f"{len(now - before)} of this design's {len(now)} are not in it; choose another --out, or delete it"
        )


def _read(path: Path) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise DesignError(f"{path} cannot be read: {error}") from error
    if not isinstance(values, dict) or not {"name", "most_rounds", "settings"} <= set(values):
        raise DesignError(f"{path} is not a study of this version of gaussip")
    return values


def _write(path: Path, text: str) -> None:
    with whole(path) as partial:
        partial.write_text(text, encoding="utf-8")
