"""Implementations of the hot function, and which one serves.

A kernel has two functions: ``lay_out(values, weights, centres)`` prepares the rows of some sites once, and
``moments(laid, theta, centres, labelled, reg_covar)`` passes over them. All give the numbers of `reference`, which
runs on any array library.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import Array, namespace
from gaussip.arrays.registry import on_cpu
from gaussip.kernels.array import incomplete, reference, wide
from gaussip.mixture.theta import Theta

MOST_COMPONENTS = 32  # the compiled kernels are written out for each number of components up to here
FUSED_FEATURES = 32  # up to here one fused pass over the rows is at least twice as fast; it compiles ever longer


class Kernel(NamedTuple):
    """One implementation of the hot function."""

    name: str
    lay_out: Callable[[Sequence[Array], Sequence[Array] | None, Array], Any]
    #: rows of sites (n_m, p), their weights (n_m,), the sites' centres (S, p)
    moments: Callable[[Any, Theta, Array, Array | None, float], tuple[Array, Array]]
    #: laid-out rows, Theta (S, ...), centres (S, p), labelled sums (S, K, f) and reg_covar to (S, K, f) and (S,)


REFERENCE = Kernel("reference", reference.lay_out, reference.moments)
WIDE = Kernel("wide", wide.lay_out, wide.moments)


def kernel_for(means: Array) -> Kernel:
    """The fastest kernel for means (..., K, p), by their shape, type and device."""
    n_components, n_features = means.shape[-2:]
    if namespace(means) is np and means.dtype == np.float64 and on_cpu() is not None:
        fused = n_components <= MOST_COMPONENTS and n_features <= FUSED_FEATURES
        return _loaded("fused", "cpu.few_features") if fused else _loaded("tiled", "cpu.many_features")
    if getattr(means, "is_cuda", False):
        from gaussip.kernels.cuda.kernel import is_worth_it

        return _loaded("cuda", "cuda.kernel") if is_worth_it(n_features, n_components) else WIDE
    return WIDE if n_features > FUSED_FEATURES else REFERENCE


def filling_for(means: Array) -> Any:
    """The module that narrows thetas to groups of rows, and fills in their sums, for means of this type."""
    if namespace(means) is np and means.dtype == np.float64 and on_cpu() is not None:
        return import_module("gaussip.kernels.cpu.incomplete")
    if getattr(means, "is_cuda", False) and kernel_for(means) is not WIDE:
        return import_module("gaussip.kernels.cuda.incomplete")
    return incomplete


@cache
def _loaded(name: str, module: str) -> Kernel:
    """A kernel of a module that is imported at its first use."""
    kernel = import_module(f"gaussip.kernels.{module}")
    return Kernel(name, kernel.lay_out, kernel.moments)
