"""Sites' programs, all in one process, for tests."""

from __future__ import annotations

from gaussip.mixture.owners import Owners
from gaussip.phases.program import Program
from gaussip.phases.task import LocalData
from gaussip.rows.problem import seeds_of

NAMES = ("Basel", "Bern", "Biel", "Chur", "Genf")


def settings(algorithm="mnem", seed=3, **changed):
    network_seed, start_seed = seeds_of(seed, 1)
    found = {
        "network": "ring", "mixing": "row", "network_seed": network_seed, "algorithm": algorithm, "eta": 0.05,
        "accelerate": True, "covariance_type": "full",
        "n_components": 3, "n_features": 3, "owners": Owners.one_each(3), "start": "kmeans", "seed": start_seed,
        "scale": False,
        "reg_covar": 1e-6, "weighting": "rows", "max_rounds": 60, "tol": 1e-6, "min_count": 2,
    }  # fmt: skip
    return found | changed


def local_data(dataset, labelled=True):
    labels = dataset.by_site(dataset.labels)
    return [LocalData(X, labels[m] if labelled else None, None) for m, X in enumerate(dataset.by_site(dataset.X))]


def run_all(task, rows, resumed=None):
    """The sites' programs, exchange by exchange."""
    programs = [Program(task, m, local, None if resumed is None else resumed[m]) for m, local in enumerate(rows)]
    for program in programs:
        program.start()
    run_together(programs)
    assert all(program.over for program in programs)
    return programs


def run_together(machines, watch=lambda machine: None):
    """Run the programs of all sites, or one phase of them, in this process."""
    while not machines[0].over:
        sides = [machine.outgoing() for machine in machines]
        for m, machine in enumerate(machines):
            for sender in sides[m].due:
                assert m in sides[sender].to, f"site {m} waits for {sender}, which sends it nothing"
            machine.absorb({sender: sides[sender].message for sender in sides[m].due})
        watch(machines[0])
