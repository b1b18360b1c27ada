"""The inner loop of matrix products, for the kernel of many features: a tile of sums held in registers."""

from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gaussip.kernels.cpu.vectors import REGISTERS, VECTOR, Vectors, integer

HEIGHT = 8 if REGISTERS == 32 else 4
BREADTH = 3  # vectors: HEIGHT * BREADTH sums, and what is multiplied, fill the registers


class _Tile:
    """HEIGHT rows of ``vectors`` vectors, each the sum over s of left[s, i] right[s, j]."""

    def __init__(self, builder: Any, vectors: int) -> None:
        self.b, self.V = builder, Vectors(builder)
        self.sums = [[cgutils.alloca_once(builder, VECTOR) for _ in range(vectors)] for _ in range(HEIGHT)]

    def add(self, left: tuple[Any, Any, Any], right: tuple[Any, Any], count: Any) -> None:
        """Add the products of so many steps; ``left`` and ``right`` are pointers, their steps, and left's stride."""
        b, V = self.b, self.V
        with cgutils.for_range(b, count) as loop:
            here = b.gep(right[0], [b.mul(loop.index, right[1])])
            columns = [V.load(here, integer(j)) for j in range(len(self.sums[0]))]
            first = b.gep(left[0], [b.mul(loop.index, left[1])])
            for i, sums in enumerate(self.sums):
                factor = V.spread(b.gep(first, [b.mul(integer(i), left[2])]), 0)
                for column, total in zip(columns, sums, strict=True):
                    b.store(V.fma(factor, column, b.load(total)), total)


def _place(target: Any, builder: Any, signature: Any, arguments: Any, number: int) -> Any:
    """Argument ``number``, a tuple of an array, a place in it and steps, as a pointer to the place and the steps."""
    array, at, *steps = cgutils.unpack_tuple(builder, arguments[number])
    data = target.make_array(signature.args[number][0])(target, builder, array).data
    return builder.gep(data, [at]), *steps


@intrinsic
def add_product(context: Any, left: Any, right: Any, count: Any, out: Any, breadth: Any) -> Any:
    """out[i, j] += sum over s < count of left[s, i] right[s, j], i < HEIGHT, j < breadth * LANES.

    Operands are tuples of an array, the place of the first entry, and steps, all counted in float64: (array, at,
    step, stride) with left[s, i] at ``at + s step + i stride``; (array, at, step) with right[s, j] at ``at + s step +
    j``; (array, at, stride) with out[i, j] at ``at + i stride + j``. ``breadth`` is a tuple of 1 to 3 integers.
    """

    def codegen(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, second, (begin, stride) = (_place(target, builder, signature, arguments, n) for n in (0, 1, 3))
        tile = _Tile(builder, breadth.count)
        V = tile.V
        rows = [builder.gep(begin, [builder.mul(integer(i), stride)]) for i in range(HEIGHT)]
        for row, sums in zip(rows, tile.sums, strict=True):
            for j, total in enumerate(sums):
                builder.store(V.load(row, integer(j)), total)
        tile.add(first, second, arguments[2])
        for row, sums in zip(rows, tile.sums, strict=True):
            for j, total in enumerate(sums):
                V.store(builder.load(total), row, integer(j))
        return target.get_dummy_value()

    return types.void(left, right, types.int64, out, breadth), codegen


@intrinsic
def subtract_squares(context: Any, left: Any, right: Any, count: Any, out: Any, breadth: Any) -> Any:
    """out[i] -= half the squared norm of row i of the product in `add_product`, i < HEIGHT; out is (array, at)."""

    def codegen(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, second, (begin,) = (_place(target, builder, signature, arguments, n) for n in (0, 1, 3))
        tile = _Tile(builder, breadth.count)
        V = tile.V
        for sums in tile.sums:
            for total in sums:
                builder.store(V.constant(0.0), total)
        tile.add(first, second, arguments[2])
        for i, sums in enumerate(tile.sums):
            row = [builder.load(total) for total in sums]
            norm = V.total(reduce(lambda norm, entry: V.fma(entry, entry, norm), row, V.constant(0.0)))
            target_row = builder.gep(begin, [integer(i)])
            half = builder.fmul(norm, ir.Constant(norm.type, 0.5))
            builder.store(builder.fsub(builder.load(target_row), half), target_row)
        return target.get_dummy_value()

    return types.void(left, right, types.int64, out, breadth), codegen
