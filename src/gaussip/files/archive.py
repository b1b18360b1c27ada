"""Arrays and a JSON description in one .npz file, never pickle."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import ModelFileError
from gaussip.files import whole

FORMAT = 2


def write(path: str | os.PathLike[str], arrays: dict[str, Any], description: dict[str, Any]) -> None:
    """Write a model."""
    text = json.dumps({"format": FORMAT, **description})
    stored = {name: _storable(name, values) for name, values in arrays.items()}
    with whole(path) as partial, open(partial, "wb") as file:
        np.savez(file, allow_pickle=False, description=np.array(text), **stored)
        file.flush()
        os.fsync(file.fileno())


def read(path: str | os.PathLike[str], what: str = "gaussip model") -> tuple[dict[str, NDArray], dict[str, Any]]:
    """The arrays and the description of a model file, or of another that `write` wrote."""
    if not Path(path).exists():
        raise ModelFileError(f"there is no file {path}")
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is cut short or not an .npz file")
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        description = json.loads(str(arrays.pop("description")))
        number = description["format"]
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"{path} is not a {what}: gaussip did not write it") from error
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise ModelFileError(f"{path} is not a {what}: {error}") from error
    if number != FORMAT:
        raise ModelFileError(f"{path} has model format {number}; this version of gaussip reads format {FORMAT}")
    return arrays, description


def _storable(name: str, values: Any) -> NDArray:
    array = np.asarray(values)
    if array.dtype == object:
        strange = next((v for v in array.ravel() if not isinstance(v, str)), None)
        if strange is not None:
            raise ModelFileError(
                f"{name} holds values of type {type(strange).__name__}, which a model file cannot; "
                "fit with words or whole numbers"
            )
        array = array.astype(str)
    return array
