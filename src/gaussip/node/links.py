"""The engine between sites: eclipse-zenoh in peer mode, with mutual TLS, closed to all but the neighbours.

A site publishes what is for all its hearers under one key and what is for one neighbour under another; who may
publish and receive what is generated from the network, by the names in certificates.
"""

import contextlib
import errno
import json
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any

import zenoh

from gaussip.errors import FederationError, PausedError
from gaussip.federation.addresses import split_address
from gaussip.federation.description import Description
from gaussip.federation.folders import SiteFolder

Receive = Callable[[str, bytes, bool], None]  # from whom, what, and whether to this site alone


def to_all(description: Description, site: str) -> str:
    """The key of what a site sends to all its hearers."""
    return f"gaussip/{description.name}/{site}/all"


def to_one(description: Description, site: str, other: str) -> str:
    """The key of what a site sends to one neighbour."""
    return f"gaussip/{description.name}/{site}/to/{other}"


def configuration(folder: SiteFolder, neighbours: Iterable[str], limit: int) -> dict[str, Any]:
    """The configuration of zenoh: nothing is open that is not named here."""
    d, me = folder.description, folder.site
    others = sorted(neighbours)
    listen = folder.settings.listen or d.sites[me].address
    rules, subjects, policies = [], [], []
    for other in others:
        mine, theirs = ([to_all(d, a), to_one(d, a, b)] for a, b in ((me, other), (other, me)))
        for way, message, keys in (
            ("ingress", "put", theirs), ("egress", "put", mine),
            ("ingress", "declare_subscriber", mine), ("egress", "declare_subscriber", theirs),
        ):  # fmt: skip
            name = f"{other}: {way} {message}"
            rules.append(
                {"id": name, "permission": "allow", "flows": [way], "messages": [message], "key_exprs": keys}
            )
        subjects.append({"id": other, "cert_common_names": [d.common_name(other)]})
        policies.append({"rules": [rule["id"] for rule in rules[-4:]], "subjects": [other]})
    return {
        "mode": "peer",
        "listen": {"endpoints": [_endpoint(listen)] if listen else []},
        "connect": {
            "endpoints": [_endpoint(address) for other in others if (address := d.sites[other].address)],
            "timeout_ms": -1,  # call again and again
            "exit_on_failure": False,
            "retry": {"period_init_ms": 200, "period_max_ms": 2000, "period_increase_factor": 1.5},
        },
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "adminspace": {"enabled": False},
        "transport": {
            "shared_memory": {"enabled": False},
            "link": {
                "protocols": ["tls"],
                "tx": {"lease": 5000},
                "rx": {
                    "max_message_size": max(16 * limit, 1 << 24)
                },  # beyond, the engine drops it; below, it is rejected by name
                "tls": {
                    "root_ca_certificate": str(folder.authorities.resolve()),
                    "listen_private_key": str(folder.key.resolve()),
                    "listen_certificate": str(folder.certificate.resolve()),
                    "connect_private_key": str(folder.key.resolve()),
                    "connect_certificate": str(folder.certificate.resolve()),
                    "enable_mtls": True,
                    "verify_name_on_connect": True,
                    "close_link_on_expiration": True,
                },
            },
        },
        "access_control": {
            "enabled": True,
            "default_permission": "deny",
            "rules": rules,
            "subjects": subjects,
            "policies": policies,
        },
    }


def _endpoint(address: str) -> str:
    split_address(address)
    return f"tls/{address}"


def refuse_open(config: zenoh.Config) -> None:
    """Refuse to start unless zenoh itself says that it is closed."""
    wanted = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "adminspace/enabled": False,
        "transport/shared_memory/enabled": False,
        "transport/link/protocols": ["tls"],
        "transport/link/tls/enable_mtls": True,
        "transport/link/tls/verify_name_on_connect": True,
        "transport/link/tls/close_link_on_expiration": True,
        "access_control/enabled": True,
        "access_control/default_permission": "deny",
    }
    for key, value in wanted.items():
        actual = json.loads(config.get_json(key))
        if actual != value:
            raise FederationError(f"the engine's {key} is {actual!r}, not {value!r}: it would not be closed")
    for key in ("listen/endpoints", "connect/endpoints"):
        for endpoint in json.loads(config.get_json(key)):
            if not str(endpoint).startswith("tls/"):
                raise FederationError(f"the engine's {key} has {endpoint!r}, which is not mutual TLS")
    for plugin in ("plugins", "plugins_loading"):
        loaded = json.loads(config.get_json(plugin))
        if loaded and loaded.get("enabled"):
            raise FederationError(f"the engine loads plugins ({loaded!r}): it would not be closed")


class Links:
    """The session of one site; opened again when its certificate is renewed.

    Parameters
    ----------
    receive : called by the engine's threads
    """

    def __init__(
        self, folder: SiteFolder, heard: set[str], neighbours: set[str], limit: int, receive: Receive
    ) -> None:
        self._folder, self._heard, self._neighbours = folder, heard, neighbours
        self._limit, self._receive = limit, receive
        self._session: Any = None
        self._lock = threading.Lock()

    def open(self) -> None:
        """Listen, call the neighbours, and subscribe to them."""
        d, me = self._folder.description, self._folder.site
        config = zenoh.Config.from_json5(json.dumps(configuration(self._folder, self._neighbours, self._limit)))
        refuse_open(config)
        listen = self._folder.settings.listen or d.sites[me].address
        if listen:
            _refuse_taken(listen)
        try:
            session = zenoh.open(config)
        except zenoh.ZError as error:
            raise FederationError(f"the engine cannot start: {error}") from error
        with self._lock:
            self._session = session
            for other in sorted(self._neighbours):
                if other in self._heard:
                    session.declare_subscriber(to_all(d, other), self._handler(other, False))
                session.declare_subscriber(to_one(d, other, me), self._handler(other, True))
            options: dict[str, Any] = {
                "congestion_control": zenoh.CongestionControl.BLOCK,
                "priority": zenoh.Priority.REAL_TIME,
                "express": True,
                "reliability": zenoh.Reliability.RELIABLE,
            }
            self._all = session.declare_publisher(to_all(d, me), **options)
            self._one = {
                other: session.declare_publisher(to_one(d, me, other), **options) for other in self._neighbours
            }

    def _handler(self, other: str, alone: bool) -> Callable[[Any], None]:
        receive = self._receive

        def handle(sample: Any) -> None:
            receive(other, sample.payload.to_bytes(), alone)

        return handle

    def publish(self, data: bytes) -> None:
        """Send a message to all neighbours that receive from this site."""
        with self._lock, contextlib.suppress(zenoh.ZError):  # a link that broke: the others will ask
            self._all.put(data)

    def send(self, other: str, data: bytes) -> None:
        """Send a message to one neighbour."""
        with self._lock, contextlib.suppress(zenoh.ZError):
            self._one[other].put(data)

    def linked(self) -> list[str]:
        """The names, as authenticated by their certificates, of those a link leads to."""
        with self._lock:
            if self._session is None:
                return []
            return sorted({str(link.auth_identifier) for link in self._session.info.links()})

    def reopen(self) -> None:
        """Use the certificate that now lies in the folder."""
        self.close()
        self.open()

    def close(self) -> None:
        """Leave; a session left open would keep the process from ending."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()


def _refuse_taken(address: str) -> None:
    """Refuse a port that another program listens at, or an address that is not this machine's."""
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PausedError(
                    f"cannot listen at {address}: another site, or another program, is at that port; stop it, or set "
                    "listen in site.toml to another port that the others reach"
                ) from error
            raise FederationError(
                f"cannot listen at {address}: {error.strerror or error}; is it this machine's address? Set listen "
                "in site.toml to one, for instance 0.0.0.0 with the same port"
            ) from error
