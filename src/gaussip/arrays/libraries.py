"""Which library an array belongs to, and moving arrays between libraries and devices."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from gaussip.errors import DeviceError, Text

Array: TypeAlias = Any
"""An array of any library that follows the array-API standard."""

NDArray: TypeAlias = np.ndarray[Any, Any]
"""A NumPy array of any shape and type."""


def namespace(array: Array) -> Any:
    """The array-API namespace of an array."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np
    if type(array).__module__.partition(".")[0] == "torch":
        return _torch()
    return array.__array_namespace__()


@cache
def _torch() -> Any:
    return import_module("gaussip.arrays.torch_namespace").Torch()


def to_device(values: Array, device: str) -> Array:
    """An array as NumPy (``device="cpu"``) or as a torch tensor on a CUDA device."""
    if device == "cpu":
        return np.asarray(values)
    if not isinstance(device, str) or device.partition(":")[0] != "cuda":
        raise DeviceError(Text("{device:{name!r}} is not known; use 'cpu' or 'cuda'", name=device))
    try:
        import torch
    except ImportError as error:
        raise DeviceError(
            Text("{device:{name!r}} needs PyTorch, which is not installed", name=device),
            remedy=Text("install gaussip with its gpu extra (gaussip[gpu]), or use {device:'cpu'}"),
        ) from error
    if not torch.cuda.is_available():
        text = Text("{device:{name!r}}: PyTorch finds no CUDA GPU on this machine", name=device)
        raise DeviceError(text, remedy=Text("use {device:'cpu'}"))
    return torch.asarray(values, device=device)


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that a GPU's memory is full."""
    return type(error).__name__ == "OutOfMemoryError" and type(error).__module__.startswith("torch")


def to_numpy(values: Array) -> NDArray:
    """A NumPy array with the values of any library's array."""
    if hasattr(values, "cpu"):
        values = values.cpu()
    return np.asarray(values)


def slices(n_rows: int, size: int) -> Iterator[slice]:
    """The rows in parts of at most so many."""
    for first in range(0, n_rows, size):
        yield slice(first, min(first + size, n_rows))


def indices(positions: NDArray, like: Array) -> Array:
    """Positions as an index array of the library, and on the device, of another array."""
    xp = namespace(like)
    return positions if xp is np else xp.asarray(positions, device=like.device)
