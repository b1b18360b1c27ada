"""The same run on a cluster: every rank of an MPI job is a site, and computes on its own rows only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import SettingError, Text
from gaussip.estimator import NetworkGaussianMixture
from gaussip.exchange.mpi import Mpi
from gaussip.mixture.theta import Theta, pack, to_psi, unpack
from gaussip.mixture.units import measure, unit_of_start
from gaussip.phases.program import Program
from gaussip.phases.task import Own, make_task
from gaussip.rows.checks import (
    check_row_weights,
    check_sites_filled,
    check_unlabelled_weight,
    encode_labels,
)
from gaussip.rows.problem import seeds_of
from gaussip.rows.sites import by_column
from gaussip.simulation.history import History
from gaussip.simulation.run import Run
from gaussip.starts.shared import MIN_COUNT


def world() -> Any:
    """MPI's communicator of all ranks."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise SettingError(
            "a fit by the processes of an MPI job needs mpi4py and an MPI library: install gaussip with its mpi "
            f"extra (gaussip[mpi]) and, if the cluster has none, mpich ({error})"
        ) from error
    return MPI.COMM_WORLD


def fit(
    mixture: NetworkGaussianMixture,
    X: NDArray,
    y: Any,
    sites: Any,
    sample_weight: Any,
    communicator: Any,
    watch: Callable[[int], None],
) -> bool:
    """Fit an estimator by the ranks of an MPI job; True at the first rank, whose estimator alone is fitted."""
    codes, names = by_column(sites)
    if communicator.Get_size() != len(names):
        raise SettingError(
            f"there are {len(names)} sites and {communicator.Get_size()} MPI processes",
            remedy=f"start one for each site: mpiexec -n {len(names)} ...",
        )
    if mixture.n_init != 1 or mixture.warm_start or mixture.device != "cpu":
        raise SettingError(
            Text(
                "a fit by the processes of an MPI job has one start, of its own, on CPUs: {n_init:1}, {device:'cpu'}"
            )
        )
    mixture._check_settings()
    labels, classes = encode_labels(y, len(X), mixture.n_components)
    check_unlabelled_weight(mixture.unlabelled_weight, labels is not None, mixture.n_components - len(classes))
    weights = check_row_weights(sample_weight, len(X))
    if weights is not None:
        check_sites_filled(np.bincount(codes, weights), names.tolist())
    network_seed, start_seed = seeds_of(mixture.random_state, 1)
    task = make_task(
        tuple(names.tolist()), network=mixture.network, mixing=mixture.mixing, network_seed=network_seed,
        algorithm=mixture.algorithm, eta=mixture.eta, n_components=mixture.n_components, n_features=X.shape[1],
        labelled=labels is not None, start=mixture.init_params, seed=start_seed, scale=False,
        reg_covar=mixture.reg_covar, weighting=mixture.weighting, max_rounds=mixture.max_rounds, tol=mixture.tol,
        min_count=MIN_COUNT, shrinkage=mixture.shrinkage, unlabelled_weight=mixture.unlabelled_weight,
    )  # fmt: skip
    mine = codes == communicator.Get_rank()
    own = Own(X[mine], None if labels is None else labels[mine], None if weights is None else weights[mine])
    program = Program(task, communicator.Get_rank(), own)
    exchange = Mpi(communicator, task.W)
    while not program.over:
        message = program.message()
        program.absorb(message, exchange(message))
        watch(program.round)
    if program.failure is not None:  # at all ranks, in the same round
        raise program.failure
    found = _gathered(communicator, program, exchange.bytes_sent)
    if found is None:
        return False
    mixture.sites_, mixture.classes_ = names, classes
    assert program.agreed is not None
    masses = program.agreed.facts[:, 0].copy()
    mixture.shrinkage_target_ = program.agreed.target if mixture.shrinkage else None
    mixture._keep(_run_of(program, found, masses, program.agreed.start), masses)
    mixture.n_features_in_ = X.shape[1]
    mixture._warn_if_not_converged()
    return True


def _gathered(communicator: Any, program: Program, sent: int) -> NDArray | None:
    """What the ranks found, a row for each: log-likelihood, bytes sent, and the estimate; None but at the first."""
    mine = np.concatenate([[program.log_likelihood, float(sent)], np.ravel(pack(program.estimate()))])
    found = np.empty((communicator.Get_size(), len(mine))) if communicator.Get_rank() == 0 else None
    communicator.Gather(mine, found)
    return found


def _run_of(program: Program, found: NDArray, masses: NDArray, start: Theta) -> Run:
    M, K = len(found), program.task.n_components
    thetas = unpack(found[:, 2:].reshape(M, K, -1))
    begin = Theta(*(np.broadcast_to(part, (M, *part.shape)) for part in start))
    unit = unit_of_start(begin)
    disagreement = measure(thetas, unit, unit.standard(to_psi(begin)))[2]
    counts = masses > 0
    log_likelihood = masses[counts] @ found[counts, 0] / masses.sum()
    last = (program.round, log_likelihood, program.change, disagreement, int(found[:, 1].sum()))
    return Run(thetas, History.of([last]), program.round, np.array(program.converged), None, np.array(0))
