"""Receipts: what every site signs of each sum, so that nobody can pass on something else than was sent.

The chain is a digest of all totals so far. With its part of a sum a site sends the chain before it, signed together
with the part where parts travel as they are (in a flood). All receive all receipts: two sites that were shown
different totals find out by the next sum, and know with whom they differ.
"""

from __future__ import annotations

import hashlib

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gaussip.arrays import NDArray
from gaussip.exchange.masks import Keys

CHAIN = 32  # bytes


def chained(chain: bytes, *parts: bytes) -> bytes:
    """The chain after more that all sites know."""
    digest = hashlib.sha256(chain)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


class Receipts:
    """Signing one's own, and checking the others'.

    Parameters
    ----------
    public : the signing keys of all sites
    """

    def __init__(self, keys: Keys, public: list[bytes]) -> None:
        self._signing = keys.signing
        self._public = [Ed25519PublicKey.from_public_bytes(key) for key in public]

    def own(self, number: int, chain: bytes, part: NDArray) -> NDArray:
        """The receipt that goes with a part, words (12,); the part is empty where it does not travel as it is."""
        return np.frombuffer(chain + self._signing.sign(_signed(number, chain, part)), dtype="<i8").astype(np.int64)

    def genuine(self, number: int, origin: int, part: NDArray, receipt: NDArray) -> bool:
        """Whether a site signed this receipt, and this part."""
        chain, signature = chain_in(receipt), receipt.astype("<i8").tobytes()[CHAIN:]
        try:
            self._public[origin].verify(signature, _signed(number, chain, part))
        except InvalidSignature:
            return False
        return True


def chain_in(receipt: NDArray) -> bytes:
    """The chain that a receipt states."""
    return receipt.astype("<i8").tobytes()[:CHAIN]


def _signed(number: int, chain: bytes, part: NDArray) -> bytes:
    digest = hashlib.sha256(np.ascontiguousarray(part, dtype="<i8").tobytes()).digest()
    return b"gaussip receipt %d " % number + chain + digest
