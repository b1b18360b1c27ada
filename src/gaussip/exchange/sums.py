"""Sums of all sites' numbers of which nobody learns a part: whole numbers modulo 2^52, hidden by masks that cancel.

Every two sites agree on a secret; one adds what both draw from it, the other takes it away. What a site sends is then
uniform over all whole numbers, whatever it has, and the sum of all is the sum of what they have, to the last bit: the
same in a simulation, where nothing need be hidden. One number of sixty-five thousandths is the resolution, so callers
choose units in which that is little.
"""

import hashlib
from collections.abc import Mapping

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError

MODULUS = 1 << 52  # a float holds every whole number below
STEPS = 1 << 16  # in a unit
LARGEST_SUM = MODULUS // 2 // STEPS  # in either direction


def encode(values: NDArray, n_sites: int) -> NDArray:
    """Numbers as whole ones modulo 2^52, in floats; refused where so many sites' sum could overflow."""
    numbers, limit = np.asarray(values, dtype=float), LARGEST_SUM / n_sites
    if not (np.abs(numbers) < limit).all():  # not for NaN either
        raise DataError(f"a site's part of a sum is not a finite number below {limit:.2g} in size")
    return np.asarray(np.rint(numbers * STEPS) % MODULUS)


def decode(total: NDArray) -> NDArray:
    """What `encode` was given."""
    return np.where(total < MODULUS // 2, total, total - MODULUS) / STEPS


def total(parts: NDArray) -> NDArray:
    """The sum (size,) of what sites sent (M, size), masked or not."""
    whole = np.zeros(parts.shape[1:], dtype=np.int64)
    for part in parts:
        whole = (whole + part.astype(np.int64)) % MODULUS
    return decode(whole.astype(float))


def agreed(values: NDArray) -> NDArray:
    """The sum of all sites' values (M, size) as the sites get it: each part and the sum in whole steps."""
    return total(encode(values, len(values)))


def masked(values: NDArray, me: int, secrets: Mapping[int, bytes], purpose: str) -> NDArray:
    """A site's part as it sends it.

    Parameters
    ----------
    secrets : of each other site's index, what it and this site alone know
    purpose : which sum of the run it is: no mask is used twice
    """
    whole = encode(values, 1 + len(secrets)).astype(np.int64)
    for other, secret in secrets.items():
        drawn = _drawn(secret, purpose, whole.size).reshape(whole.shape)
        whole = (whole + drawn if me < other else whole - drawn) % MODULUS
    return whole.astype(float)


def _drawn(secret: bytes, purpose: str, size: int) -> NDArray:
    """Whole numbers below 2^52 that only those who know the secret can tell from chance."""
    data = hashlib.shake_256(secret + b"/" + purpose.encode()).digest(8 * size)
    return (np.frombuffer(data, dtype="<u8") >> 12).astype(np.int64)
