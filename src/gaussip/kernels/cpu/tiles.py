"""The inner loop of matrix products, for the kernel of many features: a tile of sums held in registers."""

from __future__ import annotations

from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gaussip.kernels.cpu.vectors import INT, REGISTERS, VECTOR, Vectors

HEIGHT = 8 if REGISTERS == 32 else 4
BREADTH = 3  # vectors: HEIGHT * BREADTH sums, and what is multiplied, fill the registers


def _constant(value: int) -> Any:
    return ir.Constant(INT, value)


class _Tile:
    """HEIGHT rows of ``vectors`` vectors, each the sum over s of left[s, i] right[s, j]."""

    def __init__(self, builder: Any, vectors: int) -> None:
        self.b, self.V = builder, Vectors(builder)
        self.sums = [[cgutils.alloca_once(builder, VECTOR) for _ in range(vectors)] for _ in range(HEIGHT)]

    def add(self, left: Any, step: Any, stride: Any, right: Any, right_step: Any, count: Any) -> None:
        """Add the products of so many steps."""
        b, V = self.b, self.V
        with cgutils.for_range(b, count) as loop:
            here = b.gep(right, [b.mul(loop.index, right_step)])
            columns = [V.load(here, _constant(j)) for j in range(len(self.sums[0]))]
            first = b.gep(left, [b.mul(loop.index, step)])
            for i, sums in enumerate(self.sums):
                factor = V.spread(b.gep(first, [b.mul(_constant(i), stride)]), 0)
                for column, one in zip(columns, sums, strict=True):
                    b.store(V.fma(factor, column, b.load(one)), one)


def _pointer(target: Any, builder: Any, signature: Any, arguments: Any, number: int) -> Any:
    """Where argument ``number``, an array, has the entry that the next argument counts."""
    data = target.make_array(signature.args[number])(target, builder, arguments[number]).data
    return builder.gep(data, [arguments[number + 1]])


@intrinsic
def add_product(
    context: Any,
    left: Any,
    left_at: Any,
    left_step: Any,
    left_stride: Any,
    right: Any,
    right_at: Any,
    right_step: Any,
    count: Any,
    out: Any,
    out_at: Any,
    out_stride: Any,
    breadth: Any,
) -> Any:
    """out[i, j] += sum over s of left[s, i] right[s, j], i < HEIGHT, j < breadth * LANES.

    Places count float64: left[s, i] stands at left_at + s left_step + i left_stride, right[s, j] at right_at +
    s right_step + j and out[i, j] at out_at + i out_stride + j. ``breadth`` is a tuple of 1 to 3 integers.
    """

    def codegen(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, out = (_pointer(target, builder, signature, arguments, n) for n in (0, 4, 8))
        tile = _Tile(builder, breadth.count)
        V = tile.V
        rows = [builder.gep(out, [builder.mul(_constant(i), arguments[10])]) for i in range(HEIGHT)]
        for row, sums in zip(rows, tile.sums, strict=True):
            for j, one in enumerate(sums):
                builder.store(V.load(row, _constant(j)), one)
        tile.add(left, arguments[2], arguments[3], right, arguments[6], arguments[7])
        for row, sums in zip(rows, tile.sums, strict=True):
            for j, one in enumerate(sums):
                V.store(builder.load(one), row, _constant(j))
        return target.get_dummy_value()

    i = types.int64
    return types.void(left, i, i, i, right, i, i, i, out, i, i, breadth), codegen


@intrinsic
def subtract_squares(
    context: Any,
    left: Any,
    left_at: Any,
    left_step: Any,
    left_stride: Any,
    right: Any,
    right_at: Any,
    right_step: Any,
    count: Any,
    out: Any,
    out_at: Any,
    breadth: Any,
) -> Any:
    """out[i] -= half the squared norm of row i of the product in `add_product`, i < HEIGHT."""

    def codegen(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, out = (_pointer(target, builder, signature, arguments, n) for n in (0, 4, 8))
        tile = _Tile(builder, breadth.count)
        V = tile.V
        for sums in tile.sums:
            for one in sums:
                builder.store(V.constant(0.0), one)
        tile.add(left, arguments[2], arguments[3], right, arguments[6], arguments[7])
        for i, sums in enumerate(tile.sums):
            row = [builder.load(one) for one in sums]
            norm = V.total(reduce(lambda total, one: V.fma(one, one, total), row, V.constant(0.0)))
            target_row = builder.gep(out, [_constant(i)])
            half = builder.fmul(norm, ir.Constant(norm.type, 0.5))
            builder.store(builder.fsub(builder.load(target_row), half), target_row)
        return target.get_dummy_value()

    i = types.int64
    return types.void(left, i, i, i, right, i, i, i, out, i, breadth), codegen
