"""Running a study: each cell once, in any order, by one process or several."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import SettingError
from gaussip.mixture.theta import at, to_psi
from gaussip.simulation.history import Progress
from gaussip.studies.cells import POOLED, Cell, marks, matches, plain
from gaussip.studies.comparison import Trial
from gaussip.studies.folder import Folder
from gaussip.studies.parts import Design
from gaussip.studies.storage import log
from gaussip.studies.theory import contraction, heterogeneity

FINE = 1e-11
TOLERANCE = 1e-8  # a run in which nothing moves by more than this, in the start's units, has arrived


def run(
    design: Design,
    out: Path,
    *,
    where: Mapping[str, Any] | None = None,
    device: str = "cpu",
    jobs: int = 1,
    watch: Callable[[str, float], None] = lambda text, done: None,
) -> Folder:
    """Compute the cells that a folder lacks; each is written when it is done, so that a run may end at any time.

    Parameters
    ----------
    where : run only the cells with these values, and the whole sample's that they are held against
    jobs : processes that share the cells; with one, all threads work at one cell
    watch : called with what is going on and the share of the work that is done
    """
    if jobs < 1:
        raise SettingError(f"jobs must be at least 1, not {jobs}")
    for key, value in (where or {}).items():
        known = {cell.values[key] for cell in design.cells} - {""}
        if value not in known:
            there = ", ".join(sorted(map(plain, known)))
            raise SettingError(f"no cell of {design.name} has {key} = {plain(value)}; there are {there}")
    chosen = {cell for cell in design.cells if matches(cell.values, where or {})}
    if design.cells and not chosen:
        raise SettingError(f"no cell of {design.name} has {where}")
    chosen |= {cell.pooled for cell in chosen}
    folder = Folder.for_run(out, design)
    left = [cell for cell in design.cells if cell in chosen and not folder.done(cell)]
    if not left:
        return folder
    log(out, event="run", device=device, jobs=jobs, cells=len(left))
    total = sum(map(_cost, left))
    done = 0.0

    def follow(text: str, part: float) -> None:
        watch(text, (done + part) / total)

    pooled = [cell for cell in left if cell.method.algorithm == POOLED]  # first: distances are taken to these
    for wave in (pooled, [cell for cell in left if cell not in pooled]):
        for cell in _computed(folder, wave, device, jobs, follow):
            done += _cost(cell)
            follow(design.name_of(cell), 0.0)
    return folder


def _cost(cell: Cell) -> float:
    """Rows times rounds, an estimate of a cell's time; the whole sample's EM converges early."""
    rounds = min(cell.rounds, 1000) if cell.method.algorithm == POOLED else cell.rounds
    return float(rounds * cell.setting.n_rows)


def _computed(
    folder: Folder, cells: Sequence[Cell], device: str, jobs: int, watch: Callable[[str, float], None]
) -> Iterator[Cell]:
    """The cells as they are done."""
    if jobs == 1:
        for cell in cells:
            name = folder.design.name_of(cell)  # once: it takes longer than a round on a GPU

            def follow(now: Progress, cell: Cell = cell, name: str = name) -> None:
                watch(f"{name}, round {now.round}", _cost(cell) * min(1.0, now.round / cell.rounds))

            _compute(folder, cell, device, follow)
            yield cell
        return
    from joblib import Parallel, delayed

    from gaussip.kernels.cpu.threads import n_threads

    threads = str(max(1, n_threads() // jobs))
    work = (delayed(_in_worker)(folder, cell, device, threads) for cell in cells)
    yield from Parallel(n_jobs=jobs, backend="loky", return_as="generator_unordered", batch_size=1)(work)


def _in_worker(folder: Folder, cell: Cell, device: str, threads: str) -> Cell:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent ends its workers
    os.environ["GAUSSIP_THREADS"] = threads
    _compute(folder, cell, device, None)
    return cell


def _compute(folder: Folder, cell: Cell, device: str, watch: Callable[[Progress], None] | None) -> None:
    began = time.perf_counter()
    design = folder.design
    pooled: Any = None if cell.method.algorithm == POOLED else folder.read(cell.pooled)["psi"]
    folder.write(cell, compute(cell, design, device=device, pooled=pooled, watch=watch))
    log(folder.path, event="cell", cell=design.name_of(cell), seconds=round(time.perf_counter() - began, 2))


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
