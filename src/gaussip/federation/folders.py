"""The folders of the sites: each has its configuration and its own secrets, and nothing of any other site's."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from gaussip.errors import FederationError, FileError
from gaussip.federation import certificates, reading
from gaussip.federation.addresses import split_address
from gaussip.federation.certificates import Identity
from gaussip.federation.description import Description
from gaussip.federation.faults import NAME
from gaussip.files import whole
from gaussip.files.toml import Source
from gaussip.settings import broken, default

AUTHORITY = "authority"
SETTINGS = """\
site = "{site}"

# Where to accept calls, if not at the site's own address in federation.toml: behind a firewall that forwards a port,
# for instance. Without an address there the site only calls others.
# listen = "0.0.0.0:7447"

# Minutes to wait for a neighbour before stopping with exit code 3; the same command goes on later. Default: no limit.
# patience = 60

# The most that all private runs together may spend of these rows. With a limit the site takes part in no other run.
# privacy_limit = {{ epsilon = 8, delta = 1e-6 }}

# Where is kept what they have spent, if the rows are also used from other folders. Default: here.
# ledger = "/var/lib/gaussip/patients-ledger.json"
"""


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all private runs together may spend."""

    epsilon: float
    delta: float = default("delta")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A site's own settings, which the others need not know."""

    site: str
    listen: str | None = None
    patience: float | None = None
    privacy_limit: Limit | None = None
    ledger: str | None = None


class Amendment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the operators agreed on after the run began."""

    without: list[str]
    going_on_from: list[str]


class SiteFolder(NamedTuple):
    """A site's folder, read."""

    path: Path
    description: Description
    settings: Settings
    run: Path  #: where the site keeps what it needs to resume this run
    key: Path  #: its private key
    certificate: Path
    authorities: Path  #: the certificates of those who may sign
    model: Path  #: where its model goes
    basis: Path  #: where the basis goes, if the federation reduces its features

    @property
    def site(self) -> str:
        """The site's name."""
        return self.settings.site


def read(path: Path) -> SiteFolder:
    """A site's folder, refused where something is missing or does not fit."""
    for name in ("federation.toml", "site.toml"):
        if not (path / name).is_file():
            raise FederationError(
                f"{path} is not a site's folder: it has no {name}; gaussip federation init makes such folders"
            )
    try:
        text = (path / "site.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FederationError(f"cannot read {path / 'site.toml'}: {error}") from error
    source = Source(text, str(path / "site.toml"), FederationError)
    limit = source.values.get("privacy_limit")
    if limit is not None and not isinstance(limit, dict):
        raise source.error(
            f"privacy_limit must be a table, as in privacy_limit = {{ epsilon = 8 }}, not {limit!r}",
            ("privacy_limit",),
        )
    settings: Settings = source.converted(source.values, Settings)
    if settings.listen is not None:
        split_address(settings.listen)
    if settings.patience is not None and not settings.patience > 0:
        raise source.error("patience must be a number of minutes above 0", ("patience",))
    for name in ("epsilon", "delta") if settings.privacy_limit is not None else ():
        value = getattr(settings.privacy_limit, name)
        if (sentence := broken(name, value)) is not None:
            raise source.error(f"privacy_limit has {name} = {value!r}, which must be {sentence}", ("privacy_limit",))
    federation = reading.load(path / "federation.toml")
    steps = amendments(path)
    if steps:
        federation = amended(federation, steps[-1])
        reading.refuse_faults(federation)
    if settings.site not in federation.names:
        left = " any more" if settings.site in federation.without else ""
        raise FederationError(f"site {settings.site!r} of {path / 'site.toml'} is not in the federation{left}")
    files = ("key.pem", "certificate.pem", "authorities.pem", "model.npz", "basis.npz")
    run = path / "runs" / federation.digest()[:12]
    return SiteFolder(path, federation, settings, run, *(path / name for name in files))


def amendments(path: Path) -> list[Amendment]:
    """What the operators agreed on after the run began, one after the other."""
    file = path / "amended.json"
    if not file.exists():
        return []
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Amendment])
    except (OSError, msgspec.MsgspecError) as error:
        raise FederationError(f"{file} cannot be read: {error}") from error


def amended(federation: Description, change: Amendment) -> Description:
    """The description with a change."""
    return msgspec.structs.replace(federation, without=change.without, going_on_from=change.going_on_from)


def init(text: str, federation: Description, out: Path, *, days: float, requests: bool) -> list[Path]:
    """Make one folder for each site, and one for the authority; all or nothing."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FileError(f"{out} exists and is not an empty folder; choose another name")
    if not out.parent.is_dir():
        raise FileError(f"there is no folder {out.parent} for {out.name}; make it first")
    if AUTHORITY in federation.sites:
        raise FederationError(f"a site cannot be named {AUTHORITY!r}: that folder is the authority's")
    partial = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        authority = None if requests else certificates.new_authority(federation.name)
        if authority is not None:
            (partial / AUTHORITY).mkdir(mode=0o700)
            _write_identity(partial / AUTHORITY, authority)
        for site in sorted(federation.sites):
            folder = partial / site
            folder.mkdir(mode=0o700)
            (folder / "federation.toml").write_text(text, encoding="utf-8")
            (folder / "site.toml").write_text(SETTINGS.format(site=site), encoding="utf-8")
            _certify(folder, federation, site, authority, days)
        partial.chmod(0o755)
        if out.exists():
            out.rmdir()
        os.replace(partial, out)
    except OSError as error:
        raise FileError(f"cannot make the folders in {out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return [out / site for site in sorted(federation.sites)]


def _certify(folder: Path, federation: Description, site: str, authority: Identity | None, days: float) -> None:
    host, name = federation.host(site), federation.common_name(site)
    if authority is None:
        asked = certificates.new_request(name, host)
        _write_secret(folder / "key.pem", asked.key)
        (folder / "request.pem").write_bytes(asked.certificate)
        return
    _write_identity(folder, certificates.new_certificate(authority, name, host, days))
    (folder / "authorities.pem").write_bytes(authority.certificate)


def renew(out: Path, site: str, days: float) -> Path:
    """A new key and certificate for a site, signed by the federation's own authority."""
    home = out / AUTHORITY
    if not (home / "key.pem").is_file():
        raise FileError(
            f"{home} has no authority's key: give the folder that gaussip federation init made; where sites use "
            "authorities of their own (--requests), those renew their certificates"
        )
    if not (out / site).is_dir() or not NAME.fullmatch(site):
        raise FileError(f"{out} has no folder of a site {site!r}")
    federation = reading.load(out / site / "federation.toml")
    authority = Identity((home / "key.pem").read_bytes(), (home / "certificate.pem").read_bytes())
    made = certificates.new_certificate(authority, federation.common_name(site), federation.host(site), days)
    _write_identity(out / site, made)
    return out / site


def _write_identity(folder: Path, identity: Identity) -> None:
    _write_secret(folder / "key.pem", identity.key)
    with whole(folder / "certificate.pem") as partial:
        partial.write_bytes(identity.certificate)


def _write_secret(path: Path, data: bytes) -> None:
    with whole(path) as partial:
        partial.touch(mode=0o600)
        partial.write_bytes(data)
