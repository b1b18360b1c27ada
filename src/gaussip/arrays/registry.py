"""Compiled versions of the small algebra of a round, which `gaussip` registers and which load at their first use."""

import warnings
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from gaussip.arrays.libraries import Array
from gaussip.errors import SlowKernelWarning

_modules: dict[str, str] = {}


def register(device: str, module: str) -> None:
    """Name the module with the compiled algebra of a device, ``"cpu"`` or ``"cuda"``."""
    _modules[device] = module


def compiled(array: Array) -> Any:
    """The compiled small algebra for an array's type and device, or None."""
    if isinstance(array, np.ndarray):
        return on_cpu() if array.dtype == np.float64 else None
    return _on_gpu() if getattr(array, "is_cuda", False) else None


@cache
def on_cpu() -> Any:
    """The algebra compiled for the CPU; None, with a warning, where Numba cannot be used."""
    try:
        return import_module(_modules["cpu"])
    except ImportError as error:
        warnings.warn(
            f"Numba cannot be used ({error}), so NumPy computes, several times slower; install numba",
            SlowKernelWarning,
            stacklevel=2,
        )
        return None


@cache
def _on_gpu() -> Any:
    return import_module(_modules["cuda"])
