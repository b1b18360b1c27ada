"""Who may talk to a site: real certificates are refused, real intruders are heard by nobody, and the run goes on."""

from __future__ import annotations

import json
from contextlib import contextmanager

import numpy as np
import pytest
import zenoh

from federations import Federation
from gaussip.errors import FederationError, PausedError
from gaussip.exchange import wire
from gaussip.federation import certificates, folders
from gaussip.node.inbox import Inbox
from gaussip.node.links import Links, configuration, refuse_open, to_all, to_one

pytestmark = pytest.mark.filterwarnings("ignore:not converged")


@contextmanager
def intruder(sites, identity_folder, target, protocol="tls", key="key.pem", certificate="certificate.pem",
             authorities=None):  # fmt: skip
    """A session that calls one site, with some certificate and without any rules of its own."""
    folder = sites.folders / identity_folder
    config = {
        "mode": "peer",
        "connect": {"endpoints": [f"{protocol}/127.0.0.1:{sites.ports[target]}"], "timeout_ms": -1,
                    "exit_on_failure": False},
        "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
        "transport": {"link": {"tls": {
            "root_ca_certificate": str(authorities or sites.folders / "s0" / "authorities.pem"),
            "connect_private_key": str(folder / key), "connect_certificate": str(folder / certificate),
            "enable_mtls": True,
        }}},
    }  # fmt: skip
    session = zenoh.open(zenoh.Config.from_json5(json.dumps(config)))
    try:
        yield session
    finally:
        session.close()


@pytest.fixture
def running(tmp_path):
    """Five sites on a ring in the midst of a run: s0 hears s1 and s4, not s2."""
    with Federation(tmp_path, 5, algorithm="mnem", max_rounds=7000, eta=0.002) as sites:
        sites.start()
        sites.until(lambda: all(sites.events(name, "agreed on a start") for name in sites.names))
        yield sites
        sites.finish()
        sites.assert_equal_to(sites.simulated())


def next_exchanges(sites):
    """Wait until s0 has exchanged messages for two more of its reports."""
    for _ in range(2):
        now = sites.status("s0")["exchange"]
        sites.until(lambda now=now: sites.status("s0")["exchange"] > now)


def bad_identity(sites, name, authority, days):
    """A folder with a certificate that s0 must refuse."""
    folder = sites.folders / name
    folder.mkdir()
    made = certificates.new_certificate(authority, "s1.trial", None, days)
    (folder / "key.pem").write_bytes(made.key)
    (folder / "certificate.pem").write_bytes(made.certificate)
    return name


def test_strangers_are_refused_and_named(running):
    """Another authority, an expired certificate, plain TCP, and a site of the federation that is no neighbour."""
    sites = running
    home = sites.folders / folders.AUTHORITY
    own = certificates.Identity((home / "key.pem").read_bytes(), (home / "certificate.pem").read_bytes())
    other = bad_identity(sites, "other", certificates.new_authority("another"), 1)
    expired = bad_identity(sites, "expired", own, -1)
    with (
        intruder(sites, other, "s0"),
        intruder(sites, expired, "s0"),
        intruder(sites, "s0", "s0", protocol="tcp"),
        intruder(sites, "s2", "s0") as stranger,
    ):

        def refused(word):
            return any(word in event["why"] for event in sites.events("s0", "call refused"))

        sites.until(lambda: refused("UnknownIssuer"))
        sites.until(lambda: refused("expired"))
        sites.until(lambda: refused("corrupt") or refused("InvalidContentType"))
        sites.until(lambda: sites.events("s0", "stranger"))
        assert {event["certificate"] for event in sites.events("s0", "stranger")} == {"s2.trial"}
        heard = []
        stranger.declare_subscriber("gaussip/**", heard.append, allowed_origin=zenoh.Locality.REMOTE)
        for name in ("s1", "s2"):
            stranger.put(to_all(sites.description, name), b"from a stranger")
            stranger.put(to_one(sites.description, name, "s0"), b"from a stranger")
        next_exchanges(sites)
        assert heard == []
    assert not sites.events("s0", "refused")


def test_a_neighbour_s_bad_messages_are_refused_and_named(running):
    """A neighbour's own certificate in the wrong hands: nothing it sends is mixed in."""
    sites = running
    d = sites.description
    run = bytes.fromhex(d.digest()[:16])
    wide = {"mean": np.zeros((3, 10)), "max": np.zeros(2)}

    def frame(number, message=wide, sender=1, of=run):
        return wire.encode(wire.Round(of, sender, number, wire.parts_of(message)))

    def refused(word):
        return [event for event in sites.events("s0", "refused") if word in event["why"]]

    with intruder(sites, "s1", "s0") as session:

        def insist(word, data, key):
            """Send until it is refused: the engine drops messages while its queue is full, or a link is new."""
            sites.until(lambda: session.put(key, data) or refused(word))

        key = to_all(d, "s1")
        insist("not a message of gaussip's", b"nonsense", key)
        now = sites.status("s0")["exchange"]
        ahead = now + 40
        bad = {
            "more than the": bytes(2_000_000),
            "message version 9": wire.MAGIC + b"\x00\x09" + b"x",
            "another run": frame(now, of=bytes(8)),
            "site number 3 sent it": frame(now, sender=3),
            "far ahead": frame(now + 10**6),
            "cannot be read": frame(now)[:-5],
        }
        for word, data in bad.items():
            insist(word, data, key)
        for number in range(ahead - 30, ahead + 2000):  # some come before the neighbour's own
            session.put(key, frame(number, {"mean": np.full((3, 10), np.nan), "max": np.zeros(2)}))
        sites.until(lambda: refused("not finite") or refused("differs"))
        insist("message version 8", wire.MAGIC + b"\x00\x08" + b"x", to_one(d, "s1", "s0"))
        assert {event["certificate"] for event in sites.events("s0", "refused")} == {"s1.trial"}
        heard = []
        session.declare_subscriber(to_all(d, "s4"), heard.append, allowed_origin=zenoh.Locality.REMOTE)
        session.put(to_all(d, "s4"), frame(now, sender=4))  # in another's name: it goes nowhere
        next_exchanges(sites)
        assert heard == []
    assert {event["site"] for event in sites.events("s0", "refused")} == {"s1"}


def test_replayed_and_altered_messages():
    """What comes again is not taken in again; what comes again otherwise is an alarm."""
    told = []
    box = Inbox(b"12345678", 10_000, 8, lambda sender, why, number: told.append((sender, why)))
    like = {"mean": np.ones((2, 3))}
    due = {1: like}

    def frame(number, values):
        return wire.encode(wire.Round(b"12345678", 1, number, wire.parts_of({"mean": values})))

    def never(missing, waited):
        raise AssertionError("waits")

    for number in (1, 2):
        box.deliver(1, frame(number, number * like["mean"]))
        found = box.wait(number, due, lambda sender, message: "", never)
        np.testing.assert_array_equal(found[1]["mean"], number * like["mean"])
    box.deliver(1, frame(1, like["mean"]))  # a replay
    box.deliver(1, frame(2, 5 * like["mean"]))  # altered
    box.deliver(1, frame(3, 3 * like["mean"]))
    box.deliver(1, frame(3, 4 * like["mean"]))  # altered, before it was taken in
    found = box.wait(3, due, lambda sender, message: "", never)
    np.testing.assert_array_equal(found[1]["mean"], 3 * like["mean"])
    assert told == [(1, f"it differs from what the site sent before in exchange {n}") for n in (2, 3)]


def test_what_a_neighbour_cannot_have_sent_is_refused():
    """By the phase, and by who is to send nothing in an exchange."""
    told = []
    box = Inbox(b"12345678", 10_000, 8, lambda sender, why, number: told.append((sender, why)))
    like = {"mean": np.ones((2, 3))}
    waits = []

    def later(missing, waited):
        waits.append(missing)
        box.deliver(1, wire.encode(wire.Round(b"12345678", 1, 1, wire.parts_of({"mean": 2 * like["mean"]}))))

    def fault(sender, message):
        return "" if (message["mean"] > 0).all() else "not so"

    box.deliver(1, wire.encode(wire.Round(b"12345678", 1, 1, wire.parts_of({"mean": -like["mean"]}))))
    box.deliver(2, wire.encode(wire.Round(b"12345678", 2, 1, wire.parts_of(like))))
    found = box.wait(1, {1: like}, fault, later)
    np.testing.assert_array_equal(found[1]["mean"], 2 * like["mean"])
    assert told == [(1, "not so"), (2, "no message of this site is due in exchange 1")]
    assert waits == [{1}]


def test_a_site_does_not_start_unless_its_engine_is_closed(tmp_path):
    sites = Federation(tmp_path, 3)
    folder = folders.read(sites.folders / "s0")
    closed = configuration(folder, ["s1", "s2"], 1000)
    refuse_open(zenoh.Config.from_json5(json.dumps(closed)))

    def opened(path, value):
        changed = json.loads(json.dumps(closed))
        *parents, last = path.split("/")
        place = changed
        for name in parents:
            place = place[name]
        place[last] = value
        return zenoh.Config.from_json5(json.dumps(changed))

    for path, value in (
        ("scouting/multicast/enabled", True), ("scouting/gossip/enabled", True), ("access_control/enabled", False),
        ("access_control/default_permission", "allow"), ("transport/link/tls/enable_mtls", False),
        ("listen/endpoints", ["tcp/127.0.0.1:7447"]), ("connect/endpoints", ["tcp/127.0.0.1:7447"]),
        ("transport/link/protocols", ["tls", "tcp"]), ("adminspace/enabled", True), ("mode", "router"),
    ):  # fmt: skip
        with pytest.raises(FederationError, match="the engine's"):
            refuse_open(opened(path, value))
    first, second = (Links(folder, {"s1", "s2"}, {"s1", "s2"}, 1000, print) for _ in range(2))
    first.open()
    try:
        with pytest.raises(PausedError, match=r"cannot listen at 127\.0\.0\.1"):
            second.open()
    finally:
        first.close()
