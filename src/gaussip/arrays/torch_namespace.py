"""PyTorch as an array-API namespace: the functions gaussip uses where PyTorch's differ from the standard.

array-api-compat 1.16 covers all of it, `cholesky_ex` included. It is not used because it is slower, and because these
are seven functions of a line each. Measured with torch 2.13 on a CPU: its lookup of the namespace takes 0.70 us, this
one 0.25; `take`, used most of those below, 8 to 13 us instead of 2.5; 17 functions together 1.5 times as long.
"""

from typing import Any

import torch

from gaussip.arrays import Array


class Torch:
    """PyTorch's own functions, and those of the standard that it names or defines otherwise."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(torch, name)
        setattr(self, name, function)  # the next time it is found without coming here, which takes 0.5 us
        return function

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
