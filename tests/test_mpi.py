"""Sites as the ranks of an MPI job: the simulation's numbers, bit for bit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from gaussip.algorithms import REGISTRY
from gaussip.model_file import read

DECENTRALISED = sorted(name for name, kind in REGISTRY.items() if kind.exchanges)
MPIEXEC = Path(sys.executable).parent / "mpiexec"
FIT = ["--sites", "hospital", "--labels", "diagnosis", "--components", "3", "--reg-covar", "1e-3"]

pytestmark = pytest.mark.skipif(
    not MPIEXEC.exists() and shutil.which("mpiexec") is None, reason="there is no mpiexec on this machine"
)


def fit(*arguments, ranks=None):
    """Run gaussip fit, by so many ranks."""
    command = [sys.executable, "-c", "from gaussip.cli import main; main()", "fit", *map(str, arguments)]
    if ranks is not None:
        launcher = str(MPIEXEC) if MPIEXEC.exists() else "mpiexec"
        command = [launcher, "-n", str(ranks), *command, "--exchange", "mpi"]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "GAUSSIP_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


@pytest.mark.parametrize("name", DECENTRALISED)
def test_every_algorithm_gives_the_simulation_s_numbers(name, table, columns, tmp_path):
    if name == "nnem":  # which collapses on sorted rows
        table = tmp_path / "mixed.csv"
        pa.csv.write_csv(pa.table({**columns, "hospital": [f"H{i % 4}" for i in range(600)]}), table)
    network = "ring" if REGISTRY[name].two_way else "circle(2)"
    options = [table, *FIT, "--algorithm", name, "--network", network, "--rounds", "15", "--tol", "0"]
    by_ranks = fit(*options, "--out", tmp_path / "ranks.npz", ranks=4)
    assert by_ranks.returncode == 0, by_ranks.stderr
    assert by_ranks.stdout.count("model written to") == 1
    assert "not converged after 15 rounds" in by_ranks.stdout
    alone = fit(*options, "--out", tmp_path / "alone.npz")
    assert alone.returncode == 0, alone.stderr
    found, wanted = (read(tmp_path / f"{one}.npz")[0] for one in ("ranks", "alone"))
    for part in ("weights_", "means_", "covariances_", "site_weights_", "site_means_", "site_covariances_", "sites_"):
        np.testing.assert_array_equal(found[part], wanted[part])
    np.testing.assert_allclose(found["history_log_likelihood"][-1], wanted["history_log_likelihood"][-1], rtol=1e-12)
    np.testing.assert_allclose(
        found["history_disagreement"][-1], wanted["history_disagreement"][-1], rtol=1e-6, atol=1e-14
    )


def test_refusals_are_said_once(table, tmp_path):
    options = [table, *FIT, "--out", tmp_path / "m.npz"]
    few = fit(*options, ranks=2)
    assert few.returncode == 2
    assert few.stderr.count("there are 4 sites and 2 MPI processes; start one for each site: mpiexec -n 4") == 1
    pooled = fit(*options, "--algorithm", "em", ranks=4)
    assert (pooled.returncode, pooled.stderr.count("does not run between sites")) == (2, 1)
    assert not (tmp_path / "m.npz").exists()
