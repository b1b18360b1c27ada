"""Arrays of any library that follows the array-API standard, and the few things that the standard leaves out."""

from gaussip.arrays.factors import cholesky_or_nan, precision_factor
from gaussip.arrays.libraries import Array, NDArray, indices, namespace, out_of_memory, slices, to_device, to_numpy
from gaussip.arrays.registry import compiled
from gaussip.arrays.trees import keep

__all__ = [
    "Array",
    "NDArray",
    "cholesky_or_nan",
    "compiled",
    "indices",
    "keep",
    "namespace",
    "out_of_memory",
    "precision_factor",
    "slices",
    "to_device",
    "to_numpy",
]
