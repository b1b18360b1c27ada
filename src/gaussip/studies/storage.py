"""What the folders of all studies have in common.

study.toml   the design
study.json   how it is run
cells/       numbers, each file written whole when its part of the work is done
log.jsonl    a line for each run and each part of the work: when, where and how long
report/      tables, figures and pages, which `gaussip study report` makes again
"""

import json
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gaussip import __version__
from gaussip.arrays import NDArray
from gaussip.errors import DesignError, FileError, GaussipError
from gaussip.files import whole

ELSEWHERE = "choose another --out, or delete it"


def make(path: Path) -> None:
    """Make the folder of a study, where there is none."""
    try:
        (path / "cells").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {path}: {error.strerror or error}") from error


def write_design(path: Path, toml: str, about: Mapping[str, Any]) -> None:
    """Write the design, and how it is run: from now on the folder holds a study."""
    write_texts(path, {"study.toml": toml, "study.json": json.dumps(about, indent=1) + "\n"})


def read_design(path: Path, keys: set[str]) -> tuple[str, dict[str, Any]]:
    """The TOML of the study in a folder, and what study.json says, with these keys."""
    if not (path / "study.json").is_file():
        raise DesignError(f"{path} holds no study; make one with: gaussip study run NAME --out {path}")
    about = _read_about(path, keys)
    try:
        return (path / "study.toml").read_text(encoding="utf-8"), about
    except (OSError, UnicodeDecodeError) as error:
        raise damaged(path / "study.toml", error) from error


def begun(path: Path, keys: set[str]) -> dict[str, Any] | None:
    """What study.json says of the study that was begun in a folder; None where there is none yet."""
    if (path / "study.json").exists():
        return _read_about(path, keys)
    if path.exists() and (not path.is_dir() or not all(map(_left_by_a_start, path.iterdir()))):
        raise DesignError(f"{path} exists and holds no study; choose another --out")
    return None


def _read_about(path: Path, keys: set[str]) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads((path / "study.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise damaged(path / "study.json", error) from error
    if not isinstance(about, dict) or not keys <= set(about):
        raise DesignError(f"{path} holds a study of another kind, or of another version; {ELSEWHERE}")
    return about


def compare_settings(path: Path, before: Mapping[str, Any], now: Mapping[str, Any], *but: str) -> None:
    """Reject a folder whose numbers come from other settings, and name the first difference."""
    for key in {**before, **now}:
        if key not in but and before.get(key) != now.get(key):
            raise DesignError(f"{path} holds a study with {key} = {before.get(key)}, not {now.get(key)}; {ELSEWHERE}")


def damaged(file: Path, error: Exception) -> DesignError:
    """The error about a file of a study that cannot be read."""
    return DesignError(f"{file} cannot be read ({error}); run the study again into another --out, or delete it")


def log(path: Path, **what: Any) -> None:
    """Add a line to a folder's log."""
    line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "gaussip": __version__, **what}
    with open(path / "log.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_arrays(
    file: Path, kind: type[GaussipError] = DesignError, remedy: str = "delete it and run the study again"
) -> dict[str, NDArray]:
    """The arrays of a file; one that is damaged is an error of that kind."""
    try:
        with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise kind(f"{file} cannot be read ({error}); {remedy}") from error


def write_arrays(file: Path, arrays: Mapping[str, NDArray]) -> None:
    """Write arrays, whole or not at all."""
    with whole(file) as partial, open(partial, "wb") as opened:
        np.savez(opened, allow_pickle=False, **arrays)


def write_texts(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write texts by file name, each whole or not at all; returns the paths."""
    for name, text in texts.items():
        with whole(folder / name) as partial:
            partial.write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def _left_by_a_start(entry: Path) -> bool:
    """Whether a run that was killed as it began may have left this."""
    if entry.name == "cells":
        return entry.is_dir() and not any(entry.iterdir())
    return entry.name == "study.toml" or (entry.name.startswith(".study.") and ".part" in entry.name)
