"""The hot function on a CUDA device: three launches for all sites at once, none of them waiting for the host.

`lay_out` puts the rows of all sites where the kernels of ``source`` want them; `moments` then does what
`gaussip.rows.moments.moments` does, and `healthy` what a fit asks after each round. A shape's first call compiles
(seconds, once per machine) and must not happen inside the capture of a CUDA graph; later ones may.

Leading axes ``...`` may be any; S is their product, the number of sites.
"""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gaussip.arrays import Array
from gaussip.errors import DeviceError
from gaussip.kernels.cuda import nvrtc
from gaussip.mixture.theta import Theta, width

TILE_BYTES = 512  # of one feature: 16 for each lane of a warp
MOST_TASKS = 1024  # of one site, as long as its tasks do not exceed MOST_ROWS
MOST_ROWS = 4096  # of one task: a thread multiplies up to 128 norms, each at most K, which must not overflow
THREAD_REGISTERS = 208  # what sums, densities and rows may take of a thread's 255 for the fused kernel
WARP_SUMS = 48  # sums a warp of the staged kernel holds per lane
LEAST_WARPS = 12  # on a multiprocessor, for the staged kernel, even if some registers spill
FOLDER = Path(__file__).parent / "source"
MOST_FEATURES = 16  # beyond, not measured
MOST_GROUPS = 3  # blocks that repeat each other's densities, for larger shapes, as long as that is worth it
BLOCK_WARPS = 4  # of a block of the staged kernel, where fewer would do


class CudaRows(NamedTuple):
    """The rows of S sites as the kernels read them."""

    z: Array  #: (tiles, p, rows of a tile), rows minus their site's centre; each site padded with zeros
    weights: Array | None  #: one per row, zero in the padding; None where every row weighs one
    tasks: Array  #: (T, 3) int32: site, first row, last row (exclusive); the work of one thread block
    task_offsets: Array  #: (S + 1,) int32: a site's tasks are those from its offset up to the next


class _Kernel(NamedTuple):
    """How one kernel is compiled and launched for a shape."""

    kernel: str
    macros: tuple[str, ...]
    groups: int = 1  # blocks per task
    threads: int = 32
    shared: int = 0


def lay_out(values: Sequence[Array], weights: Sequence[Array] | None, centres: Array) -> CudaRows:
    """The rows of all sites, laid out once for many calls of `moments`; a site may have none."""
    import torch

    p, device = centres.shape[-1], centres.device
    flat, tile = centres.reshape(-1, p), TILE_BYTES // centres.element_size()
    lengths = torch.tensor([x.shape[0] for x in values], dtype=torch.int64)
    padded = (lengths + tile - 1) // tile * tile
    starts = padded.cumsum(0) - padded
    shift = starts - (lengths.cumsum(0) - lengths)
    total, width = int(lengths.sum()), int(padded.sum())

    site = torch.repeat_interleave(torch.arange(len(values), device=device), lengths.to(device), output_size=total)
    place = torch.arange(total, device=device) + shift.to(device)[site]
    rows = flat.new_zeros(width, p)
    rows[place] = torch.cat(list(values)) - flat[site]
    z = rows.reshape(-1, tile, p).transpose(1, 2).contiguous()
    row_weights = None
    if weights is not None:
        row_weights = flat.new_zeros(width)
        row_weights[place] = torch.cat(list(weights))

    most = (lengths // MOST_TASKS + 1).clamp(_task_rows(p), MOST_ROWS)
    counts = (lengths + most - 1) // most
    step = (lengths // counts.clamp(min=1) + tile) // tile * tile  # tasks of a site are alike
    counts = (lengths + step - 1) // step
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    owner = torch.repeat_interleave(torch.arange(len(values)), counts)
    first = (torch.arange(len(owner)) - offsets[owner]) * step[owner]
    last = torch.minimum(first + step[owner], lengths[owner])
    tasks = torch.stack([owner, first + starts[owner], last + starts[owner]], dim=1)
    return CudaRows(z, row_weights, tasks.to(device, torch.int32), offsets.to(device, torch.int32))


def moments(
    laid: CudaRows, theta: Theta, centres: Array, labelled: Array | None, reg_covar: float
) -> tuple[Array, Array]:
    """The moments of each site's rows at that site's theta, as `gaussip.rows.moments.moments` defines them."""
    weights, means, covariances, centres = (a.contiguous() for a in (*theta, centres))
    labelled = None if labelled is None else labelled.contiguous()
    coefficients = _coefficients(weights, means, covariances, centres)
    return _finish(laid, coefficients, _sums_over_tasks(laid, coefficients), labelled, centres, means, reg_covar)


def _coefficients(weights: Array, means: Array, covariances: Array, centres: Array) -> Array:
    """As `kernels.array.algebra.log_density_coefficients`, in bits, reordered, padded; NaN where it has none."""
    *lead, K, p = means.shape
    lane = 16 // means.element_size()
    out = means.new_empty(*lead, K, -(-width(p) // lane) * lane)
    kernel, count = _small("coefficients", p, K, real_of(means), means.device.index), weights.numel()
    nvrtc.launch(kernel, (-(-count // 64),), (64,), weights, means, covariances, centres, out, count)
    return out


def _sums_over_tasks(laid: CudaRows, coefficients: Array) -> tuple[Array, Array]:
    """Each task's sums of responsibilities times features (T, K, f), and its log-likelihood (T,)."""
    K, p, tasks = coefficients.shape[-2], laid.z.shape[1], laid.tasks.shape[0]
    partial, log_likelihood = coefficients.new_empty(tasks, K, width(p)), coefficients.new_empty(tasks)
    if tasks:
        kernel, plan = _hot(p, K, real_of(coefficients), laid.weights is not None, coefficients.device.index)
        arrays = (laid.z, laid.weights, laid.tasks, coefficients, partial, log_likelihood)
        nvrtc.launch(kernel, (tasks, plan.groups), (plan.threads,), *arrays)
    return partial, log_likelihood


def _finish(
    laid: CudaRows,
    C: Array,
    partial: tuple[Array, Array],
    labelled: Array | None,
    centres: Array,
    means: Array,
    reg: float,
) -> tuple[Array, Array]:
    *lead, K, p = means.shape
    sites, tasks, wide = len(laid.task_offsets) - 1, laid.tasks.shape[0], -(-width(p) // 32) * 32
    sums, log_likelihood = means.new_empty(*lead, K, width(p)), means.new_empty(lead)
    slices = max(1, min(1024 // wide, tasks // (4 * sites)))  # threads that share the tasks of one sum
    together = max(1, min(K, 128 // (wide * slices)))  # components of one block
    kernel = _small("finish", p, K, real_of(means), means.device.index)
    arrays = (*partial, laid.task_offsets, C, labelled, centres, means, float(reg), sums, log_likelihood)
    nvrtc.launch(kernel, (sites, -(-K // together)), (wide, slices, together), *arrays)
    return sums, log_likelihood


def healthy(weights: Array, means: Array, covariances: Array, least: float) -> Array:
    """As `gaussip.mixture.validity.healthy`, for weights above ``least``."""
    import torch

    *lead, K, p = means.shape
    out = torch.empty(lead, dtype=torch.bool, device=means.device)
    here = max(1, 128 // K)  # sites of one block
    kernel = _small("healthy", p, K, real_of(means), means.device.index)
    theta = [array.contiguous() for array in (weights, means, covariances)]
    nvrtc.launch(kernel, (-(-out.numel() // here),), (here * K,), *theta, float(least), out, out.numel())
    return out


def is_worth_it(n_features: int, n_components: int) -> bool:
    """Whether these kernels beat matrix products with features kept in memory, as measured in float64 on an H200."""
    return n_features <= MOST_FEATURES and _plan(n_features, n_components, "double", False).groups <= MOST_GROUPS


def _registers(p: int, K: int, itemsize: int) -> int:
    """Registers a thread of the fused kernel needs for its sums, and the densities and features of its rows."""
    return (K * width(p) + 16 // itemsize * (K + p)) * itemsize // 4


def _task_rows(p: int) -> int:
    """Rows of one task of a small site. Of p alone: the sites beside a site change its sums by rounding at most."""
    return 768 if p < 8 else 2048


def real_of(array: Array) -> str:
    """What CUDA C++ calls the type of an array's numbers."""
    return {4: "float", 8: "double"}[array.element_size()]


@functools.cache
def source(*names: str) -> str:
    """Files of CUDA C++ put together."""
    return "\n".join((FOLDER / f"{name}.cu").read_text(encoding="utf-8") for name in names)


@functools.cache
def _small(name: str, p: int, K: int, real: str, device: int) -> nvrtc.Function:
    return nvrtc.load(source("features", "algebra"), name, _options(P=p, K=K, REAL=real), device)


@functools.cache
def _hot(p: int, K: int, real: str, weighted: bool, device: int) -> tuple[nvrtc.Function, _Kernel]:
    plan = _plan(p, K, real, weighted, nvrtc.shared_memory(device))
    return nvrtc.load(source("features", "rows", plan.kernel), "hot", plan.macros, device, plan.shared), plan


def _plan(p: int, K: int, real: str, weighted: bool, memory: int = 227 * 1024) -> _Kernel:
    """How `hot` is compiled for a shape, on a device whose blocks may take so many bytes of shared memory."""
    itemsize = {"float": 4, "double": 8}[real]
    f, lane = width(p), 16 // itemsize
    shape: dict[str, int | str] = {"P": p, "K": K, "REAL": real, "WEIGHTED": int(weighted)}
    if _registers(p, K, itemsize) <= THREAD_REGISTERS:
        blocks = min(32, 512 // (_registers(p, K, itemsize) + 44) * 4)  # four partitions of 16384 registers
        return _Kernel("fused", _options(**shape, STAGES=2, WARPS=1, BLOCKS=blocks, UNIT=K * f))

    # A warp's unit of sums: several components where they are small, a piece of one where it is large.
    components, pieces = max(1, min(K, WARP_SUMS // f)), -(-f // WARP_SUMS)
    piece, units = -(-f // pieces), -(-K // components) * pieces
    registers = (components * piece + lane * p) * itemsize // 4 + 28
    most = max(LEAST_WARPS, 512 // registers * 4)  # warps that a multiprocessor holds at once
    for group in range(-(-units // -(-units // most)), 0, -1):
        groups = -(-units // group)
        warps = group * max(1, BLOCK_WARPS // group)
        held = K if groups == 1 else min(K, (-(-group // pieces) + 1) * components)
        end = warps * (33 * min(32, components * piece) + components * piece + 1) * itemsize
        many = max(most // warps, 2 if 16 * warps <= 9 * most else 1)  # two blocks, even if some registers spill
        for blocks, stages in itertools.product(range(many, 0, -1), (2, 1)):
            shared = K * -(-f // lane) * 16 + max((stages * (p + weighted) + held) * 512 * warps, end)
            if (shared + 1024) * blocks <= memory + 1024:
                macros = _options(
                    **shape, STAGES=stages, WARPS=warps, BLOCKS=blocks, UNIT=components * piece,
                    COMPONENTS=components, PIECES=pieces, PIECE=piece, GROUP=group, GROUPS=groups, HELD=held,
                    SHARED=shared,
                )  # fmt: skip
                return _Kernel("staged", macros, groups, 32 * warps, shared)
    raise DeviceError(f"{K} components of {p} features are too many for this GPU's shared memory; use device='cpu'")


def _options(**macros: int | str) -> tuple[str, ...]:
    return tuple(f"-D{name}={value}" for name, value in macros.items())
