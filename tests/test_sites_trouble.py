"""What is no crash: frozen, slow and absent neighbours, broken networks, full disks, other tables, lost sites."""

from __future__ import annotations

import json
import shutil
import signal
import struct
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest

from command import gaussip
from federations import Federation
from gaussip import NetworkGaussianMixture
from gaussip.exchange.neighbourhood import Neighbours
from gaussip.federation import folders
from gaussip.node.amendments import go_on, undo
from gaussip.node.journal import Journal
from gaussip.node.links import Links
from gaussip.node.monitor import Monitor
from gaussip.phases.program import NAMES
from proxy import Proxy

pytestmark = pytest.mark.filterwarnings("ignore:not converged")
SLOWLY = {"algorithm": "mnem", "max_rounds": 3500, "eta": 0.002}  # far from settled in the end


def ready(sites, *names):
    """Wait until sites are in the midst of their rounds."""
    sites.until(lambda: all(sites.events(name, "agreed on a start") for name in names or sites.names))


def test_a_site_that_froze_or_was_stopped_goes_on(tmp_path):
    with Federation(tmp_path, 4, **SLOWLY) as sites:
        sites.start()
        ready(sites)
        sites.signal("s1", signal.SIGSTOP)
        sites.until(lambda: any(event["sites"] == ["s1"] for event in sites.events("s0", "waiting")))
        sites.until(lambda: list(sites.status("s0")["waiting_for"]) == ["s1"])  # s3 may be slow too, for a moment
        assert sites.status("s0")["state"] == "waiting"
        shown = gaussip("site", "status", sites.folders / "s0").stdout
        assert "waits for" in shown
        sites.signal("s1", signal.SIGCONT)
        sites.until(lambda: sites.events("s0", "goes on"))
        sites.signal("s2", signal.SIGTERM)
        sites.finish("s2", code=130)
        assert "nothing is lost: the same command goes on" in sites.output("s2")
        stopped = gaussip("site", "status", sites.folders / "s2")
        assert "stopped" in stopped.stdout
        sites.start("s2")
        sites.finish()
        sites.assert_equal_to(sites.simulated())


def test_patience_ends_a_wait_and_nothing_is_lost(tmp_path):
    with Federation(tmp_path, 3, **SLOWLY) as sites:
        sites.start("s0", "s1", options=["--patience", "0.1"])
        sites.finish("s0", "s1", code=3)
        assert "s for s2 (no link: it is down, cannot be reached" in sites.output("s0").replace("\n", " ")
        assert sites.status("s0")["state"] == "stopped"
        assert "for s2 (no link" in sites.status("s0")["paused"]  # status tells why it stopped
        sites.start()
        sites.finish()
        sites.assert_equal_to(sites.simulated())


def test_after_a_power_failure_at_two_neighbours(tmp_path):
    """What was not forced to disk is lost at two sites: they go on from before, and are told again."""
    with Federation(tmp_path, 4, fsync_every=16, **SLOWLY) as sites:
        sites.start()
        ready(sites)
        lost = [0]
        for _ in range(4):  # where both had just forced everything to disk, once more
            sites.until_round("s0", sites.status("s0")["round"] + 20)  # all run again
            for name in ("s1", "s2"):
                sites.signal(name, signal.SIGKILL)
            run, ahead = sites.status("s0")["run"], sites.description.task().network.longest_sum
            lost = [lose_what_was_not_forced(sites.folders / s / "runs" / run, 16, ahead) for s in ("s1", "s2")]
            sites.start("s1", "s2")
            if max(lost) > 0:
                break
        assert max(lost) > 0
        sites.finish()
        sites.assert_equal_to(sites.simulated())


def lose_what_was_not_forced(folder, every, ahead):
    """Destroy the newest records and messages of a journal, as a power failure may; how many exchanges are lost."""
    journal = Journal(folder, NAMES, every, ahead)
    newest = journal.last().exchange
    state, messages = journal._rings["fit"]
    forced = newest - newest % every
    for slot in range(Journal.RUNNING):
        state._map[slot * state._room : (slot + 1) * state._room] = bytes(state._room)
    for number in range(forced + 1, newest + 1):
        place = number % messages._slots * messages._room
        struct.pack_into("<I", messages._map, place + 20, 0xDEADBEEF)
    assert journal.last().exchange == forced
    journal.close()
    return newest - forced


def test_a_site_that_lost_more_than_can_be_told_again(tmp_path):
    """A folder restored from an old copy: the neighbours no longer have what it needs, and it says so."""
    with Federation(tmp_path, 3, fsync_every=4, **{**SLOWLY, "max_rounds": 100_000}) as sites:
        sites.start()
        ready(sites)
        runs = sites.folders / "s0" / "runs"
        sites.signal("s0", signal.SIGSTOP)  # a file that is copied must not be renamed meanwhile
        shutil.copytree(runs, tmp_path / "copy")
        sites.signal("s0", signal.SIGCONT)
        before = sites.status("s0")["round"]
        sites.until_round("s0", before + 200)
        sites.signal("s0", signal.SIGKILL)
        shutil.rmtree(runs)
        shutil.copytree(tmp_path / "copy", runs)
        sites.start("s0")
        sites.finish("s0", code=3)
        assert "this site lost more than can be sent again" in sites.output("s0")
        assert "gaussip site go-on" in sites.output("s0")


@pytest.mark.slow
def test_a_site_gone_for_good(tmp_path):
    """The others stop, agree with the same command at each, and go on without it; a site that did not is refused."""
    with Federation(tmp_path, 4, algorithm="exact", max_rounds=4000, checkpoint_every=100) as sites:
        sites.start("s0", "s1", "s2")
        sites.until(lambda: sites.events("s1", "waiting") or sites.events("s0", "waiting"))
        sites.start("s3")
        sites.until(lambda: 100 in sites.status("s0").get("checkpoints", []) or sites.events("s0", "finished"))
        sites.signal("s3", signal.SIGKILL)
        shutil.rmtree(sites.folders / "s3")
        left = ["s0", "s1", "s2"]
        running = gaussip("site", "go-on", sites.folders / "s0", "--without", "s3", "--from", "100")
        assert running.returncode == 2
        assert "is already running" in running.stderr
        for name in left:
            sites.signal(name, signal.SIGTERM)
        sites.wait_for_end(*left)
        for name in left:  # a wrong one can be taken back
            folder = folders.read(sites.folders / name)
            assert go_on(folder, ["s3"], 0).digest != undo(folders.read(folder.path)).digest
            assert folders.read(folder.path).description.digest() == sites.description.digest()
        refusals = {
            "no checkpoint of round 150": ("--from", "150"),
            "there is no site 's9'": ("--without", "s9", "--from", "0"),
            "cannot go on without itself": ("--without", "s0", "--from", "0"),
        }  # fmt: skip
        for text, options in refusals.items():
            assert text in gaussip("site", "go-on", sites.folders / "s0", *options).stderr
        digests = set()
        for name in left[:2]:
            agreed = gaussip("site", "go-on", sites.folders / name, "--without", "s3", "--from", "100", "--json")
            digests.add(json.loads(agreed.stdout)["digest"])
        assert len(digests) == 1
        sites.start(*left)
        sites.finish("s2", code=3)
        assert "has another description" in sites.output("s2")
        for name in left[:2]:  # they wait for s2
            sites.signal(name, signal.SIGTERM)
        sites.wait_for_end(*left)
        assert gaussip("site", "go-on", sites.folders / "s2", "--without", "s3", "--from", "100").returncode == 0
        sites.start(*left)
        sites.finish(*left)
        kept = np.isin(sites.data.sites, [0, 1, 2])
        for name in left:
            weights, means, covariances = sites.theta(name)
            pooled = NetworkGaussianMixture(
                3, algorithm="em", reg_covar=1e-3, tol=1e-10, max_rounds=20_000, weights_init=weights,
                means_init=means, covariances_init=covariances,
            ).fit(sites.data.X[kept], sites.data.labels[kept])  # fmt: skip
            np.testing.assert_allclose(means, pooled.means_, rtol=1e-6)


def test_a_certificate_is_renewed_without_stopping(tmp_path):
    with Federation(tmp_path, 3, algorithm="mnem", max_rounds=8000, eta=0.002) as sites:
        sites.start()
        ready(sites)
        before = (sites.folders / "s1" / "certificate.pem").read_bytes()
        done = gaussip("federation", "renew", sites.folders, "s1", "--days", "9")
        assert done.returncode == 0
        assert (sites.folders / "s1" / "certificate.pem").read_bytes() != before
        sites.until(lambda: sites.events("s1", "certificate renewed"))
        sites.finish()
        assert len(sites.events("s1", "started")) == 1
        sites.assert_equal_to(sites.simulated())


def test_threads_of_links_that_are_opened_again_are_waited_for(tmp_path):
    """The monitor opens them, and a thread inherits whether Python waits for it: else the process may abort."""
    with Federation(tmp_path, 3) as sites:
        folder = folders.read(sites.folders / "s1")
        monitor = Monitor(folder, Neighbours(sites.description.task().W, 1), None, None, None, None, None, None)
        links, before, inherited = Links(folder, {"s0"}, {"s0", "s2"}, 1000, print), set(threading.enumerate()), []

        def opening():
            links.open()
            inherited.extend(thread.daemon for thread in set(threading.enumerate()) - before - {opener})
            links.close()

        opener = threading.Thread(target=opening, daemon=monitor._thread.daemon)
        opener.start()
        opener.join()
        assert inherited == [False] * 3  # one for each subscription


def test_a_slow_and_broken_network(tmp_path):
    """Links with 50 ms each way that stall and break, and a partition of some seconds: the same numbers."""
    trouble(tmp_path, rounds=60, until="waiting", partition=7.0)


@pytest.mark.slow
def test_a_slow_and_broken_network_for_long(tmp_path):
    trouble(tmp_path, rounds=400, until="unlinked", partition=30.0)


def trouble(tmp_path, rounds, until, partition):
    """Cut s1 off for so many seconds, and until another site reports it as late, or its link as lost."""

    def reports():
        return sum("s1" in (event.get("site"), *event.get("sites", ())) for event in sites.events("s0", until))

    with Proxy(delay=0.05, loss=0.05, seed=1) as one, Proxy(delay=0.05, loss=0.05, seed=2) as other:
        addresses = {"s1": one.address, "s2": other.address, "s0": None}
        with Federation(tmp_path, 3, algorithm="mnem", max_rounds=rounds, addresses=addresses) as sites:
            for name, proxy in (("s1", one), ("s2", other)):  # the proxies stand before two of the sites
                settings = sites.folders / name / "site.toml"
                settings.write_text(settings.read_text() + f'listen = "127.0.0.1:{sites.ports[name]}"\n')
                proxy.target = ("127.0.0.1", sites.ports[name])
            sites.start()
            ready(sites)
            before, began = reports(), time.monotonic()
            one.cut()
            sites.until(lambda: reports() > before and time.monotonic() - began > partition)
            one.mend()
            one.break_connections()
            sites.finish(within=300)
            assert any(sites.events(name, "waiting") for name in sites.names)
            sites.assert_equal_to(sites.simulated())


def test_refusals_that_name_the_cause(tmp_path):
    """Other columns, other labels, an expired certificate, another's folder, a table that changed, a full disk."""
    with Federation(tmp_path, 3, **SLOWLY) as sites:
        table, folder = tmp_path / "s0.csv", sites.folders / "s0"

        def told(*options, data=table):
            found = gaussip("site", "run", folder, "--data", data, "--patience", "0.02", *options)
            return found.returncode, found.stderr

        text = table.read_text()
        (tmp_path / "other.csv").write_text(text.replace('"x1"', '"height"'))
        code, why = told(data=tmp_path / "other.csv")
        assert (code, "has no column 'x1', which the description wants" in why) == (2, True)
        (tmp_path / "labels.csv").write_text(text.replace('"c0"', '"healthy"'))
        code, why = told(data=tmp_path / "labels.csv")
        assert (code, "'healthy', which is not among the description's classes: c0, c1, c2" in why) == (2, True)
        assert not (folder / "runs").exists()
        code, why = told()
        assert (code, "waited" in why) == (3, True)
        here = sites.data.sites == 0
        sites.write_table("s0", sites.data.X[here] + 1, sites.data.labels[here])
        code, why = told()  # nothing was sent yet: another table is no other run
        assert (code, "waited" in why) == (3, True)
        table.write_text(text)
        sites.start("s1", "s2")
        sites.start("s0", file_limit=20_000)
        sites.finish("s0", code=3)
        assert "cannot keep the journal" in sites.output("s0") or "cannot write" in sites.output("s0")
        sites.write_table("s0", sites.data.X[here] + 1, sites.data.labels[here])
        code, why = told()
        assert (code, "not those this run began with" in why) == (2, True)
        table.write_text(text)
        shutil.copy(sites.folders / "s1" / "certificate.pem", folder / "certificate.pem")
        assert "is for s1.trial, not for s0.trial" in told()[1]
        assert gaussip("federation", "renew", sites.folders, "s0", "--days", "0.01").returncode == 0
        sites.start("s0")
        sites.finish()
        sites.assert_equal_to(sites.simulated())
        assert folders.read(folder).site == "s0"


def test_two_processes_of_one_site_a_port_in_use_and_a_link_that_carries_nothing(tmp_path):
    with Federation(tmp_path, 3, algorithm="mnem") as sites, ExitStack() as stack:
        mute = Links(folders.read(sites.folders / "s1"), set(), {"s0"}, 1 << 20, lambda *_: None)
        stack.callback(mute.close)
        mute.open()  # with s1's certificate, it listens and calls s0, and says nothing
        sites.start("s0")
        sites.until(lambda: sites.events("s0", "started"))
        again = gaussip("site", "run", sites.folders / "s0", "--data", tmp_path / "s0.csv")
        assert (again.returncode, "already running" in again.stderr) == (2, True)
        settings = sites.folders / "s1" / "site.toml"
        before = settings.read_text()
        settings.write_text(before + f'listen = "127.0.0.1:{sites.ports["s0"]}"\n')
        taken = gaussip("site", "run", sites.folders / "s1", "--data", tmp_path / "s1.csv")
        assert (taken.returncode, "cannot listen at" in taken.stderr) == (3, True)
        settings.write_text(before)
        sites.until(lambda: sites.events("s0", "links reopened"))
        assert sites.events("s0", "links reopened")[0]["sites"] == ["s1"]
        mute.close()
        sites.start("s1", "s2")
        sites.finish()
        assert len(sites.events("s0", "links reopened")) == 1
        sites.assert_equal_to(sites.simulated())
