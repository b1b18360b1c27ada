"""Which array library an array belongs to, and the few things the array-API standard leaves out."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from gaussip.errors import DeviceError, SlowKernelWarning

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
    return import_module("gaussip.torch_namespace").Torch()


def compiled(array: Array) -> Any:
    """The compiled small algebra for an array's type and device (`gaussip.kernels.small`, or on a GPU), or None."""
    if isinstance(array, np.ndarray):
        return _on_cpu() if array.dtype == np.float64 else None
    return _on_gpu() if getattr(array, "is_cuda", False) else None


def numba_works() -> bool:
    """Whether compiled code can be used on the CPU; says once why not."""
    return _on_cpu() is not None


@cache
def _on_cpu() -> Any:
    try:
        return import_module("gaussip.kernels.small")
    except ImportError as error:
        warnings.warn(
            f"Numba cannot be used ({error}), so NumPy computes, several times slower; install numba",
            SlowKernelWarning,
            stacklevel=2,
        )
        return None


@cache
def _on_gpu() -> Any:
    return import_module("gaussip.kernels.cuda_small")


def to_device(values: Array, device: str) -> Array:
    """An array as NumPy (``device="cpu"``) or as a torch tensor on a CUDA device."""
    if device == "cpu":
        return np.asarray(values)
    if not isinstance(device, str) or device.partition(":")[0] != "cuda":
        raise DeviceError(f"device={device!r} is not known; use 'cpu' or 'cuda'")
    try:
        import torch
    except ImportError as error:
        raise DeviceError(
            f"device={device!r} needs PyTorch, which is not installed; "
            "install gaussip with its gpu extra (gaussip[gpu]), or use device='cpu'"
        ) from error
    if not torch.cuda.is_available():
        raise DeviceError(f"device={device!r}: PyTorch finds no CUDA GPU on this machine; use device='cpu'")
    return torch.asarray(values, device=device)


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that a GPU's memory is full."""
    return type(error).__name__ == "OutOfMemoryError" and type(error).__module__.startswith("torch")


def to_numpy(values: Array) -> NDArray:
    """A NumPy array with the values of any library's array."""
    if hasattr(values, "cpu"):
        values = values.cpu()
    return np.asarray(values)


def indices(positions: NDArray, like: Array) -> Array:
    """Positions as an index array of the library, and on the device, of another array."""
    xp = namespace(like)
    return positions if xp is np else xp.asarray(positions, device=like.device)


def cholesky_or_nan(matrices: Array) -> Array:
    """Lower Cholesky factors; NaN, and no exception, where a matrix is not positive definite.

    Libraries fail differently, and one bad matrix spoils a whole stack: on failure each matrix is tried
    alone, so that the others of the stack keep their factors.
    """
    xp = namespace(matrices)
    if hasattr(xp.linalg, "cholesky_ex"):  # torch's, which does not make a GPU wait for the host
        factors, failed = xp.linalg.cholesky_ex(matrices)
        return xp.where(failed[..., None, None] == 0, factors, xp.nan)
    try:
        return xp.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        flat = xp.reshape(matrices, (-1, *matrices.shape[-2:]))
        if flat.shape[0] == 1:
            return xp.full_like(matrices, xp.nan)
        factors = [cholesky_or_nan(flat[i, ...][None, ...]) for i in range(flat.shape[0])]
        return xp.reshape(xp.concat(factors, axis=0), matrices.shape)


def precision_factor(covariances: Array) -> Array:
    """Lower triangular T with T'T the inverse of each covariance; NaN where it is not positive definite."""
    xp = namespace(covariances)
    roots = cholesky_or_nan(covariances)
    if hasattr(xp.linalg, "solve_triangular"):
        one = xp.eye(roots.shape[-1], dtype=roots.dtype, device=roots.device)
        return xp.linalg.solve_triangular(roots, one, upper=False)
    return xp.linalg.inv(roots)


def keep(done: Array, before: Any, after: Any) -> Any:
    """A tree of arrays after something, with those entries of the leading axes that are done left as before."""
    if isinstance(done, (np.ndarray, np.generic)) and not done.any():
        return after
    if isinstance(after, tuple):
        return type(after)(*(keep(done, old, new) for old, new in zip(before, after, strict=True)))
    if not hasattr(after, "shape"):
        return after
    xp = namespace(after)
    return xp.where(xp.reshape(done, done.shape + (1,) * (after.ndim - done.ndim)), before, after)
