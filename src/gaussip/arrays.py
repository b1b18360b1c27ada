"""Which array library an array belongs to, and the few things the array-API standard leaves out."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from gaussip.errors import DeviceError

Array: TypeAlias = Any
"""An array of any library that follows the array-API standard."""

NDArray: TypeAlias = np.ndarray[Any, Any]
"""A NumPy array of any shape and type."""


def namespace(array: Array) -> Any:
    """The array-API namespace of an array; NumPy's own needs no helper package."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np
    from array_api_compat import array_namespace

    return array_namespace(array)


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
    try:
        return xp.linalg.cholesky(matrices)
    except (np.linalg.LinAlgError, RuntimeError):  # torch's LinAlgError is a RuntimeError
        flat = xp.reshape(matrices, (-1, *matrices.shape[-2:]))
        if flat.shape[0] == 1:
            return xp.full_like(matrices, xp.nan)
        factors = [cholesky_or_nan(flat[i, ...][None, ...]) for i in range(flat.shape[0])]
        return xp.reshape(xp.concat(factors, axis=0), matrices.shape)


def precision_factor(covariances: Array) -> Array:
    """Lower triangular T with T'T the inverse of each covariance; NaN where it is not positive definite."""
    xp = namespace(covariances)
    return xp.linalg.inv(cholesky_or_nan(covariances))
