"""An algorithm of one's own, with the documented methods alone, wherever gaussip runs algorithms."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import federations
from gaussip import NetworkGaussianMixture
from gaussip.algorithms import REGISTRY
from gaussip.diagnosis import diagnose, evidence_of
from gaussip.files.archive import read
from gaussip.phases.task import make_task
from own_algorithm import Relaxed
from programs import NAMES, local_data, run_all, settings
from test_mpi import MPIEXEC, by_ranks

PROGRAM = Path(__file__).with_name("own_algorithm.py")
COMMAND = [sys.executable, str(PROGRAM)]
REGISTRY.pop("relaxed")  # other tests go over what gaussip itself has


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """In the registry for these tests alone."""
    monkeypatch.setitem(REGISTRY, "relaxed", Relaxed)


def test_in_a_simulation_and_in_the_program_of_a_site(dataset):
    changed = {"max_rounds": 60, "tol": 0.0, "eta": 0.1}
    programs = run_all(make_task(NAMES, **settings("relaxed", **changed)), local_data(dataset))
    mixture = NetworkGaussianMixture(3, algorithm="relaxed", random_state=3, **changed)
    with pytest.warns(UserWarning, match="not converged"):
        mixture.fit(dataset.X, dataset.labels, sites=np.array(NAMES)[dataset.sites])
    for m, program in enumerate(programs):
        np.testing.assert_array_equal(program.estimate().means, mixture.site_means_[m])
    assert mixture.history_["step"].tolist() == [0.1] * 60


def test_diagnosed_with_its_own_step(dataset):
    mixture = NetworkGaussianMixture(3, algorithm="relaxed", random_state=3, max_rounds=40, tol=1e-9, eta=0.05)
    with pytest.warns(UserWarning, match="not converged"):
        mixture.fit(dataset.X, sites=np.array(NAMES)[dataset.sites])
    run = evidence_of(mixture)
    assert (run.algorithm, run.eta, type(run.kind)) == ("relaxed", 0.05, Relaxed)
    assert "not enough rounds" in [finding.name for finding in diagnose(mixture)]


def test_by_gaussip_simulate():
    options = [
        "--algorithms",
        "em,relaxed=0.1",
        "--rows",
        "600",
        "--sites",
        "4",
        "--rounds",
        "30",
        "--replicates",
        "2",
    ]
    done = subprocess.run([*COMMAND, "simulate", *options, "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "RELAXED" in json.dumps(json.loads(done.stdout))


def test_as_real_sites(tmp_path):
    with federations.Federation(tmp_path, 3, algorithm="relaxed", eta=0.1, max_rounds=40) as sites:
        sites.start(program=COMMAND)
        sites.finish()
        sites.assert_equal_to(sites.simulated())
        assert evidence_of(sites.folders / "s1").eta == 0.1


@pytest.mark.skipif(not MPIEXEC.exists(), reason="there is no mpiexec on this machine")
def test_under_mpi(table, tmp_path):
    options = ["fit", str(table), "--sites", "hospital", "--labels", "diagnosis", "--components", "3", "--reg-covar",
               "1e-3", "--algorithm", "relaxed", "--eta", "0.1", "--rounds", "15", "--tol", "0"]  # fmt: skip
    for ranks, name in ((4, "ranks.npz"), (None, "alone.npz")):
        exchange = ["--exchange", "mpi"] if ranks else []
        done = by_ranks(ranks, [*COMMAND, *options, *exchange, "--out", str(tmp_path / name)])
        assert done.returncode == 0, done.stderr
    ranks, alone = (read(tmp_path / name)[0] for name in ("ranks.npz", "alone.npz"))
    for part in ("site_weights_", "site_means_", "site_covariances_"):
        np.testing.assert_array_equal(ranks[part], alone[part])
