"""What missing cells cost: one pass over rows of which a tenth of the cells is missing, and over a site without a
column, against the same rows complete."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import gpu
from gaussip.arrays import to_device
from gaussip.mixture.theta import Theta, place
from gaussip.rows.moments import moments
from gaussip.rows.rows import Rows
from machine import Contender, interleaved
from problem import Workload, everywhere, problem
from results import Table

CPU = (Workload(30_000, 20, 6, 3), Workload(300_000, 20, 6, 3), Workload(300_000, 1, 6, 3))
GPU = (Workload(300_000, 20, 6, 3), Workload(3_000_000, 20, 6, 3), Workload(3_000_000, 1, 6, 3))
SHARE = 0.1
KINDS = ("complete", "10% of cells missing", "one site lacks a column")


def rows_of(work: Workload, device: str) -> tuple[dict[str, Rows], Theta]:
    """The rows complete, with cells missing at random, and with one column missing at the first site."""
    given = problem(work)
    theta = everywhere(given)
    rng = np.random.default_rng(1)
    holes = rng.random(given.X.shape) < SHARE
    holes[holes.all(axis=1), 0] = False
    lacking = np.zeros_like(holes)
    lacking[: work.n_rows // work.n_sites, -1] = True
    made = {}
    for kind, missing in zip(KINDS, (None, holes, lacking), strict=True):
        X = given.X if missing is None else np.where(missing, np.nan, given.X)
        made[kind] = Rows.of_sites([to_device(x, device) for x in np.array_split(X, work.n_sites)])
    return made, theta if device == "cpu" else place(theta, device)


def tables(cores: int) -> list[Table]:
    """Milliseconds and ratios, on the CPU and, where there is one, on a GPU."""
    lines: list[list[Any]] = []
    for work in CPU:
        made, theta = rows_of(work, "cpu")
        contenders = {kind: Contender(partial(moments, rows, theta), cores, 3) for kind, rows in made.items()}
        lines.append(_line(f"CPU [{cores}]", work, interleaved(contenders, 9, min)))
    for work in GPU if gpu.available() else ():
        made, theta = rows_of(work, "cuda")
        taken = {kind: gpu.seconds_of(partial(moments, rows, theta)) for kind, rows in made.items()}
        lines.append(_line("GPU", work, taken))
    times, ratios = (f"{kind}, ms" for kind in KINDS), (f"{kind}, times" for kind in KINDS[1:])
    return [
        Table(
            "Missing cells",
            "One pass of the hot function. A tenth of all cells is missing at random, or the first site has no value "
            "of the last feature; times are those of complete rows.",
            ["", "N", "M", "p", "K", *times, *ratios],
            lines,
        )
    ]


def _line(where: str, work: Workload, taken: dict[str, float]) -> list[Any]:
    complete, *others = (taken[kind] for kind in KINDS)
    return [where, *work, *(1e3 * taken[kind] for kind in KINDS), *(other / complete for other in others)]
