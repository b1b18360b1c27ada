"""Files that appear whole or not at all, and what goes into them as JSON."""

import json
import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gaussip.errors import FileError, Text


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside the target to write to; it becomes the target when the block ends well, and goes otherwise."""
    target = Path(path)
    refuse_overwriting(target, force=True)
    partial = target.with_name(f".{target.stem}.{os.getpid()}.part{target.suffix}")
    try:
        yield partial
        with open(partial, "rb") as file:
            os.fsync(file.fileno())  # or a power cut could leave an empty file under the target's name
        os.replace(partial, target)
        sync_folder(target.parent)
    except OSError as error:
        raise FileError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Force a folder's list of names to disk: without it a power cut could undo a renaming."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def refuse_overwriting(
    *paths: str | os.PathLike[str], force: bool, inputs: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Refuse paths that exist (unless forced), that are inputs (even if forced), or whose folder does not exist."""
    read = [path for path in map(Path, inputs) if path.exists()]
    for path in map(Path, paths):
        if path.exists() and not path.is_file():
            raise FileError(f"{path} is not an ordinary file; choose another name")
        if path.exists() and any(path.samefile(given) for given in read):
            raise FileError(f"{path} is read by this command, and would be overwritten by it; choose another name")
        if path.exists() and not force:
            raise FileError(
                f"{path} exists", remedy=Text("choose another name, or give {force:True} to overwrite it")
            )
        if not path.parent.is_dir():
            raise FileError(f"there is no folder {path.parent} for {path.name}; make it first")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write one JSON object, whole."""
    with whole(path) as partial:
        partial.write_text(json.dumps(json_ready(content)))


def json_ready(value: Any) -> Any:
    """JSON's own types; what is not finite becomes null."""
    if isinstance(value, dict):
        return {str(k): json_ready(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(v) for v in value]
    if isinstance(value, np.ndarray):
        return json_ready(value.tolist())
    if isinstance(value, np.generic):
        return json_ready(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
