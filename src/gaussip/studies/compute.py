"""The numbers of a cell of a study. Needs NumPy, SciPy, networkx and, on a GPU, PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.mixture.theta import at, to_psi
from gaussip.simulation.history import Progress
from gaussip.studies.cells import POOLED, Cell, marks
from gaussip.studies.comparison import Trial
from gaussip.studies.parts import Design
from gaussip.studies.theory import contraction, heterogeneity

FINE = 1e-11
TOLERANCE = 1e-8  # a run in which nothing moves by more than this, in the start's units, has arrived


def compute(
    cell: Cell,
    design: Design,
    *,
    device: str = "cpu",
    pooled: NDArray | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> dict[str, NDArray]:
    """A cell's numbers; where a design asks for costs, runs go on for longer: distances matter to many digits.

    Parameters
    ----------
    pooled : (R, K, f), the whole sample's psi, which distances are taken to

    Returns
    -------
    ``rounds`` (L,), ``mse`` and ``distance`` (L, R), ``bytes`` (L,), ``collapsed`` (R,); for the whole sample also
    ``psi`` (R, K, f), ``se_f`` (R,), SE(F), and, if asked for, ``contraction`` (R, 2), L_max and EM's rate
    """
    placed = {"network": cell.network, "mixing": cell.mixing, "weighting": cell.weighting} if cell.network else {}
    R, semi, is_pooled = design.replicates, cell.method.semi, cell.method.algorithm == POOLED
    trial = Trial(cell.setting, **placed, noise=cell.noise, replicates=R, seed=design.seed, device=device)
    settings: dict[str, Any] = {
        "max_rounds": cell.rounds, "tol": FINE if design.levels else TOLERANCE,
        "marks": marks(cell.rounds, design.looks),
    }  # fmt: skip
    trace = trial.run(cell.method, **settings, pooled=pooled, watch=watch)
    if is_pooled and design.levels:  # once more, now that its end is known
        trace = trial.run(cell.method, **settings, pooled=to_psi(at(trace.theta, slice(None), 0)))
    numbers = {key: getattr(trace, key) for key in ("rounds", "mse", "distance", "bytes", "collapsed")}
    if is_pooled:
        estimates = [at(trace.theta, r, 0) for r in range(R)]
        numbers["psi"] = np.stack([to_psi(theta) for theta in estimates])
        fits = [(trial.rows_of(r, semi, "cpu"), estimates[r]) for r in range(R)]
        numbers["se_f"] = np.array([heterogeneity(*fit) for fit in fits])
        if design.contraction:
            numbers["contraction"] = np.array([contraction(*fit) for fit in fits])
    return numbers
