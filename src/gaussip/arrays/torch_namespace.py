"""PyTorch as an array-API namespace: the functions gaussip uses where PyTorch's differ from the standard."""

from __future__ import annotations

from typing import Any

import torch

from gaussip.arrays import Array


class Torch:
    """PyTorch's own functions, and those of the standard that it names or defines otherwise."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def astype(self, x: Array, dtype: Any) -> Array:
        """A tensor with another type."""
        return x.to(dtype)

    def isdtype(self, dtype: Any, kind: str) -> bool:
        """Whether a type is of a kind; gaussip asks for "real floating" alone."""
        return kind == "real floating" and dtype.is_floating_point

    def cumulative_sum(self, x: Array, *, axis: int) -> Array:
        """Sums of the first entries along an axis."""
        return torch.cumsum(x, axis)

    def matrix_transpose(self, x: Array) -> Array:
        """The last two axes exchanged."""
        return x.mT

    def max(self, x: Array, *, axis: Any, keepdims: bool = False) -> Array:
        """The largest entries along axes."""
        return torch.amax(x, axis, keepdim=keepdims)

    def sort(self, x: Array, *, axis: int) -> Array:
        """Entries in rising order."""
        return torch.sort(x, axis).values

    def take(self, x: Array, indices: Array, *, axis: int) -> Array:
        """Entries at positions along an axis."""
        return torch.index_select(x, axis, indices)
