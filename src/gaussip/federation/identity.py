"""Who a site is, proved by its certificate: what it announces of itself is signed, and all can check it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from gaussip.errors import CertificateError
from gaussip.federation import certificates

PURPOSE = "gaussip announcement"
LARGEST = 2.0**53  # rows


class _Announced(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    purpose: str
    run: bytes
    site: str
    public: bytes  #: its keys for this run, 64 bytes
    rows: float | None  #: None where it is not to be known


class _Signed(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    content: bytes
    signature: bytes
    certificate: bytes  #: DER


class SiteIdentity:
    """One site's identity in one run.

    Parameters
    ----------
    run : a digest of what all sites agreed to run
    common_name : gives the name in a site's certificate
    """

    def __init__(
        self, run: bytes, site: str, key: Path, certificate: Path, authorities: Path, common_name: Any
    ) -> None:
        self.run, self._site, self._common_name = run, site, common_name
        self._key, self._certificate = certificates.read_key(key), certificates.read_certificate(certificate)
        self._authorities = certificates.read_certificates(authorities)

    def announcement(self, public: bytes, rows: float) -> bytes:
        """The site's public keys and, if it may be known, its number of rows, signed."""
        content = msgspec.msgpack.encode(
            _Announced(PURPOSE, self.run, self._site, public, rows if rows == rows else None)
        )
        return msgspec.msgpack.encode(
            _Signed(content, certificates.sign(self._key, content), certificates.as_der(self._certificate))
        )

    def checked(self, site: str, announcement: bytes) -> tuple[bytes, float]:
        """The keys and rows that a site announced; CertificateError where it did not sign them for this run."""
        try:
            signed = msgspec.msgpack.decode(announcement, type=_Signed)
            content = msgspec.msgpack.decode(signed.content, type=_Announced)
            certificate = x509.load_der_x509_certificate(signed.certificate)
            now, name = dt.datetime.now(dt.UTC), self._common_name(site)
            certificates.refuse_foreign(certificate, self._authorities, name, now)
            its_own = certificates.is_signed(certificate, signed.content, signed.signature)
        except CertificateError:
            raise
        except Exception as error:  # a certificate can be wrong in many ways, of which some show when it is used
            raise CertificateError(f"it cannot be read ({type(error).__name__}: {str(error)[:200]})") from error
        if not its_own:
            raise CertificateError(f"it is not signed with the key of {site}'s certificate")
        if (content.purpose, content.run, content.site) != (PURPOSE, self.run, site):
            raise CertificateError(f"{site} signed it for something else (another run, or another name)")
        if len(content.public) != 64:
            raise CertificateError("it is not a pair of keys")
        try:
            X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(content.public[:32]))
        except ValueError as error:  # of a few keys everybody knows what is shared
            raise CertificateError("its key shares no secret with anybody") from error
        if content.rows is not None and not 0 < content.rows < LARGEST:
            raise CertificateError(f"{site} cannot have {content.rows:g} rows")
        return content.public, float("nan") if content.rows is None else content.rows
