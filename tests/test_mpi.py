"""Sites as the ranks of an MPI job: the simulation's numbers, bit for bit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mpi_ranks
from gaussip import NetworkGaussianMixture
from gaussip.algorithms import between_sites
from gaussip.files.archive import read
from gaussip.mixture.theta import pack
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate

DECENTRALISED = between_sites()
MPIEXEC = Path(sys.executable).parent / "mpiexec"
FIT = ["--sites", "hospital", "--labels", "diagnosis", "--components", "3", "--reg-covar", "1e-3"]

pytestmark = pytest.mark.skipif(
    not MPIEXEC.exists() and shutil.which("mpiexec") is None, reason="there is no mpiexec on this machine"
)


def by_ranks(ranks, command):
    """Run a command as an MPI job."""
    launcher = [str(MPIEXEC) if MPIEXEC.exists() else "mpiexec", "-n", str(ranks)] if ranks else []
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "GAUSSIP_THREADS": "1"}
    return subprocess.run([*launcher, *command], capture_output=True, text=True, timeout=300, env=environment)


def fit(*arguments, ranks=None):
    """Run gaussip fit, by so many ranks."""
    command = [sys.executable, "-m", "gaussip", "fit", *map(str, arguments)]
    return by_ranks(ranks, [*command, *(["--exchange", "mpi"] if ranks else [])])


def test_every_algorithm_gives_the_simulation_s_numbers(tmp_path):
    """One job runs them all, one after the other."""
    command = [sys.executable, str(Path(mpi_ranks.__file__)), str(tmp_path / "found.npz"), *DECENTRALISED]
    done = by_ranks(4, command)
    assert done.returncode == 0, done.stderr
    found, (data, start) = np.load(tmp_path / "found.npz"), mpi_ranks.data()
    rows = Rows.of_sites(data.by_site(data.X), data.by_site(data.labels), None, 3)
    assert {"masked", "exact", "mnem"} <= set(DECENTRALISED)
    for name in DECENTRALISED:
        task = mpi_ranks.task_of(name, start)
        whole = simulate(task.algorithm, start, rows, task.W, max_rounds=mpi_ranks.ROUNDS, reg_covar=1e-3)
        np.testing.assert_array_equal(found[name], pack(whole.theta))


@pytest.mark.parametrize(("algorithm", "start"), [("mnem", "kmeans"), ("masked", "search")])
def test_a_fit_by_ranks_is_the_fit(table, tmp_path, algorithm, start):
    options = [table, *FIT, "--algorithm", algorithm, "--start", start, "--rounds", "15", "--tol", "0"]
    done = fit(*options, "--out", tmp_path / "ranks.npz", ranks=4)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("model written to") == 1
    assert "not converged after 15 rounds" in done.stdout
    alone = fit(*options, "--out", tmp_path / "alone.npz")
    assert alone.returncode == 0, alone.stderr
    found, wanted = (read(tmp_path / f"{one}.npz")[0] for one in ("ranks", "alone"))
    for part in ("weights_", "means_", "covariances_", "site_weights_", "site_means_", "site_covariances_", "sites_"):
        np.testing.assert_array_equal(found[part], wanted[part])
    np.testing.assert_allclose(found["history_log_likelihood"][-1], wanted["history_log_likelihood"][-1], rtol=1e-12)
    np.testing.assert_allclose(
        found["history_disagreement"][-1], wanted["history_disagreement"][-1], rtol=1e-6, atol=1e-14
    )


@pytest.mark.parametrize("kind", ["private", "patients"])
def test_a_private_fit_by_ranks_is_the_simulation_s(tmp_path, kind):
    """Of 8,000 rows, or of 4,000 patients who have two rows at their site."""
    command = [sys.executable, str(Path(mpi_ranks.__file__)), str(tmp_path / "model.npz"), kind]
    done = by_ranks(4, command)
    assert done.returncode == 0, done.stderr
    found, (mixture, X, y, sites) = NetworkGaussianMixture.load(tmp_path / "model.npz"), mpi_ranks.PRIVATE[kind]()
    wanted = mixture.fit(X, y, sites=sites)
    np.testing.assert_array_equal(found.means_, wanted.means_)
    np.testing.assert_array_equal(found.uncertainty().covariance, wanted.uncertainty().covariance)
    assert found.privacy_ == wanted.privacy_
    assert found.privacy_.counted == {"private": "rows", "patients": "patients"}[kind]
    assert found.site_mass_.sum() == pytest.approx({"private": 8000, "patients": 4000}[kind], abs=200)
    assert found.n_features_in_ == 2
    assert found.history_["bytes"][-1] > 0


def test_a_private_fit_by_ranks_on_the_command_line(table, tmp_path):
    options = [table, *FIT, "--epsilon", "4", "--out", tmp_path / "m.npz"]
    few = fit(*options, "--bounds", "-100:100", ranks=4)
    assert few.returncode == 2
    assert "this attempt has spent" in few.stderr
    assert few.stderr.count("error:") == 1
    cut = fit(*options, "--bounds", "0:0.5", ranks=4)
    assert cut.stderr.count("lie beyond its bounds") == 1


@pytest.mark.parametrize("kind", ["diag", "VEV"])
def test_ranks_know_the_covariance_type_and_leave_rows_out(tmp_path, kind):
    rng = np.random.default_rng(0)
    lines = ["site,a,b"]
    for i, (a, b) in enumerate(rng.normal(size=(200, 2)) @ [[1, 0.8], [0, 0.6]] + rng.choice([-4, 4], (200, 1))):
        cells = {5: ",", 7: f"{a},"}.get(i, f"{a},{b}")  # without any; and the only one without its second
        lines.append(f"{'xy'[i % 2]},{cells}")
    table = tmp_path / "rows.csv"
    table.write_text("\n".join(lines), encoding="utf-8")
    options = [table, "--sites", "site", "-k", "2", "--covariance-type", kind, "--rounds", "20", "--tol", "0"]
    for ranks, name in ((2, "ranks"), (None, "alone")):
        done = fit(*options, "--out", tmp_path / f"{name}.npz", ranks=ranks)
        assert done.returncode == 0, done.stderr
    found, wanted = (read(tmp_path / f"{one}.npz")[0] for one in ("ranks", "alone"))
    for part in ("weights_", "means_", "covariances_", "site_covariances_", "site_mass_"):
        np.testing.assert_array_equal(found[part], wanted[part])


@pytest.mark.slow
def test_refusals_are_said_once(table, tmp_path):
    options = [table, *FIT, "--out", tmp_path / "m.npz"]
    few = fit(*options, ranks=2)
    assert few.returncode == 2
    assert few.stderr.count("there are 4 sites and 2 MPI processes; start one for each site: mpiexec -n 4") == 1
    pooled = fit(*options, "--algorithm", "em", ranks=4)
    assert (pooled.returncode, pooled.stderr.count("does not run between sites")) == (2, 1)
    assert not (tmp_path / "m.npz").exists()
