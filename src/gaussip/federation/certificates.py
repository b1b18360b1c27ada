"""Certificates of the sites: a small authority of the federation's own, or requests for a hospital's."""

import datetime as dt
import ipaddress
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gaussip.errors import CertificateError

AUTHORITY_DAYS = 3650
CLOCKS = dt.timedelta(hours=1)  # sites' clocks may differ by this much


class Identity(NamedTuple):
    """A private key and the certificate, or signing request, that goes with it, as PEM."""

    key: bytes
    certificate: bytes


def new_authority(name: str) -> Identity:
    """An authority that signs the sites' certificates and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(f"gaussip authority of {name}")
    certificate = (
        _builder(subject, subject, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Identity(_pem(key), certificate.public_bytes(serialization.Encoding.PEM))


def new_certificate(authority: Identity, common_name: str, host: str | None, days: float) -> Identity:
    """A site's key and a certificate for so many days; ``host`` is where others reach it, if they can."""
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        signer = serialization.load_pem_private_key(authority.key, None)
        issuer = x509.load_pem_x509_certificate(authority.certificate)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"the authority's key or certificate cannot be read: {error}") from error
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    certificate = (
        _builder(_name(common_name), issuer.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(_hosts(common_name, host), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )  # fmt: skip
    return Identity(_pem(key), certificate.public_bytes(serialization.Encoding.PEM))


def new_request(common_name: str, host: str | None) -> Identity:
    """A site's key and a request that another authority can sign."""
    key = ec.generate_private_key(ec.SECP256R1())
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(_name(common_name))
        .add_extension(_hosts(common_name, host), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Identity(_pem(key), request.public_bytes(serialization.Encoding.PEM))


def check(key: Path, certificate: Path, authorities: Path, common_name: str, host: str | None) -> dt.datetime:
    """Refuse a site's certificate that the others would refuse; returns when it ends.

    ``host`` is where others reach the site, if they can.
    """
    for path, what in ((key, "private key"), (certificate, "certificate"), (authorities, "authorities' certificate")):
        if not path.is_file():
            raise CertificateError(
                f"there is no {what} {path}; have the site's request signed by your authority and put it there, or "
                "make the folders again with gaussip federation init"
            )
    private, loaded = read_key(key), read_certificate(certificate)
    trusted = read_certificates(authorities)
    now = dt.datetime.now(dt.UTC)
    if not loaded.not_valid_before_utc <= now <= loaded.not_valid_after_utc:
        raise CertificateError(
            f"{certificate} is valid from {loaded.not_valid_before_utc:%Y-%m-%d %H:%M} to "
            f"{loaded.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, and it is {now:%Y-%m-%d %H:%M}; renew it with gaussip "
            "federation renew (or at your authority), and see that the clock is right"
        )
    names = _names_in(loaded)
    if names != [common_name]:
        raise CertificateError(
            f"{certificate} is for {', '.join(names) or 'nobody'}, not for {common_name}; the folders of two sites "
            "were mixed up, or the authority changed the name"
        )
    if private.public_key() != loaded.public_key():
        raise CertificateError(f"{key} is not the key of {certificate}; use the two that were made together")
    if not any(_signed_by(loaded, authority) for authority in trusted):
        raise CertificateError(f"{certificate} was not signed by an authority in {authorities}; add it there")
    _refuse_unusable(loaded, certificate, host)
    return loaded.not_valid_after_utc


def read_key(path: Path) -> Any:
    """A private key."""
    return _read(path, lambda data: serialization.load_pem_private_key(data, None))


def read_certificate(path: Path) -> x509.Certificate:
    """A certificate."""
    loaded: x509.Certificate = _read(path, x509.load_pem_x509_certificate)
    return loaded


def read_certificates(path: Path) -> list[x509.Certificate]:
    """All certificates of a file."""
    loaded: list[x509.Certificate] = _read(path, x509.load_pem_x509_certificates)
    return loaded


def _read(path: Path, load: Callable[[bytes], Any]) -> Any:
    try:
        return load(path.read_bytes())
    except (ValueError, TypeError, UnsupportedAlgorithm, OSError) as error:
        raise CertificateError(f"{path} cannot be read as PEM: {error}") from error


def as_der(certificate: x509.Certificate) -> bytes:
    """A certificate as it travels."""
    return certificate.public_bytes(serialization.Encoding.DER)


def sign(key: Any, content: bytes) -> bytes:
    """A signature of some content, with whatever kind of key a certificate has."""
    signature: bytes = key.sign(content, *_scheme(key.public_key()))
    return signature


def is_signed(certificate: x509.Certificate, content: bytes, signature: bytes) -> bool:
    """Whether the key of a certificate signed some content."""
    public: Any = certificate.public_key()
    try:
        public.verify(signature, content, *_scheme(public))
    except InvalidSignature:
        return False
    return True


def _scheme(public: Any) -> list[Any]:
    """How a kind of key signs."""
    if isinstance(public, ec.EllipticCurvePublicKey):
        return [ec.ECDSA(hashes.SHA256())]
    if isinstance(public, rsa.RSAPublicKey):
        return [padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.DIGEST_LENGTH), hashes.SHA256()]
    if isinstance(public, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        return []
    raise CertificateError(f"a key of the kind {type(public).__name__} cannot sign; use an elliptic-curve or RSA key")


def refuse_foreign(
    certificate: x509.Certificate, authorities: Sequence[x509.Certificate], common_name: str, now: dt.datetime
) -> None:
    """Refuse a certificate that is not that of a site, or not by an authority, or not valid now."""
    names = _names_in(certificate)
    if names != [common_name]:
        raise CertificateError(f"its certificate is for {', '.join(names) or 'nobody'}, not for {common_name}")
    if not any(_signed_by(certificate, authority) for authority in authorities):
        raise CertificateError("no authority that this site trusts has signed its certificate")
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise CertificateError(
            f"its certificate ended on {certificate.not_valid_after_utc:%Y-%m-%d}, or begins later"
        )


def _names_in(certificate: x509.Certificate) -> list[str]:
    return [str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]


def _refuse_unusable(loaded: x509.Certificate, path: Path, host: str | None) -> None:
    """Refuse a certificate that another authority made without what was in the request."""
    remedy = "have request.pem signed with all its extensions (openssl x509 -req ... -copy_extensions copyall)"
    if loaded.version != x509.Version.v3:
        raise CertificateError(f"{path} is not an X.509 certificate of version 3; {remedy}")
    try:
        names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise CertificateError(f"{path} has no subject alternative name; {remedy}") from None
    hosts = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    if host is not None and host not in hosts:
        raise CertificateError(f"{path} is for {', '.join(hosts)}, but the site is reached at {host}; {remedy}")
    try:
        usage = list(loaded.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return
    if not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH} <= set(usage):
        raise CertificateError(f"{path} must allow both ends of a call (serverAuth and clientAuth); {remedy}")


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: float
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + dt.timedelta(days=days)) - CLOCKS)
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _hosts(common_name: str, host: str | None) -> x509.SubjectAlternativeName:
    """What a neighbour may call the site: its host, by name or number."""
    if host is None:
        return x509.SubjectAlternativeName([x509.DNSName(common_name)])
    try:
        return x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    except ValueError:
        return x509.SubjectAlternativeName([x509.DNSName(host)])


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=signs, crl_sign=signs, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
