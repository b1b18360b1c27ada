"""The same run on a cluster: every rank of an MPI job is a site, and computes on its own rows only."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import SettingError, Text
from gaussip.estimator import NetworkGaussianMixture
from gaussip.estimator.ending import keep, refuse_if_degenerate, warn_if_not_converged
from gaussip.estimator.preparation import check_settings, task_of
from gaussip.estimator.private_fit import by_patient, keep_private, refuse_other_settings
from gaussip.exchange.mpi import Mpi
from gaussip.exchange.questions import Spent
from gaussip.mixture.theta import Theta, broadcast, pack, to_psi, unpack
from gaussip.mixture.units import measure, unit_of_start
from gaussip.phases.base import run
from gaussip.phases.fit import Fitted
from gaussip.phases.private_fit import refuse_unbounded
from gaussip.phases.program import Program
from gaussip.phases.task import LocalData
from gaussip.privacy import Privacy
from gaussip.rows.checks import check_row_weights, check_sites_filled, feature_names
from gaussip.rows.frames import validated
from gaussip.rows.labels import encode_labels
from gaussip.rows.problem import not_empty, seeds_of
from gaussip.rows.sites import by_column
from gaussip.simulation.history import MPI, History
from gaussip.simulation.run import Run


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
    X: Any,
    y: Any,
    sites: Any,
    sample_weight: Any,
    communicator: Any,
    watch: Callable[[int], None],
) -> bool:
    """Fit an estimator by the ranks of an MPI job; True at the first rank, whose estimator alone is fitted.

    X is an array or a frame of all rows, as `NetworkGaussianMixture.fit` takes it.
    """
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
    check_settings(mixture)
    privacy = None if mixture.privacy is None else Privacy.of(mixture.privacy)
    if privacy is not None:
        refuse_other_settings(mixture)
        if privacy.patient is not None:
            X, sample_weight = by_patient(X, sites, sample_weight, privacy.patient)
    X = validated(mixture, X, reset=True)
    labels = encode_labels(
        y, len(X), mixture.n_components, mixture.unlabelled_weight, mixture.components_per_class
    )  # fmt: skip
    weights = check_row_weights(sample_weight, len(X))
    there = not_empty(X, codes, names.tolist())
    if weights is not None:
        check_sites_filled(np.bincount(codes[there], weights[there], minlength=len(names)), names.tolist())
    named = hasattr(mixture, "feature_names_in_") or privacy is not None
    features = feature_names(mixture) if named else None
    task = task_of(
        mixture, sites=names, features=features, n_features=X.shape[1], classes=labels.classes,
        owners=None if labels.codes is None else labels.owners, start=mixture.init_params,
        seeds=seeds_of(mixture.random_state, 1), privacy=privacy,
    )  # fmt: skip

    def of_site(m: int) -> LocalData:
        mine = there & (codes == m)
        known, weighted = (None if part is None else part[mine] for part in (labels.codes, weights))
        return LocalData(X[mine], known, weighted, labels.sets)

    for m in range(len(names)):  # every rank has read all rows: they are refused at all
        refuse_unbounded(task, of_site(m), m)
    program = Program(task, communicator.Get_rank(), of_site(communicator.Get_rank()))
    exchange = Mpi(communicator)
    program.start()
    run(program, exchange, lambda program: watch(program.round))
    if program.failure is not None:  # at all ranks, in the same round
        raise program.failure
    mixture.privacy_, mixture.private_covariance_ = None, None
    if privacy is not None:
        sent = np.empty(len(names)) if communicator.Get_rank() == 0 else None
        communicator.Gather(np.array([float(exchange.bytes_sent)]), sent)
        if sent is None:
            return False
        found = program.results["private"].found(task)
        spent = [Spent(program.exchanges, int(sent.sum()))] * len(found.changes)
        keep_private(mixture, found, spent, sites=names, classes=labels.classes, owners=labels.owners, origin=MPI)
        return True
    mass = float(program.local.rows(task, task.n_components).mass[0])
    gathered = _gathered(communicator, program.results["fit"], exchange.bytes_sent, mass)
    if gathered is None:
        return False
    agreed = program.results["start"]
    masses = gathered[:, 2]
    end = _run_of(program, gathered, masses, agreed.theta)
    refuse_if_degenerate(mixture, end, masses, features, np.repeat(labels.classes, labels.owners.counts).tolist())
    keep(
        mixture, end, sites=names, mass=masses, classes=labels.classes, owners=labels.owners,
        target=agreed.target if mixture.shrinkage else None, origin=MPI,
    )  # fmt: skip
    warn_if_not_converged(mixture)
    return True


def _gathered(communicator: Any, fitted: Fitted, sent: int, mass: float) -> NDArray | None:
    """What the ranks computed, a row each: log-likelihood, bytes sent, mass, estimate; None but at the first."""
    mine = np.concatenate([[fitted.log_likelihood, float(sent), mass], np.ravel(pack(fitted.theta))])
    rows = np.empty((communicator.Get_size(), len(mine))) if communicator.Get_rank() == 0 else None
    communicator.Gather(mine, rows)
    return rows


def _run_of(program: Program, gathered: NDArray, masses: NDArray, start: Theta) -> Run:
    M, fitted = len(gathered), program.results["fit"]
    thetas = unpack(gathered[:, 3:].reshape(M, len(fitted.weights), -1))
    begin = broadcast(start, (M,))
    unit = unit_of_start(begin)
    disagreement = measure(thetas, unit, unit.standard(to_psi(begin)))[2]
    counts = masses > 0
    log_likelihood = masses[counts] @ gathered[counts, 0] / masses.sum()
    last = (
        fitted.rounds, log_likelihood, fitted.change, disagreement, fitted.step, fitted.restarts,
        program.exchanges, int(gathered[:, 1].sum()),
    )  # fmt: skip
    return Run(thetas, History.of([last]), fitted.rounds, np.array(fitted.converged), None, np.array(0))
