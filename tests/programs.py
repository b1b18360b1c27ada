"""Sites' programs, all in one process, for tests."""

from __future__ import annotations

from gaussip.exchange.neighbourhood import Neighbours
from gaussip.phases.program import Program
from gaussip.phases.task import Own
from gaussip.rows.problem import seeds_of

NAMES = ("Basel", "Bern", "Biel", "Chur", "Genf")


def settings(algorithm="mnem", seed=3, **changed):
    network_seed, start_seed = seeds_of(seed, 1)
    found = {
        "network": "ring", "mixing": "row", "network_seed": network_seed, "algorithm": algorithm, "eta": 0.05,
        "n_components": 3, "n_features": 3, "labelled": True, "start": "kmeans", "seed": start_seed, "scale": False,
        "reg_covar": 1e-6, "weighting": "rows", "max_rounds": 60, "tol": 1e-6, "min_count": 2,
    }  # fmt: skip
    return found | changed


def owns(dataset, labelled=True):
    labels = dataset.by_site(dataset.labels)
    return [Own(X, labels[m] if labelled else None, None) for m, X in enumerate(dataset.by_site(dataset.X))]


def run_all(task, rows, begin=None):
    """The sites' machines, exchange by exchange."""
    programs = [Program(task, m, own, None if begin is None else begin[m]) for m, own in enumerate(rows)]
    near = [Neighbours(task.W, m) for m in range(len(rows))]
    while not programs[0].over:
        sent = [program.message() for program in programs]
        for program, place, mine in zip(programs, near, sent, strict=True):
            program.absorb(mine, place.combine(mine, {q: sent[q] for q in place.heard}))
        assert len({program.over for program in programs}) == 1
    return programs
