"""What each rank of an MPI job does in `test_mpi`: one short run of every algorithm, as the site of its number."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from gaussip import NetworkGaussianMixture
from gaussip.exchange.mpi import Mpi
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import pack
from gaussip.phases.base import run
from gaussip.phases.program import Program
from gaussip.phases.task import LocalData, make_task
from gaussip.studies.simulation_model import Setting, draw, paper_start

SITES, ROUNDS = ("A", "B", "C", "D"), 25


def task_of(name, start):
    network = "ring" if name == "exact" else "circle"
    return make_task(
        SITES, network=network, mixing="row", network_seed=0, algorithm=name, eta=0.05, accelerate=True,
        covariance_type="full", n_components=3, n_features=3,
        owners=Owners.one_each(3), start=start, seed=0, scale=False, reg_covar=1e-3, weighting="rows",
        max_rounds=ROUNDS, tol=0.0, min_count=1,
    )  # fmt: skip


def data():
    """Unequal sites, alike, so that NNEM does not collapse; and a start."""
    found = draw(
        Setting(n_rows=400, n_sites=4, n_features=3, delta=4, size_ratio=3, labelled=0.2, spread="homogeneous"), 3
    )
    return found, paper_start(found.truth, 0.2, np.random.default_rng(3))


def private_mixture():
    """An estimator whose noise can be drawn again, its rows, labels and sites."""
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=8000)
    X = np.array([[0, 0], [4, 2]])[group] + rng.normal(size=(8000, 2))
    y = np.where(rng.random(8000) < 0.1, group, -1)
    mixture = NetworkGaussianMixture(2, random_state=0, privacy={"epsilon": 4, "bounds": [-10, 15], "noise_seed": 7})
    return mixture, X, y, np.array(SITES)[np.arange(8000) % 4]


def patients():
    """The same, of patients who have two rows each."""
    mixture, X, y, sites = private_mixture()
    frame = pd.DataFrame(X, columns=["age", "chol"]).assign(who=np.arange(len(X)) // 8 * 4 + np.arange(len(X)) % 4)
    return mixture.set_params(privacy={**mixture.privacy, "patient": "who"}), frame, y, sites


PRIVATE = {"private": private_mixture, "patients": patients}


def main_private(out, made):
    """The first rank's private model."""
    from gaussip.estimator.mpi_fit import fit, world

    mixture, X, y, sites = made
    if fit(mixture, X, y, sites, None, world(), lambda done: None):
        mixture.save(out)


def main(out, names):
    """Every rank's estimates, gathered at the first and written to a file."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    found, start = data()
    mine = found.sites == world.Get_rank()
    arrays = {}
    for name in names:
        program = Program(task_of(name, start), world.Get_rank(), LocalData(found.X[mine], found.labels[mine], None))
        program.start()
        run(program, Mpi(world))
        estimate = np.ascontiguousarray(pack(program.estimate()))
        everything = np.empty((4, *estimate.shape))
        world.Gather(estimate, everything)
        arrays[name] = everything
    if world.Get_rank() == 0:
        np.savez(out, **arrays)


if __name__ == "__main__":
    kind = sys.argv[2]
    main_private(sys.argv[1], PRIVATE[kind]()) if kind in PRIVATE else main(sys.argv[1], sys.argv[2:])
