"""The small algebra of a round on a CUDA device: one launch each, none waiting for the host; see `small`."""

import math

from gaussip.arrays import Array
from gaussip.kernels.cuda import nvrtc
from gaussip.kernels.cuda.kernel import healthy, real_of, source
from gaussip.mixture.theta import n_features

THREADS = 256  # of a block
# `healthy` is a thread to a matrix: 640 of 95 features took it 30 ms on an H200, the library's Cholesky 0.4
CHECKED_FEATURES = 32

__all__ = ["average", "healthy", "measure", "to_theta"]


def to_theta(psi: Array) -> tuple[Array, Array, Array]:
    """As `gaussip.mixture.theta.to_theta`."""
    psi = psi.contiguous()
    *leading, K, f = psi.shape
    p = n_features(f)
    weights, means = psi.new_empty(*leading, K), psi.new_empty(*leading, K, p)
    covariances = psi.new_empty(*leading, K, p, p)
    grid, sizes = (-(-psi.numel() // THREADS),), (weights.numel(), K, p, f)
    nvrtc.launch(_kernel("to_theta", psi), grid, (THREADS,), psi, weights, means, covariances, *sizes)
    return weights, means, covariances


def average(values: Array, heard: Array, weight: Array) -> Array:
    """As `gaussip.exchange.Stacked`'s average of values (R, M, size)."""
    values = values.contiguous()
    out = values.new_empty(values.shape)
    _, M, size = values.shape
    grid = (-(-values.numel() // THREADS),)
    kernel = _kernel("average", values)
    nvrtc.launch(kernel, grid, (THREADS,), values, heard, weight, out, values.numel(), M, size, heard.shape[0])
    return out


def measure(
    weights: Array, means: Array, covariances: Array, shift: Array, factor: Array, last: Array
) -> tuple[Array, Array, Array]:
    """As `gaussip.simulation.history.measure`."""
    *leading, M, K, f = last.shape
    now, change, apart = last.new_empty(last.shape), last.new_empty(leading), last.new_empty(leading)
    given = [array.contiguous() for array in (weights, means, covariances, shift, factor, last)]
    sizes = (M, K, means.shape[-1], f)
    nvrtc.launch(_kernel("measure", last), (math.prod(leading),), (32, 8), *given, now, change, apart, *sizes)
    return now, change, apart


def _kernel(name: str, like: Array) -> nvrtc.Function:
    return nvrtc.load(source("round"), name, (f"-DREAL={real_of(like)}",), like.device.index)
