"""A site that swaps keys, alters parts or sends different sites different things: named by real processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from federations import Federation

CROOKED = Path(__file__).with_name("crooked.py")
pytestmark = pytest.mark.filterwarnings("ignore:not converged")


def federation(path, **changed):
    return Federation(path, 4, algorithm="masked", reveals="nothing", **{"max_rounds": 30, **changed})


@pytest.mark.parametrize(
    ("deed", "why"),
    [
        (
            "swap-name",
            "the key that it passed on as that of s0 is not: its certificate is for s1.trial, not for s0.trial",
        ),
        (
            "swap-key",
            "the key that it passed on as that of s0 is not: it is not signed with the key of s0's certificate",
        ),
        ("alter-part", "the part that it passed on as that of s0 was not signed by it"),
    ],
)
def test_what_a_relay_alters_is_refused_with_its_name(deed, why, tmp_path):
    """It is not used: the others wait, and say why."""
    with federation(tmp_path) as sites:
        sites.start("s0", "s2", "s3")
        sites.start("s1", program=[sys.executable, str(CROOKED), deed])
        sites.until(lambda: sites.events("s2", "refused"))
        refused = sites.events("s2", "refused")[0]
        assert (refused["site"], refused["certificate"], refused["why"]) == ("s1", "s1.trial", why)
        sites.until(lambda: why in (sites.status("s2").get("paused") or ""))
        assert not sites.events("s2", "finished")


def test_two_parts_of_one_site_end_the_run(tmp_path):
    """On a ring a part reaches a site on two ways."""
    with federation(tmp_path) as sites:
        sites.start("s0", "s2", "s3")
        sites.start("s1", program=[sys.executable, str(CROOKED), "two-parts"])
        sites.finish("s3", code=2)
        assert "one part of s1 came from s0, and another from s2" in " ".join(sites.output("s3").split())
        assert "start over at all sites" in " ".join(sites.output("s3").split())
        for name in ("s0", "s2"):
            assert not sites.events(name, "finished")


def test_two_totals_end_the_run(tmp_path):
    """The middle of a star sends one of the others another total: all find out with the next sum."""
    with federation(tmp_path, network="star") as sites:
        sites.start("s1", "s2", "s3")
        sites.start("s0", program=[sys.executable, str(CROOKED), "two-totals"])
        sites.finish("s1", "s2", "s3", code=2)
        for name in ("s1", "s2", "s3"):
            assert "was shown other totals than" in " ".join(sites.output(name).split())
        assert not any(sites.events(name, "finished") for name in sites.names)
