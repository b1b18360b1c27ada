"""Masks: they cancel, they are chance to all who do not share a secret, and none is used for two parts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gaussip.errors import CertificateError
from gaussip.exchange import masks
from gaussip.exchange.masks import Keys, Masks, n_each_side, partners, stream
from gaussip.exchange.receipts import Receipts, chain_in, chained
from gaussip.federation import certificates
from identities import identities, identity

RUN = bytes(32)


def all_masks(n_sites, run=RUN):
    keys = [Keys(bytes([m % 251, m // 251] * 16)) for m in range(n_sites)]
    public = [key.public[:32] for key in keys]
    return [Masks(m, key, public, run) for m, key in enumerate(keys)]


@pytest.mark.parametrize("n_sites", [2, 3, 20, 260])
def test_all_masks_cancel(n_sites):
    words = np.stack([mask.of(3, b"chain", 50) for mask in all_masks(n_sites)])
    assert (words.sum(axis=0) == 0).all()
    assert (words != 0).all()


def test_masks_of_sites_that_were_shown_different_totals_do_not_cancel():
    made = all_masks(4)
    words = np.stack([mask.of(3, b"other" if m == 2 else b"chain", 50) for m, mask in enumerate(made)])
    assert (words.sum(axis=0) != 0).all()
    apart = [Masks(m, Keys(bytes([m] * 32)), [Keys(bytes([q] * 32)).public[:32] for q in range(3)], run)
             for m, run in enumerate((RUN, RUN, b"another run".ljust(32)))]  # fmt: skip
    assert np.stack([mask.of(1, b"", 9) for mask in apart]).sum(axis=0).any()


def test_a_part_as_it_is_sent_is_uniform():
    """Whatever the part is: words, their halves and their bits, and two sums are not related."""
    mask = all_masks(3)[0]
    part = np.full(20_000, -12345, dtype=np.int64)
    first, second = (part + mask.of(number, b"chain", part.size) for number in (1, 2))
    for words in (first, second, first - second, first ^ second):
        unsigned = words.view(np.uint64)
        for shift in (0, 11, 32):
            share = (unsigned << np.uint64(shift)) / 2.0**64
            assert stats.kstest(share, "uniform").pvalue > 1e-3
        bits = np.unpackbits(words.view(np.uint8))
        assert stats.binomtest(int(bits.sum()), bits.size).pvalue > 1e-3
        counts = np.bincount(words.view(np.uint8), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-3
    assert abs(np.corrcoef(first.astype(float), second.astype(float))[0, 1]) < 0.03
    assert abs(np.corrcoef(first[1:].astype(float), first[:-1].astype(float))[0, 1]) < 0.03


def test_every_sum_has_a_stream_of_its_own():
    secret = bytes(32)
    seen = {
        stream(one, number, chain, 4).tobytes()
        for one in (secret, bytes(31) + b"1") for number in (1, 2, 11) for chain in (b"", b"1", b"a", b"b")
    }  # fmt: skip
    assert len(seen) == 2 * 3 * 4
    assert stream(secret, 1, b"a", 2).tobytes() == stream(secret, 1, b"a", 4)[:2].tobytes()


def test_with_many_sites_each_shares_masks_with_some():
    """Two ways, connected among the honest whoever colludes, and drawn anew for each run."""
    n_sites = 400
    each = n_each_side(n_sites)
    assert each < 40
    graph = {m: set(partners(n_sites, m, RUN)) for m in range(n_sites)}
    assert all(len(others) == 2 * each for others in graph.values())
    assert all(m in graph[q] for m, others in graph.items() for q in others)
    assert graph != {m: set(partners(n_sites, m, b"x" * 32)) for m in range(n_sites)}
    rng = np.random.default_rng(0)
    for _ in range(20):
        honest = set(rng.permutation(n_sites)[: 2 * n_sites // 3 + 1].tolist())
        reached, new = set(), {min(honest)}
        while new:
            reached |= new
            new = set().union(*(graph[m] for m in new)) & honest - reached
        assert reached == honest
    assert partners(200, 3, RUN) == [m for m in range(200) if m != 3]


def test_the_chance_that_colluding_sites_surround_others_is_as_small_as_said():
    for n_sites in (201, 1000, 100_000):
        assert n_sites * masks.COLLUDING ** n_each_side(n_sites) <= masks.UNLIKELY


def test_receipts():
    keys = [Keys(bytes([m] * 32)) for m in range(2)]
    one = Receipts(keys[0], [key.public[32:] for key in keys])
    part, chain = np.arange(5), chained(bytes(32), b"totals")
    receipt = one.own(7, chain, part)
    assert receipt.shape == (12,)
    assert chain_in(receipt) == chain
    assert one.genuine(7, 0, part, receipt)
    assert not one.genuine(8, 0, part, receipt)  # of another sum
    assert not one.genuine(7, 1, part, receipt)  # of another site
    assert not one.genuine(7, 0, part + 1, receipt)
    assert not one.genuine(7, 0, part, receipt ^ (np.arange(12) == 5))
    assert chained(b"", b"ab", b"c") != chained(b"", b"a", b"bc")


@pytest.mark.parametrize("kind", ["ec", "rsa", "ed25519"])
def test_announcements_are_signed_with_the_certificate_s_key(tmp_path, kind, monkeypatch):
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    elliptic = ec.generate_private_key
    makers = {
        "ec": lambda: elliptic(ec.SECP384R1()),
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
    }
    authority = certificates.new_authority("trial")
    monkeypatch.setattr(certificates.ec, "generate_private_key", lambda curve: makers[kind]())
    bern, chur = identities(tmp_path, ["bern", "chur"], authority)
    public = Keys(bytes(32)).public
    announced = bern.announcement(public, 12.0)
    assert len(announced) < 4000
    assert chur.checked("bern", announced) == (public, 12.0)
    hidden, count = chur.checked("bern", bern.announcement(public, float("nan")))
    assert hidden == public
    assert np.isnan(count)


def test_what_is_not_a_site_s_announcement(tmp_path):
    bern, chur = identities(tmp_path, ["bern", "chur"])
    (tmp_path / "other").mkdir()
    (foreign,) = identities(tmp_path / "other", ["bern"])
    public = Keys(bytes(32)).public
    good = bern.announcement(public, 12.0)
    changed = bytearray(good)
    changed[good.index(public) + 3] ^= 1
    for site, announced, why in (
        ("bern", chur.announcement(public, 1.0), "its certificate is for chur.trial, not for bern.trial"),
        ("bern", foreign.announcement(public, 1.0), "no authority that this site trusts"),
        ("bern", bytes(changed), "not signed with the key of bern's certificate"),
        ("bern", identity(tmp_path, "bern", b"1" * 32).announcement(public, 1.0), "another run, or another name"),
        ("bern", bern.announcement(public[:40], 1.0), "not a pair of keys"),
        ("bern", bern.announcement(bytes(32) + public[32:], 1.0), "shares no secret with anybody"),
        ("bern", good[:-9], "cannot be read"),
        ("bern", b"", "cannot be read"),
    ):
        with pytest.raises(CertificateError, match=why):
            chur.checked(site, announced)
    expired = certificates.new_authority("trial")
    (tmp_path / "old").mkdir()
    (old,) = identities(tmp_path / "old", ["bern"], expired)
    made = certificates.new_certificate(expired, "bern.trial", None, -1)
    (tmp_path / "old" / "bern.key").write_bytes(made.key)
    (tmp_path / "old" / "bern.pem").write_bytes(made.certificate)
    with pytest.raises(CertificateError, match="its certificate ended on"):
        old.checked("bern", identity(tmp_path / "old", "bern").announcement(public, 1.0))
