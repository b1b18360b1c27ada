"""Vectors of float64 as wide as this CPU has them, written as LLVM instructions for Numba.

Numba's loops may or may not be vectorised, and at half the width; a kernel written in these terms always is, and does
the same operations in the same order whatever the compiler thinks of the loop. With them the pass over the rows is 4
to 5 times faster than one in plain Numba with ``fastmath`` (`python benchmarks/bench.py --parts by-hand`).
"""

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

DOUBLE = ir.DoubleType()
INT = ir.IntType(64)


def integer(value: int) -> Any:
    """A constant of LLVM."""
    return ir.Constant(INT, value)


def _machine() -> tuple[int, int]:
    """Lanes of a vector, and vector registers, of this CPU."""
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 8, 32
    if features.get("avx2"):
        return 4, 16
    return 2, 16 if llvm.get_default_triple().startswith(("x86", "i")) else 32


LANES, REGISTERS = _machine()
_FUSED = llvm.get_host_cpu_features().get("fma", not llvm.get_default_triple().startswith(("x86", "i")))
VECTOR = ir.VectorType(DOUBLE, LANES)
_BITS = ir.VectorType(INT, LANES)
_SHORT = ir.IntType(32)

_LN2 = math.log(2)
UNDERFLOW = -650.0  # exponentials below are zero: no product of theirs is then a denormal number, which costs dearly
_ROUND = 1.5 * 2.0**52  # added to a small number, leaves its nearest integer in the low bits


def _ln2_in_two() -> tuple[float, float]:
    """ln 2 as a number of few digits, so that its multiples are exact, plus the rest."""
    high = float(np.float32(_LN2))
    with localcontext() as context:
        context.prec = 40
        return high, float(Decimal(2).ln() - Decimal(high))


def _fitted(function: Any, degree: int, least: float, most: float) -> list[float]:
    """Coefficients of a near-best polynomial, lowest power first."""
    fit = np.polynomial.Chebyshev.interpolate(function, degree, domain=[least, most])
    return [float(c) for c in fit.convert(kind=np.polynomial.Polynomial).coef]


def _log_series(square: Any) -> Any:
    """2 atanh(s) / s as a function of s squared."""
    s = np.sqrt(square)
    return np.where(square > 0, np.log1p(2 * s / (1 - s)) / np.where(s > 0, s, 1.0), 2.0)


_EXP = _fitted(np.exp, 11, -_LN2 / 2, _LN2 / 2)
_LOG = _fitted(_log_series, 9, 0.0, (math.sqrt(2) - 1) ** 2 / (math.sqrt(2) + 1) ** 2)


class Vectors:
    """Arithmetic on vectors, written through an LLVM builder."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def constant(self, value: float) -> Any:
        """The same number in every lane."""
        return ir.Constant(VECTOR, [value] * LANES)

    def load(self, pointer: Any, index: Any) -> Any:
        """Vector number ``index`` behind a pointer to float64."""
        value = self.builder.load(self._place(pointer, index))
        value.align = 8
        return value

    def store(self, value: Any, pointer: Any, index: Any) -> None:
        """Write vector number ``index`` behind a pointer to float64."""
        self.builder.store(value, self._place(pointer, index), align=8)

    def _place(self, pointer: Any, index: Any) -> Any:
        first = self.builder.gep(pointer, [self.builder.mul(index, integer(LANES))])
        return self.builder.bitcast(first, VECTOR.as_pointer())

    def spread(self, pointer: Any, number: int) -> Any:
        """The float64 at a fixed place behind a pointer, in every lane."""
        value = self.builder.load(self.builder.gep(pointer, [integer(number)]))
        undefined = ir.Constant(VECTOR, ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(_SHORT, 0))
        everywhere = ir.Constant(ir.VectorType(_SHORT, LANES), [0] * LANES)
        return self.builder.shuffle_vector(first, undefined, everywhere)

    def hidden(self, pointer: Any) -> Any:
        """The pointer again, in a way that keeps the compiler from moving what is read behind it."""
        kind = ir.FunctionType(pointer.type, [pointer.type])
        return self.builder.asm(kind, "", "=r,0", [pointer], True)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a * b + c, rounded once where the CPU can."""
        name = f"llvm.{'fma' if _FUSED else 'fmuladd'}.v{LANES}f64"
        module = self.builder.module
        kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
        return self.builder.call(module.globals.get(name) or ir.Function(module, kind, name), (a, b, c))

    def maximum(self, x: Any, y: Any) -> Any:
        """The larger, lane by lane; y where either is NaN."""
        return self.builder.select(self.builder.fcmp_ordered(">", x, y), x, y)

    def polynomial(self, coefficients: Sequence[float], x: Any) -> Any:
        """Value of a polynomial, lowest power first; in pairs, for a short chain of dependent steps."""
        terms = [self.constant(c) for c in coefficients]
        power = x
        while len(terms) > 1:
            odd = [terms.pop()] if len(terms) % 2 else []
            terms = [self.fma(terms[i + 1], power, terms[i]) for i in range(0, len(terms), 2)] + odd
            power = self.builder.fmul(power, power)
        return terms[0]

    def exp(self, x: Any) -> Any:
        """e^x for x <= 0: 2^n e^r with |r| <= ln(2)/2; zero below e^-650; NaN stays NaN."""
        b = self.builder
        magic = self.constant(_ROUND + 1023)  # the low bits are then the biased exponent of 2^n
        shifted = self.fma(x, self.constant(1 / _LN2), magic)
        n = b.fsub(shifted, magic)
        high, low = _ln2_in_two()
        r = self.fma(n, self.constant(-low), self.fma(n, self.constant(-high), x))
        power = b.bitcast(b.shl(b.bitcast(shifted, _BITS), ir.Constant(_BITS, [52] * LANES)), VECTOR)
        value = b.fmul(self.polynomial(_EXP, r), power)
        return b.select(b.fcmp_ordered("<", x, self.constant(UNDERFLOW)), self.constant(0.0), value)

    def log(self, x: Any) -> Any:
        """log x for normal x >= 1, NaN of NaN: n ln 2 + 2 atanh(s), s = (m - 1) / (m + 1), 1 <= 2 m^2 <= 4."""
        b = self.builder

        def bits(value: int) -> Any:
            return ir.Constant(_BITS, [value] * LANES)

        whole = b.bitcast(x, _BITS)
        # adding the distance from sqrt(1/2) to 1 carries into the exponent where the mantissa exceeds sqrt(2)
        moved = b.add(whole, bits((0x3FF << 52) - np.float64(math.sqrt(0.5)).view(np.int64).item()))
        exponent = b.lshr(moved, bits(52))
        n = b.fsub(b.bitcast(b.or_(exponent, bits(0x433 << 52)), VECTOR), self.constant(2.0**52 + 1023))
        m = b.bitcast(b.sub(whole, b.shl(b.sub(exponent, bits(1023)), bits(52))), VECTOR)
        s = b.fdiv(b.fsub(m, self.constant(1.0)), b.fadd(m, self.constant(1.0)))
        high, low = _ln2_in_two()
        series = b.fmul(self.polynomial(_LOG, b.fmul(s, s)), s)
        value = self.fma(n, self.constant(high), self.fma(n, self.constant(low), series))
        return b.select(b.fcmp_unordered("uno", x, x), x, value)

    def total(self, x: Any) -> Any:
        """The sum of the lanes, upper half onto lower half until one is left."""
        width = LANES
        while width > 1:
            width //= 2
            undefined = ir.Constant(x.type, ir.Undefined)
            kind = ir.VectorType(_SHORT, width)
            lower = self.builder.shuffle_vector(x, undefined, ir.Constant(kind, list(range(width))))
            upper = self.builder.shuffle_vector(x, undefined, ir.Constant(kind, list(range(width, 2 * width))))
            x = self.builder.fadd(lower, upper)
        return self.builder.extract_element(x, ir.Constant(_SHORT, 0))
