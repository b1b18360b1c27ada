"""Numbers as whole numbers modulo 2^64, so that their sum does not depend on the order, and masks cancel exactly.

Words are 64 bits in NumPy's int64, which wraps: two's complement is arithmetic modulo 2^64. All sites add the same
words, so a simulation, an MPI job and real sites get the same sum to the last bit.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np

from gaussip.arrays import Array, NDArray, namespace
from gaussip.errors import DataError

LIMB = 32  # bits of a limb: many sites' limbs, and what is carried between them, still fit into a word


class Code(Protocol):
    """How the numbers of a part become words."""

    def encode(self, values: NDArray, n_sites: int) -> NDArray:
        """Words (..., words) of numbers (..., size); refused where the sum of so many sites could overflow."""
        ...

    def decode(self, total: NDArray) -> NDArray:
        """The numbers (size,) in the sum of all sites' words."""
        ...

    def words(self, size: int) -> int:
        """How many words so many numbers take."""
        ...


class Fixed(NamedTuple):
    """Whole multiples of 2^-bits, for numbers of which a bound is known."""

    bits: int | NDArray  #: of all numbers, or of each

    def encode(self, values: NDArray, n_sites: int) -> NDArray:
        """The nearest multiples."""
        limit = self.limit(n_sites)
        if not (np.abs(values) < limit).all():  # not for NaN either
            raise DataError(f"a site's part of a sum is not a finite number below {np.min(limit):.2g} in size")
        return np.asarray(self.rounded(values))

    def rounded(self, values: Array) -> Array:
        """The same without a look at the numbers, for arrays of any library."""
        xp = namespace(values)
        return xp.astype(xp.round(values * self._steps(values)), xp.int64)

    def limit(self, n_sites: int) -> Any:
        """The size that a site's number must stay below."""
        return np.ldexp(1.0, 63 - np.asarray(self.bits)) / n_sites

    def decode(self, total: Array) -> Array:
        """The sum of the multiples."""
        numbers = namespace(total).astype(total, namespace(total).float64)
        return numbers / self._steps(numbers)

    def words(self, size: int) -> int:
        """One for each number."""
        return size

    def _steps(self, like: Array) -> Array:
        """The multiples in one."""
        return namespace(like).asarray(np.ldexp(1.0, np.asarray(self.bits)), dtype=like.dtype, device=like.device)


class Wide(NamedTuple):
    """Floats exactly, in limbs of 32 bits each, for numbers of which no site knows how large the others' are.

    A number can be split into limbs in many ways. Each site takes one by chance, so that the sums of limbs say no
    more of the sites' numbers (their signs, say) than the sum of the numbers does.
    """

    lowest: int = 256  #: numbers are whole multiples of 2^-lowest: what is left of a float is cut off
    limbs: int = 30  #: numbers are below 2^(32 limbs - lowest) in size

    def encode(self, values: NDArray, n_sites: int) -> NDArray:
        """Limbs (..., limbs size), the lowest first for each number."""
        numbers = np.asarray(values, dtype=float)
        if not (np.abs(numbers) < self.limit).all():
            raise DataError(f"a site's part of a sum is not a finite number below {self.limit:.2g} in size")
        mantissa, exponent = np.frexp(numbers)
        whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
        shift = exponent.astype(np.int64) - 53 + self.lowest
        whole = np.where(shift < 0, whole >> np.minimum(-shift, 63), whole)
        place, over = np.divmod(np.maximum(shift, 0), LIMB)
        pieces = (
            (whole & ((1 << (LIMB - over)) - 1)) << over,
            (whole >> (LIMB - over)) & ((1 << LIMB) - 1),
            whole >> np.minimum(2 * LIMB - over, 63),
        )
        limbs = np.zeros((*numbers.shape, self.limbs), dtype=np.int64)
        for step, piece in enumerate(pieces):
            at = np.minimum(place + step, self.limbs - 1)[..., None]
            before = np.take_along_axis(limbs, at, axis=-1)
            np.put_along_axis(limbs, at, before + (np.sign(mantissa).astype(np.int64) * piece)[..., None], axis=-1)
        moved = _chance((*numbers.shape, self.limbs - 1), (1 << (62 - LIMB)) // n_sites)
        limbs[..., :-1] += moved << LIMB
        limbs[..., 1:] -= moved
        return limbs.reshape(*numbers.shape[:-1], -1)

    def decode(self, total: NDArray) -> NDArray:
        """The floats nearest to the exact sums."""
        limbs = total.reshape(-1, self.limbs).tolist()
        sums = (sum(limb << (LIMB * place) for place, limb in enumerate(number)) for number in limbs)
        return np.array([self._nearest(whole) for whole in sums])

    def words(self, size: int) -> int:
        """One for each limb."""
        return self.limbs * size

    @property
    def limit(self) -> float:
        """The size that a site's number must stay below."""
        return float(2.0 ** (LIMB * self.limbs - self.lowest))

    def total(self, values: NDArray) -> NDArray:
        """The sums over the last axis that decoded words give, of all sites in this process: rounded once."""
        cut = np.ldexp(np.trunc(np.ldexp(np.asarray(values, dtype=float), self.lowest)), -self.lowest)
        sums = [math.fsum(row) for row in cut.reshape(-1, cut.shape[-1]).tolist()]
        return np.array(sums).reshape(cut.shape[:-1])

    def _nearest(self, whole: int) -> float:
        if whole.bit_length() - self.lowest > 1023:
            raise DataError("a sum over all sites is too large a number")
        return float(Fraction(whole, 1 << self.lowest)) if whole else 0.0


def _chance(shape: tuple[int, ...], below: int) -> NDArray:
    """Whole numbers, from the operating system's randomness."""
    drawn = np.frombuffer(os.urandom(8 * math.prod(shape)), np.uint64).reshape(shape)
    return (drawn % np.uint64(below)).astype(np.int64)


class Veiled(NamedTuple):
    """Of numbers of which the last is not zero where a site has none: all words of such a site are chance.

    Were they zeros, the total would be that of the other sites alone; and where the sum is asked for again, the
    difference would be what this site adds.
    """

    code: Fixed | Wide

    def encode(self, values: NDArray, n_sites: int) -> NDArray:
        """Words (..., words) of numbers (..., size)."""
        words, lost = self.code.encode(values, n_sites), values[..., -1] != 0
        if lost.any():
            words[lost] = np.frombuffer(os.urandom(words[lost].nbytes), np.int64).reshape(-1, words.shape[-1])
        return words

    def decode(self, total: NDArray) -> NDArray:
        """The numbers; NaN, and one at last, where some site had none."""
        last = total[-self.code.words(1) :]
        if not (last if isinstance(self.code, Fixed) else self.code.decode(last)).any():
            return self.code.decode(total)
        numbers = np.full(len(total) // self.code.words(1), np.nan)
        numbers[-1] = 1.0
        return numbers

    def words(self, size: int) -> int:
        """As many as without."""
        return self.code.words(size)


class Raw(NamedTuple):
    """The bits of floats that one site gives and to which all others add nothing."""

    def encode(self, values: NDArray, n_sites: int) -> NDArray:
        """The bits; those of zero are zero."""
        return np.ascontiguousarray(values, dtype=float).view(np.int64)

    def decode(self, total: NDArray) -> NDArray:
        """The floats."""
        return np.ascontiguousarray(total).view(np.float64)

    def words(self, size: int) -> int:
        """One for each number."""
        return size
