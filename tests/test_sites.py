"""Sites as processes of their own, over zenoh with mutual TLS: they give what the simulation gives, bit for bit."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from command import gaussip
from federations import Federation
from gaussip import NetworkGaussianMixture
from gaussip.algorithms import REGISTRY, between_sites
from gaussip.exchange import wire
from gaussip.node.journal import Journal
from gaussip.phases.program import NAMES
from gaussip.preprocessing import NetworkPCA

DECENTRALISED = between_sites()
pytestmark = pytest.mark.filterwarnings("ignore:not converged", "ignore::gaussip.errors.PooledTargetWarning")


@pytest.mark.parametrize("name", DECENTRALISED)
def test_every_algorithm_gives_the_simulation_s_numbers(name, tmp_path):
    network = "ring" if REGISTRY[name].two_way else "circle"
    start = "labels" if name == "ngd" else "kmeans"
    spread = "homogeneous" if name == "nnem" else "heterogeneous"  # on sorted rows NNEM collapses
    with Federation(tmp_path, 3, algorithm=name, network=network, start=start, spread=spread) as sites:
        sites.start()
        sites.finish()
        mixture = NetworkGaussianMixture(
            3, algorithm=name, network=network, eta=0.05, tol=0.0, max_rounds=60, reg_covar=1e-3, init_params=start,
            random_state=0,
        )  # fmt: skip
        mixture.fit(sites.data.X, sites.data.labels, sites=np.array(sites.names)[sites.data.sites])
        for m, site in enumerate(sites.names):
            estimator = (mixture.site_weights_[m], mixture.site_means_[m], mixture.site_covariances_[m])
            for mine, theirs in zip(sites.theta(site), estimator, strict=True):
                np.testing.assert_array_equal(mine, theirs)


def test_a_run_that_converges_and_what_it_leaves(tmp_path):
    """One site only calls others; the model serves predictions; events, audit and status tell what happened."""
    with Federation(tmp_path, addresses={"s1": None}, tol=1e-5, max_rounds=5000) as sites:
        sites.start()
        sites.finish()
        whole = sites.simulated()
        assert whole.converged
        sites.assert_equal_to(whole)
        folder = sites.folders / "s1"
        status = sites.status("s1")
        assert (status["state"], status["round"]) == ("finished", whole.n_rounds)
        shown = gaussip("site", "status", folder)
        assert f"{whole.n_rounds} of at most 5000" in shown.stdout
        assert json.loads(gaussip("site", "status", folder, "--json").stdout)["running"] is False
        names = [event["event"] for event in sites.events("s1")]
        assert names[0] == "started"
        assert {"met", "agreed on a start", "finished"} <= set(names)
        audit = map(json.loads, (folder / "audit.jsonl").read_text().splitlines())
        audit = [line for line in audit if "again" not in line]
        assert [line["exchange"] for line in audit] == list(range(1, status["exchange"] + 1))
        assert audit[-1]["to"] == ["s0.trial", "s2.trial"]
        journal = Journal(folder / "runs" / status["run"], NAMES, 32, sites.description.task().network.longest_sum)
        last, to = journal.message(audit[-1]["exchange"])
        journal.close()
        assert (audit[-1]["sha256"], audit[-1]["bytes"]) == (wire.digest(last), len(last))
        assert to == (0, 2)
        rows = tmp_path / "s0.csv"
        predicted = gaussip("predict", folder / "model.npz", rows)
        assert predicted.returncode == 0
        assert NetworkGaussianMixture.load(folder / "model.npz").classes_.tolist() == ["c0", "c1", "c2"]
        before = (folder / "model.npz").read_bytes()
        sites.start("s1")  # over already: it calls nobody and waits for nobody
        sites.finish("s1")
        assert [event["event"] for event in sites.events("s1")] == [*names, "started"]
        assert (folder / "model.npz").read_bytes() == before


def test_help_and_examples_of_every_command():
    for words in (["federation", "init"], ["federation", "renew"], ["site", "run"], ["site", "go-on"]):
        assert "Example: " in gaussip(*words, "--help").stdout


@pytest.mark.parametrize("seed", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_eight_sites_killed_again_and_again(seed, tmp_path):
    """Eight SIGKILLs and more at random instants, two neighbours at once among them: nothing changes."""
    rng = np.random.default_rng(seed)
    settings = {"algorithm": "mnem", "max_rounds": 3000, "eta": 0.005, "fsync_every": 8, "checkpoint_every": 50}
    with Federation(tmp_path, 8, seed=seed, n_rows=40, **settings) as sites:
        kill_and_restart(sites, rng, kills=8)
        sites.finish()
        sites.assert_equal_to(sites.simulated())
        for name in sites.names:
            lines = map(json.loads, (sites.folders / name / "audit.jsonl").read_text().splitlines())
            first = [line["exchange"] for line in lines if "again" not in line]
            assert first == list(range(1, sites.status(name)["exchange"] + 1))


def test_messages_that_grow_after_the_first(tmp_path):
    """Exact first tells who hears whom, and then more: with six features the journal must have room for it."""
    with Federation(tmp_path, 3, n_features=6, algorithm="exact", max_rounds=60) as sites:
        sites.start()
        sites.finish()
        sites.assert_equal_to(sites.simulated())


@pytest.mark.slow
def test_sites_of_a_one_way_network_killed_again_and_again(tmp_path):
    """On a circle a site may be as many rounds ahead of its hearer as there are sites."""
    settings = {"algorithm": "mnem", "network": "circle", "max_rounds": 2500, "eta": 0.005, "fsync_every": 4}
    with Federation(tmp_path, 4, seed=4, n_rows=40, **settings) as sites:
        kill_and_restart(sites, np.random.default_rng(4), kills=4)
        sites.finish()
        sites.assert_equal_to(sites.simulated())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_sixteen_kills_many_times(seed, tmp_path):
    rng = np.random.default_rng(100 + seed)
    name = DECENTRALISED[seed % len(DECENTRALISED)]
    settings = {"algorithm": name, "max_rounds": 6000, "eta": 0.002, "fsync_every": 4, "checkpoint_every": 25}
    spread = "homogeneous" if name == "nnem" else "heterogeneous"  # where sites differ, nnem loses a component
    with Federation(tmp_path, 8, seed=seed, n_rows=40, spread=spread, **settings) as sites:
        kill_and_restart(sites, rng, kills=16)
        sites.finish(within=300)
        sites.assert_equal_to(sites.simulated())


def test_masked_sites_killed_in_every_phase(tmp_path):
    """Eight sites, 17 kills, most of them of two neighbours at once: some in each phase.

    One site is frozen most of the time, so that phases of a few exchanges last.
    """
    settings = {
        "algorithm": "masked", "reveals": "row counts", "start": "search", "labels": None, "classes": None,
        "components": {"at_least": 3, "at_most": 3}, "intervals": "plain", "reduce": {"keep": 2}, "tol": 1e-9,
        "max_rounds": 200, "fsync_every": 4,
    }  # fmt: skip
    phases = ["keys", "basis", "facts", "start", "fit", "information", "closing"]
    killed = []
    with Federation(tmp_path, 8, n_rows=40, **settings) as sites:
        sites.start_frozen("s7")
        for number, phase in enumerate(phases):
            victims = [sites.names[number % 6], sites.names[number % 6 + 1]]
            sites.crawl("s7", lambda: sites.began(phase, *victims))  # noqa: B023
            for more in (victims, victims[:1])[: 1 + number % 2]:
                for name in more:
                    sites.signal(name, signal.SIGKILL)
                    killed.append((phase, sites.last_phase(name)))
                sites.start(*more)
        sites.signal("s7", signal.SIGCONT)
        sites.finish()
        assert len(killed) >= 16
        assert {found for _, found in killed} >= set(phases)
        names = np.array(sites.names)[sites.data.sites]
        pca = NetworkPCA(2).fit(sites.data.X, sites=names)
        mixture = NetworkGaussianMixture(
            3, init_params="search", tol=1e-9, max_rounds=200, reg_covar=1e-3, random_state=0
        ).fit(pca.transform(sites.data.X), sites=names)
        simulated = (mixture.site_weights_[0], mixture.site_means_[0], mixture.site_covariances_[0])
        for name in sites.names:
            for mine, theirs in zip(sites.theta(name), simulated, strict=True):
                np.testing.assert_array_equal(mine, theirs)
        tables = {(sites.folders / name / "intervals.csv").read_bytes() for name in sites.names}
        assert len(tables) == 1


def kill_and_restart(sites, rng, kills):
    """Kill sites at random instants, every third time with a neighbour, sometimes as they start; start them again."""

    def met(name):
        return len(sites.events(name, "met"))

    sites.start()
    n, done = len(sites.names), 0
    sites.until(lambda: all(met(name) for name in sites.names))
    while done < kills:
        time.sleep(rng.uniform(0.02, 0.4))
        first = int(rng.integers(n))
        victims = [sites.names[first]] + ([sites.names[(first + 1) % n]] if done % 3 == 0 else [])
        before = {name: met(name) for name in victims}
        for victim in victims:
            assert sites.running[victim].poll() is None, "the run was over before its sites could be killed"
            sites.signal(victim, signal.SIGKILL)
        sites.start(*victims)
        done += len(victims)
        if rng.random() < 0.3:
            time.sleep(rng.uniform(0.2, 2.0))
            sites.signal(victims[0], signal.SIGKILL)
            sites.start(victims[0])
            done += 1
        sites.until(lambda seen=before: all(met(name) > seen[name] for name in seen))


def test_a_run_that_fails_at_all_sites_says_why_wherever_one_looks(tmp_path):
    with Federation(tmp_path, 3, algorithm="masked", reveals="nothing", start="labels", min_count=1000) as sites:
        assert gaussip("site", "status", sites.folders / "s1").returncode == 3  # not run yet
        sites.start()
        sites.finish(code=2)
        why = "labelled rows at all sites together, fewer than min_count=1000"
        for name in sites.names:
            assert why in " ".join(sites.output(name).split())
            assert "Traceback" not in sites.output(name)
        (ended,) = [event for event in sites.events("s1") if event["event"] == "finished"]
        assert why in ended["failure"]
        shown = gaussip("site", "status", sites.folders / "s1")
        assert (shown.returncode, "failed" in shown.stdout, "labelled rows" in shown.stdout) == (2, True, True)
        again = gaussip("site", "run", sites.folders / "s1", "--data", tmp_path / "s1.csv")
        assert (again.returncode, why in again.stderr) == (2, True)
        shown = gaussip("diagnose", sites.folders / "s1")
        assert re.search(f"failed before its first round: class 'c0' has .* {why}", shown.stderr)


def test_the_status_of_a_site_that_is_down_is_an_alarm(tmp_path):
    with Federation(tmp_path, 3, algorithm="masked", reveals="nothing") as sites:
        sites.start("s0")
        sites.until(lambda: (sites.folders / "s0" / "status.json").exists())
        assert gaussip("site", "status", sites.folders / "s0").returncode == 0
        loaded = Path(f"/proc/{sites.running['s0'].pid}/maps").read_text()
        assert "numba" in loaded
        assert re.findall("sklearn|scipy/stats|scipy/optimize", loaded) == []  # a site starts fast
        sites.signal("s0", signal.SIGKILL)
        shown = gaussip("site", "status", sites.folders / "s0")
        assert (shown.returncode, "stopped" in shown.stdout) == (3, True)
