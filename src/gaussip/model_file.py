"""Models on disk: arrays and a JSON description in one .npz file, never pickle."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from gaussip.errors import ModelFileError

FORMAT = 1


def write(path: str | os.PathLike[str], arrays: dict[str, Any], description: dict[str, Any]) -> None:
    """Write a model; the file appears whole or not at all."""
    target = Path(path)
    text = json.dumps({"format": FORMAT, **description})
    stored = {name: _storable(name, values) for name, values in arrays.items()}
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(partial, "wb") as file:
            np.savez(file, allow_pickle=False, description=np.array(text), **stored)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except OSError as error:
        raise ModelFileError(f"cannot write the model to {target}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """The arrays and the description of a model file."""
    try:
        if not zipfile.is_zipfile(path) and Path(path).exists():
            raise ModelFileError(f"{path} is not a gaussip model")
        with np.load(path, allow_pickle=False) as stored:
            if "description" not in stored:
                raise ModelFileError(f"{path} is not a gaussip model")
            description = json.loads(str(stored["description"]))
            arrays = {name: stored[name] for name in stored.files if name != "description"}
    except ModelFileError:
        raise
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no file {path}") from error
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise ModelFileError(f"{path} is not a gaussip model: {error}") from error
    if description.get("format") != FORMAT:
        raise ModelFileError(
            f"{path} has model format {description.get('format')}; this version of gaussip reads format {FORMAT}"
        )
    return arrays, description


def _storable(name: str, values: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(values)
    if array.dtype == object:
        array = np.array([str(v) for v in array.ravel()]).reshape(array.shape)
    return array
