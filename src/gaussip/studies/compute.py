"""The numbers of a cell of a study. Needs NumPy, SciPy, networkx and, on a GPU, PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.mixture.theta import Theta, to_psi
from gaussip.simulation.history import Progress
from gaussip.studies.cells import LOOKS, POOLED, Cell, marks
from gaussip.studies.comparison import Trial
from gaussip.studies.theory import contraction, heterogeneity

FINE = 1e-11
TOLERANCE = 1e-8  # a run in which nothing moves by more than this, in the start's units, has arrived


def compute(
    cell: Cell,
    *,
    replicates: int,
    seed: int,
    device: str = "cpu",
    pooled: NDArray | None = None,
    with_contraction: bool = False,
    looks: int = LOOKS,
    fine: bool = False,
    watch: Callable[[Progress], None] | None = None,
) -> dict[str, NDArray]:
    """A cell's numbers.

    Parameters
    ----------
    pooled : (R, K, f), the whole sample's psi, which distances are taken to
    fine : distances matter to many digits: runs go on for longer, and the whole sample's has distances too

    Returns
    -------
    ``rounds`` (L,), ``mse`` and ``distance`` (L, R), ``bytes`` (L,), ``collapsed`` (R,); for the whole sample also
    ``psi`` (R, K, f), ``se_f`` (R,), SE(F), and, if wanted, ``contraction`` (R, 2), L_max and EM's rate
    """
    placed = {"network": cell.network, "mixing": cell.mixing, "weighting": cell.weighting} if cell.network else {}
    trial = Trial(cell.setting, **placed, noise=cell.noise, replicates=replicates, seed=seed, device=device)
    settings: dict[str, Any] = {"max_rounds": cell.rounds, "tol": FINE if fine else TOLERANCE}
    settings["marks"] = marks(cell.rounds, looks)
    trace = trial.run(cell.method, **settings, pooled=pooled, watch=watch)
    if cell.method.algorithm == POOLED and fine:  # once more, now that its end is known
        trace = trial.run(cell.method, **settings, pooled=to_psi(Theta(*(part[:, 0] for part in trace.theta))))
    numbers = {"rounds": trace.rounds, "mse": trace.mse, "distance": trace.distance, "bytes": trace.bytes,
               "collapsed": trace.collapsed}  # fmt: skip
    if cell.method.algorithm == POOLED:
        estimates = [Theta(*(part[r, 0] for part in trace.theta)) for r in range(replicates)]
        numbers["psi"] = np.stack([to_psi(theta) for theta in estimates])
        rows = [trial.rows_of(r, cell.method.semi, "cpu") for r in range(replicates)]
        numbers["se_f"] = np.array([heterogeneity(*pair) for pair in zip(rows, estimates, strict=True)])
        if with_contraction:
            numbers["contraction"] = np.array([contraction(*pair) for pair in zip(rows, estimates, strict=True)])
    return numbers
