"""Masks that hide a site's part of a sum: one of two sites adds what the other takes away.

Two sites share a secret from their X25519 keys, through HKDF-SHA256 with everything that all sites announced. The
mask of a sum is a ChaCha20 stream whose key depends on the secret, the number of the sum and the digest of all totals
before it. So no mask is used twice, and the masks of two sites that were shown different totals do not cancel:
whoever shows sites different things learns a random number. All pairs share a mask up to 200 sites; beyond, each site
shares one with some others, drawn for the run (Bell et al. 2020).
"""

from __future__ import annotations

import hashlib
import hmac
import math

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gaussip.arrays import NDArray

SECRET = 32  # bytes
ALL_PAIRS = 200  # sites up to which every two share a mask
COLLUDING = 1 / 3  # of the sites, beyond: so many may pool what they know
UNLIKELY = 2.0**-40  # the chance that these separate the others into groups whose sums show


class Keys:
    """One site's keys for one run, both derived from one secret.

    Parameters
    ----------
    secret : the same whenever the run is resumed
    """

    def __init__(self, secret: bytes) -> None:
        self.agreement = X25519PrivateKey.from_private_bytes(_derived(secret, b"", b"gaussip agreement"))
        self.signing = Ed25519PrivateKey.from_private_bytes(_derived(secret, b"", b"gaussip signing"))

    @property
    def public(self) -> bytes:
        """Both public keys, 32 bytes each."""
        keys = (self.agreement.public_key(), self.signing.public_key())
        return b"".join(key.public_bytes(Encoding.Raw, PublicFormat.Raw) for key in keys)


class Masks:
    """The masks of one site.

    Parameters
    ----------
    index : the site's
    public : the agreement keys of all sites
    run : a digest of what all sites announced
    """

    def __init__(self, index: int, keys: Keys, public: list[bytes], run: bytes) -> None:
        self._index = index
        self._secrets = {}
        for other in partners(len(public), index, run):
            common = keys.agreement.exchange(X25519PublicKey.from_public_bytes(public[other]))
            pair = b"%d %d" % (min(index, other), max(index, other))
            self._secrets[other] = _derived(common, run, b"gaussip mask " + pair)

    def of(self, number: int, chain: bytes, size: int) -> NDArray:
        """What is added to the part of one sum, (size,) words.

        Parameters
        ----------
        number : of the sum in the run
        chain : the digest of all totals before it
        """
        mask = np.zeros(size, dtype=np.int64)
        for other, secret in self._secrets.items():
            drawn = stream(secret, number, chain, size)
            mask = mask + drawn if self._index < other else mask - drawn
        return mask


def stream(secret: bytes, number: int, chain: bytes, size: int) -> NDArray:
    """Words (size,) that only those who know the secret can tell from chance."""
    key = hmac.digest(secret, b"sum %d " % number + chain, hashlib.sha256)
    cipher = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * size)), dtype="<i8").astype(np.int64)


def partners(n_sites: int, index: int, run: bytes) -> list[int]:
    """The sites with which one shares masks, in order.

    Beyond 200 sites: its nearest on both sides of a circle on which all stand in an order drawn for the run. The
    sum of some honest sites shows only if colluding ones stand side by side at both ends of them.
    """
    others = [m for m in range(n_sites) if m != index]
    if n_sites <= ALL_PAIRS:
        return others
    each = n_each_side(n_sites)
    order = sorted(range(n_sites), key=lambda m: hashlib.sha256(run + b" place %d" % m).digest())
    place = order.index(index)
    return sorted({order[(place + step) % n_sites] for step in range(-each, each + 1)} - {index})


def n_each_side(n_sites: int) -> int:
    """How many neighbours on either side keep a run of colluding ones as unlikely as we want."""
    return math.ceil(math.log(n_sites / UNLIKELY) / -math.log(COLLUDING))


def _derived(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    return HKDF(SHA256(), SECRET, salt or None, purpose).derive(secret)
