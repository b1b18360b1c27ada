"""One pass over rows of few features: log-densities, responsibilities, and the sums of their features.

Rows come as vectors of z = x - centre: for each group of LANES rows, feature by feature. A block of them stays in
the first cache, with the densities, then the responsibilities, of its rows beside it; the sums of one component are
kept in registers over a block. No array grows with the number of rows.
"""

from functools import reduce
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gaussip.kernels.cpu.vectors import INT, LANES, REGISTERS, VECTOR, Vectors, integer
from gaussip.mixture.theta import width

BLOCK = 32  # vectors; the product of so many norms, each at most K, cannot overflow


def scratch_size(n_components: int, n_features: int) -> int:
    """Float64 that a pass needs beside the rows and the sums."""
    return LANES * n_components * (BLOCK + width(n_features))


def tiles(n_features: int, registers: int) -> list[list[tuple[int, int]]]:
    """The triangle i <= j of (1, z)(1, z)' in groups whose sums stay in the registers."""
    size = n_features + 1
    entries = [(i, j) for i in range(size) for j in range(i, size)]
    if len(entries) <= registers - 4:
        return [entries]
    height, width = (4, 6) if registers == 32 else (3, 3)
    return [
        [(i, j) for i, j in entries if top <= i < top + height and left <= j < left + width]
        for top in range(0, size, height)
        for left in range(top, size, width)
    ]


def place(i: int, j: int, n_features: int) -> int:
    """Where the product of entries i <= j of (1, z) stands among the features (1, z, vech(zz'))."""
    return i * (n_features + 1) - i * (i - 1) // 2 + j - i


class _Pass:
    """The instructions of one pass over a site's vectors."""

    def __init__(self, builder: Any, n_features: int, n_components: int, weighted: bool) -> None:
        self.b, self.V = builder, Vectors(builder)
        self.p, self.K, self.weighted = n_features, n_components, weighted
        self.f = width(n_features)

    def write(self, z: Any, count: Any, coefficients: Any, weights: Any, scratch: Any, sums: Any) -> Any:
        """All blocks, then the lanes together; returns the log-likelihood."""
        b, V = self.b, self.V
        self.coefficients = coefficients
        self.share = scratch  # of each component and vector: first log-densities, then responsibilities
        self.sums = b.gep(scratch, [integer(self.K * BLOCK * LANES)])
        with cgutils.for_range(b, integer(self.K * self.f)) as loop:
            V.store(V.constant(0.0), self.sums, loop.index)
        self.log_likelihood = cgutils.alloca_once_value(b, V.constant(0.0))
        with cgutils.for_range_slice(b, integer(0), count, integer(BLOCK), INT) as (begin, _):
            left = b.sub(count, begin)
            self.here = b.select(b.icmp_signed("<", left, integer(BLOCK)), left, integer(BLOCK))
            self.z = b.gep(z, [b.mul(begin, integer(self.p * LANES))])
            self.v = b.gep(weights, [b.mul(begin, integer(LANES))]) if self.weighted else None
            self._densities()
            self._responsibilities()
            self._sums()
        with cgutils.for_range(b, integer(self.K * self.f)) as loop:
            target = b.gep(sums, [loop.index])
            b.store(b.fadd(b.load(target), V.total(V.load(self.sums, loop.index))), target)
        return V.total(b.load(self.log_likelihood))

    def _row(self, number: Any, j: int) -> Any:
        return self.V.load(self.z, self.b.add(self.b.mul(number, integer(self.p)), integer(j)))

    def _at(self, k: Any, number: Any) -> Any:
        return self.b.add(self.b.mul(k, integer(BLOCK)), number)

    def _densities(self) -> None:
        """log(alpha_k phi_k) of each row as c + sum_i z_i (b_i + sum_{j>=i} c_ij z_j)."""
        b, V = self.b, self.V
        components = cgutils.for_range(b, integer(self.K))
        with components as component, cgutils.for_range(b, self.here) as loop:
            # hidden in the loop, the coefficients are read where they are used, not spilled before it
            c = V.hidden(b.gep(self.coefficients, [b.mul(component.index, integer(self.f))]))
            z = [self._row(loop.index, j) for j in range(self.p)]
            total = V.spread(c, 0)
            for i in range(self.p):
                inner = V.spread(c, 1 + i)
                for j in range(i, self.p):
                    inner = V.fma(V.spread(c, place(i + 1, j + 1, self.p)), z[j], inner)
                total = V.fma(inner, z[i], total)
            V.store(total, self.share, self._at(component.index, loop.index))

    def _responsibilities(self) -> None:
        """exp(density - maximum) over their sum, times the row's weight; and the log-likelihood."""
        b, V = self.b, self.V
        so_far, product = self.log_likelihood, cgutils.alloca_once(b, VECTOR)
        b.store(V.constant(1.0), product)
        with cgutils.for_range(b, self.here) as loop:
            places = [self._at(integer(k), loop.index) for k in range(self.K)]
            densities = [V.load(self.share, at) for at in places]
            top = reduce(V.maximum, densities)
            shares = [V.exp(b.fsub(density, top)) for density in densities]
            norm = reduce(b.fadd, shares)
            if self.weighted:
                v = V.load(self.v, loop.index)
                b.store(V.fma(v, b.fadd(top, V.log(norm)), b.load(so_far)), so_far)
            else:  # one logarithm of the product of the norms, not one for each row
                v = V.constant(1.0)
                b.store(b.fadd(b.load(so_far), top), so_far)
                b.store(b.fmul(b.load(product), norm), product)
            factor = b.fdiv(v, norm)
            for share, at in zip(shares, places, strict=True):
                V.store(b.fmul(share, factor), self.share, at)
        if not self.weighted:
            b.store(b.fadd(b.load(so_far), V.log(b.load(product))), so_far)

    def _sums(self) -> None:
        """Adds responsibility times features: a tile of the triangle at a time, its sums in registers."""
        b, V = self.b, self.V
        with cgutils.for_range(b, integer(self.K)) as component:
            sums = b.gep(self.sums, [b.mul(component.index, integer(self.f * LANES))])
            for tile in tiles(self.p, REGISTERS):
                numbers = [integer(place(i, j, self.p)) for i, j in tile]
                held = [cgutils.alloca_once(b, VECTOR) for _ in tile]
                for total, number in zip(held, numbers, strict=True):
                    b.store(V.load(sums, number), total)
                with cgutils.for_range(b, self.here) as loop:
                    r = V.load(self.share, self._at(component.index, loop.index))
                    z = {j: self._row(loop.index, j - 1) for j in sorted({n for pair in tile for n in pair}) if j}
                    rz = {i: b.fmul(r, z[i]) if i else r for i in sorted({i for i, _ in tile})}
                    for (i, j), total in zip(tile, held, strict=True):
                        b.store(V.fma(rz[i], z[j], b.load(total)) if j else b.fadd(b.load(total), r), total)
                for total, number in zip(held, numbers, strict=True):
                    V.store(b.load(total), sums, number)


@intrinsic
def sum_rows(
    context: Any,
    z: Any,
    first: Any,
    count: Any,
    coefficients: Any,
    coefficients_at: Any,
    weights: Any,
    weights_at: Any,
    scratch: Any,
    sums: Any,
    sums_at: Any,
    features: Any,
    components: Any,
) -> Any:
    """Add the sums over vectors first..first+count of z to those at ``sums_at``; returns their log-likelihood.

    The arrays are contiguous; ``..._at`` counts float64 before the first used. ``weights`` is None where all rows
    count once. ``features`` and ``components`` are tuples of p and K integers, so that their types hold p
    and K.
    """
    p, K = features.count, components.count
    weighted = not isinstance(weights, types.NoneType)

    def codegen(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def behind(number: int, at: Any) -> Any:
            data = target.make_array(signature.args[number])(target, builder, arguments[number]).data
            return builder.gep(data, [at])

        return _Pass(builder, p, K, weighted).write(
            z=behind(0, builder.mul(arguments[1], integer(p * LANES))),
            count=arguments[2],
            coefficients=behind(3, arguments[4]),
            weights=behind(5, arguments[6]) if weighted else None,
            scratch=behind(7, integer(0)),
            sums=behind(8, arguments[9]),
        )

    i = types.int64
    signature = types.float64(
        z, i, i, coefficients, i, weights, i, scratch, sums, i, features, components
    )  # fmt: skip
    return signature, codegen
