"""Private fits of real sites: the simulation's numbers, kills, what leaves a site, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
from itertools import count

import msgspec
import numpy as np
import pytest

from command import gaussip
from federations import Federation
from gaussip import NetworkGaussianMixture
from gaussip.errors import DataError, FederationError, FileError, PrivacyError
from gaussip.federation import reading
from gaussip.federation.folders import Amendment, amended, read
from gaussip.federation.reading import refuse_faults
from gaussip.mixture.theta import pack
from gaussip.node.ledger import Ledger
from gaussip.node.local_data import read_local
from gaussip.node.sums_log import PART, SumsLog
from gaussip.phases.private_fit import refuse_unbounded
from gaussip.phases.program import Program
from gaussip.phases.task import LocalData, make_task
from gaussip.privacy import Privacy
from gaussip.privacy.accounting import epsilon_of, mu_of
from programs import run_all, settings

BOUNDS = [-10, 20]


def federation(path, n_sites=4, labels=True, **changes):
    privacy = {"epsilon": 8, "bounds": BOUNDS, "noise_seed": 5} | changes
    privacy = {key: value for key, value in privacy.items() if value is not None}
    given = {} if labels else {"labels": None, "classes": None}
    return Federation(
        path, n_sites, n_rows=2000, algorithm="masked", reveals="nothing", privacy=privacy, eta=0.01, max_rounds=1000,
        fsync_every=4, **given,
    )  # fmt: skip


def simulated(sites):
    """The same fit with all sites in this process."""
    data, labels = sites.data, sites.settings["labels"] is not None
    names = np.array([None, "c0", "c1", "c2"], dtype=object)
    mixture = NetworkGaussianMixture(3, privacy=sites.settings["privacy"], reg_covar=1e-3, random_state=0)
    y = names[data.labels + 1] if labels else None
    return mixture.fit(data.X, y, sites=np.array(sites.names)[data.sites])


@pytest.mark.parametrize("labels", [True, False])
def test_real_sites_have_the_simulation_s_numbers_and_a_kill_changes_nothing(tmp_path, labels):
    with federation(tmp_path, labels=labels) as sites:
        (sites.folders / "s0" / "model.npz").write_bytes(b"of an earlier run")
        (sites.folders / "s0" / "intervals.csv").write_bytes(b"of an earlier run")
        sites.start()
        for number, name in enumerate(sites.names[:3]):
            sites.until(lambda n=number: sites.status("s3").get("exchange", 0) >= 5 * n + 1)
            sites.signal(name, signal.SIGKILL)
            sites.start(name)
        sites.finish()
        wanted = simulated(sites)
        for name in sites.names:
            model = NetworkGaussianMixture.load(sites.folders / name / "model.npz")
            np.testing.assert_array_equal(pack(model._theta()), pack(wanted._theta()))
            assert model.privacy_ == wanted.privacy_
            assert model.site_mass_.tolist() == [wanted.site_mass_[0]]
            np.testing.assert_array_equal(model.history_["change"], wanted.history_["change"])
            np.testing.assert_array_equal(
                model.uncertainty().standard_errors.means, wanted.uncertainty().standard_errors.means
            )
            assert "no privacy" in sites.events(name, "fitted with noise")[0]["guarantee"]
            needs = sites.events(name, "private run")[0]["needs"]
            assert "rows of all sites together" in needs
            assert ("of each class with a label" in needs) == labels
        (aside,) = (sites.folders / "s0" / "earlier").iterdir()
        assert sites.events("s0", "kept the results of another run")[0]["at"] == str(aside)
        assert {(aside / name).read_bytes() for name in ("model.npz", "intervals.csv")} == {b"of an earlier run"}
        assert not (sites.folders / "s0" / "intervals.csv").exists()
        assert gaussip("diagnose", sites.folders / "s0").returncode == 0
        assert "none: the noise has a seed" in gaussip("site", "status", sites.folders / "s0").stdout
        assert "noise included" in gaussip("intervals", sites.folders / "s0" / "model.npz").stdout


@pytest.mark.parametrize("n_sites", [5, pytest.param(8, marks=pytest.mark.slow)])
def test_no_noise_is_drawn_twice(tmp_path, n_sites):
    """Two sites are killed in each phase: what was sent of a sum is sent again, never remade.

    One site is frozen but for moments, so that a sum takes as long as it takes to kill others in its middle.
    """
    with federation(tmp_path, n_sites, noise_seed=None, epsilon=4) as sites:
        *others, frozen = sites.names
        sites.start_frozen(frozen)
        kept, phases, reached = {}, [], -1
        copies = map(str, count())

        def newest(name):
            return max(parts(sites.run_folder(name), tmp_path / next(copies)), default=-1)

        def kill(*victims):
            for name in victims:
                sites.signal(name, signal.SIGKILL)
                phases.append(sites.last_phase(name))
                for number, part in parts(sites.run_folder(name), tmp_path / next(copies)).items():
                    np.testing.assert_array_equal(kept.setdefault((name, number), part), part)
            sites.start(*victims)

        sites.crawl(frozen, lambda: sites.began("keys", *others[:2]))
        kill(*others[:2])
        for number in range(n_sites - 2):
            victims = others[number % (n_sites - 2) :][:2]
            sites.crawl(frozen, lambda: all(newest(name) > reached for name in victims))  # noqa: B023
            kill(*victims)
            reached = max(number for _, number in kept)
        sites.crawl(frozen, lambda: sites.began("closing", *others[:2]))
        kill(*others[:2])
        sites.signal(frozen, signal.SIGCONT)
        sites.finish()
        assert {"keys", "private", "closing"} <= set(phases)
        assert len({name for name, _ in kept}) == len(others)
        assert reached >= n_sites - 3
        models = [NetworkGaussianMixture.load(sites.folders / name / "model.npz") for name in sites.names]
        for model in models[1:]:
            np.testing.assert_array_equal(pack(model._theta()), pack(models[0]._theta()))
        assert 3.99 < models[0].privacy_.epsilon <= 4
        for name in sites.names:  # a run that was killed is entered once
            (entry,) = Ledger(read(sites.folders / name)).entries()
            assert entry.mu == models[0].privacy_.mu
            assert entry.sums == len(models[0].privacy_.releases)
            asked = sites.status(name)["privacy"]
            assert (asked["epsilon"], asked["neighbours"]) == (4, "one row added or removed")
        said = gaussip("site", "privacy", sites.folders / "s0").stdout
        assert "together epsilon 4 at delta 1e-06" in said


def parts(run, copy):
    """The parts that a site has made of its private sums, by number, from a copy of its log."""
    copy.mkdir()
    found = {}
    for path in run.glob("private-sums.log"):
        shutil.copy(path, copy)
        log = SumsLog(copy)
        for kind, number in log._opened("private"):
            if kind == PART:
                found[number] = log.part("private", number)
        log.close()
    return found


def test_a_site_refuses_rows_beyond_the_bounds_before_it_sends_anything(tmp_path):
    with federation(tmp_path, bounds=[-1, 1]) as sites:
        sites.start("s0")
        sites.wait_for_end("s0")
        assert sites.running["s0"].returncode == 2
        why = "lie beyond its bounds, -1 to 1"
        assert why in sites.output("s0")
        assert not sites.events("s0", "met")
        assert why in sites.events("s0", "stopped")[0]["why"]
        shown = gaussip("site", "status", sites.folders / "s0")
        assert (shown.returncode, "stopped" in shown.stdout, why in shown.stdout) == (3, True, True)
        (sites.folders / "s0" / "status.json").write_text('{"state": "finished", "run": "another"}')
        shown = gaussip("site", "status", sites.folders / "s0")
        assert (shown.returncode, "has not been run yet with this description" in shown.stderr) == (3, True)
        sites.write_table("s0", sites.data.X[:50], np.full(50, 7))  # labels that nobody agreed on
        for text in ("{", '{"state": "finished"}'):
            (sites.folders / "s0" / "status.json").write_text(text)
            sites.start("s0")
            sites.wait_for_end("s0")
            assert sites.running["s0"].returncode == 2
            assert "has the label 'c7'" in sites.output("s0")
            assert sites.status("s0")["paused"].startswith("its table was refused")  # cells are not for a monitor


def test_a_site_keeps_to_its_own_limit(tmp_path):
    with federation(tmp_path, noise_seed=None, epsilon=4) as sites:
        folder = sites.folders / "s0"
        before = (folder / "site.toml").read_text()
        (folder / "site.toml").write_text(before + "privacy_limit = 8\n")
        with pytest.raises(FederationError, match=r"must be a table, as in privacy_limit = { epsilon = 8 }, not 8"):
            read(folder)
        (folder / "site.toml").write_text(before + "privacy_limit = { epsilon = 5 }\n")
        privacy = sites.description.task().privacy
        ledger = Ledger(read(folder))
        ledger.refuse(privacy, "run", "first")
        ledger.charge(read(folder), privacy, "first")
        ledger.charge(read(folder), privacy, "first")  # resumed
        with pytest.raises(DataError, match="a row of a private fit weighs at most one"):
            read_heavy(tmp_path, sites)
        assert [entry.mu for entry in ledger.entries()] == [privacy.mu]
        ledger.refuse(privacy, read(folder).run.name, "first")
        mu = np.sqrt(2) * privacy.mu
        with pytest.raises(PrivacyError, match=f"together that is {epsilon_of(mu, 1e-6):.3g} at delta=1e-06"):
            ledger.charge(read(folder), privacy, "second")
        seeded = dataclasses.replace(privacy, noise_seed=3)
        for other, words in ((None, "is not private"), (seeded, "has a noise_seed")):
            with pytest.raises(PrivacyError, match=words):
                ledger.refuse(other, "run", "third")
        sites.start("s0")
        sites.wait_for_end("s0")
        assert sites.running["s0"].returncode == 2
        assert "more than the privacy_limit of site.toml, 5" in sites.output("s0")
        said = gaussip("site", "privacy", folder).stdout
        assert f"is epsilon 5 at delta 1e-06: one more run may have epsilon {ledger.left():.4g}" in said
        assert ledger.left() == pytest.approx(epsilon_of(np.sqrt(mu_of(5, 1e-6) ** 2 - privacy.mu**2), 1e-6))
        assert json.loads(gaussip("site", "privacy", folder, "--json").stdout)["limit"]["epsilon"] == 5
        ledger.path.write_text("{")
        with pytest.raises(FileError, match="It says what the rows have spent"):
            ledger.refuse(privacy, "run", "first")
        assert len(Ledger(read(sites.folders / "s1")).entries()) == 0  # what never began is not entered
        with (folder / "site.toml").open("a") as file:
            file.write('ledger = "/nowhere/at/all.json"\n')
        with pytest.raises(FileError, match=r"cannot keep /nowhere/at/all\.json"):
            Ledger(read(folder)).charge(read(folder), privacy, "first")
        (folder / "site.toml").write_text('site = "s0"\nprivacy_limit = { epsilon = -1 }\n')
        with pytest.raises(FederationError, match=r"line 2: privacy_limit has epsilon = -1"):
            read(folder)


def read_heavy(path, sites):
    """A patient of three rows of weight three: each would count as one, and the patient as three."""
    rows = ["x0,x1,x2,y,w,who", *["1,1,1,,3,p1"] * 3, "1,1,1,,1,p2"]
    (path / "heavy.csv").write_text("\n".join(rows), encoding="utf-8")
    privacy = {**sites.settings["privacy"], "patient": "who"}
    description = msgspec.structs.replace(sites.description, weights="w", privacy=privacy)
    return read_local(path / "heavy.csv", description, "s0")


def test_too_little_is_the_same_failure_at_all_sites(tmp_path):
    with federation(tmp_path, epsilon=0.06, noise_seed=None) as sites:
        sites.start()
        sites.finish(code=2)
        for name in sites.names:
            assert "this attempt has spent" in sites.output(name)
            (entry,) = Ledger(read(sites.folders / name)).entries()
            assert entry.sums == 1
            assert entry.epsilon == pytest.approx(epsilon_of(entry.mu, 0.999e-6))
            assert 0 < entry.mu < 0.2 * sites.description.task().privacy.mu


CONFLICTS = {
    "gossip": ({"algorithm": "exact"}, "its noise is in masked sums"),
    "announced": ({"reveals": "row counts"}, "has no noise: leave reveals out"),
    "seen": ({"hide": False}, "its sums must be masked"),
    "search": ({"start": "search"}, "would spend privacy on every trial"),
    "choice": ({"components": {"at_most": 4}, "labels": None, "classes": None}, "choosing their number"),
    "shrinkage": ({"shrinkage": 0.2}, "leave shrinkage out"),
    "basis": ({"reduce": {"keep": 2}}, "are not private: leave reduce out"),
    "scale": ({"scale": True}, "leave scale out"),
    "intervals": ({"intervals": "plain"}, "leave intervals out"),
    "no bounds": ({"privacy": {"epsilon": 4}}, "privacy has no bounds"),
    "epsilon": ({"privacy": {"epsilon": -1, "bounds": BOUNDS}}, "privacy has epsilon=-1"),
    "feature": ({"privacy": {"epsilon": 4, "bounds": {"x0": BOUNDS}}}, "has no bounds for 'x1', 'x2'"),
    "patient": ({"privacy": {"epsilon": 4, "bounds": BOUNDS, "patient": "y"}}, "cannot be something else too"),
    "nobody": ({"privacy": {"epsilon": 4, "bounds": BOUNDS, "patient": ""}}, "must be the name of a column"),
    "colluding": ({"privacy": {"epsilon": 4, "bounds": BOUNDS, "colluding": 3}}, "of 4 sites at most 2 can collude"),
}


@pytest.mark.parametrize(("changes", "words"), CONFLICTS.values(), ids=CONFLICTS)
def test_a_description_that_cannot_be_private_is_refused_with_the_line(tmp_path, changes, words):
    given = {"privacy": {"epsilon": 4, "bounds": BOUNDS}, "algorithm": "masked", "reveals": "nothing"}
    with pytest.raises(FederationError, match=rf"federation.toml, line \d+: .*{words}"):
        Federation(tmp_path, 4, **given | changes)


def test_a_private_run_starts_over_but_continues_no_checkpoint(tmp_path):
    with federation(tmp_path) as sites:
        folder = read(sites.folders / "s0")
        over = amended(folder.description, Amendment(["s3"], [f"{folder.run.name}@0"]))
        refuse_faults(over)
        assert over.task().sites == ("s0", "s1", "s2")
        with pytest.raises(FederationError, match="continue a checkpoint, and can start over"):
            refuse_faults(amended(folder.description, Amendment([], [f"{folder.run.name}@10"])))
        with pytest.raises(FederationError, match="at least 3 sites, and there are 2"):
            refuse_faults(amended(folder.description, Amendment(["s2", "s3"], [f"{folder.run.name}@0"])))


def test_two_sites_are_too_few():
    text = "\n".join([
        'name = "two"', "components = 1", 'features = ["x"]', "hide = false",
        "privacy = { epsilon = 4, bounds = [0, 1] }", "[sites]", 'a = { address = "127.0.0.1:1" }',
        'b = { address = "127.0.0.1:2" }',
    ])  # fmt: skip
    with pytest.raises(FederationError, match="at least 3 sites, and there are 2"):
        reading.of_text(text)


def test_programs_in_one_process_sum_no_more_than_the_private_sums():
    """Keys and facts of other fits are not asked for: all that a site sends has noise, or is the same at all."""
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=6000)
    X = np.array([[0, 0, 0], [5, 0, 3], [0, 5, -3]])[group] + rng.normal(size=(6000, 3))
    labels = np.where(rng.random(6000) < 0.2, group, -1)
    task = make_task(("a", "b", "c"), **settings("masked", min_count=5))
    privacy = Privacy.of({"epsilon": 8, "bounds": BOUNDS, "noise_seed": 0})
    task = task._replace(privacy=privacy, features=("x", "y", "z"), classes=("u", "v", "w"))
    rows = [LocalData(X[m::3], labels[m::3], None) for m in range(3)]
    for m, local in enumerate(rows):
        refuse_unbounded(task, local, m)
    programs = run_all(task, rows)
    assert set(programs[0].results) == {"chain", "private", "fit"}
    assert isinstance(programs[0], Program)
    for program in programs[1:]:
        np.testing.assert_array_equal(pack(program.estimate()), pack(programs[0].estimate()))
