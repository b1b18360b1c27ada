"""Rounds that exact network EM needs to the pooled estimate, the survey of the network included; default settings.

    python benchmarks/exact.py [--seeds 20]

The paper's model, N = 30,000, 20 sites, sorted data, starting means off by 0.3. The distance is M^(-1/2) times the
norm of the sites' psi minus the pooled psi; pooled EM is iterated until it moves by less than 1e-12.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from gaussip.mixture.theta import Theta, to_psi
from gaussip.studies.comparison import Trial
from gaussip.studies.methods import Method
from gaussip.studies.simulation_model import Setting
from results import Table, report

ROWS: list[tuple[str, str, dict[str, Any], int | None]] = [
    ("complete", "complete", {}, 100),
    ("4-regular", "random-regular(4)", {}, 200),
    ("ring", "ring", {}, 600),
    ("star", "star", {}, 900),
    ("4-regular, Delta=1, r=.1", "random-regular(4)", {"delta": 1.0, "labelled": 0.1}, 1000),
    ("complete, sizes 100:1", "complete", {"size_ratio": 100.0}, None),
    ("4-regular, sizes 100:1", "random-regular(4)", {"size_ratio": 100.0}, None),
    ("ring, sizes 100:1", "ring", {"size_ratio": 100.0}, None),
    ("star, sizes 100:1", "star", {"size_ratio": 100.0}, None),
]


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=20, help="data sets")
    seeds = parser.parse_args().seeds
    rows = []
    for name, network, changes, goal in ROWS:
        trial = Trial(Setting(**changes), network=network, noise=0.3, replicates=seeds, seed=1)
        semi = changes.get("labelled", 0.0) > 0
        pooled = trial.run(Method("em", 1.0, semi), max_rounds=20_000, tol=1e-12)
        psi = to_psi(Theta(*(part[:, 0] for part in pooled.theta)))
        run = trial.run(Method("exact", 1.0, semi), max_rounds=4000, tol=1e-9, marks=range(1, 4000), pooled=psi)
        near = run.distance < 1e-6
        first = run.rounds[np.argmax(near, axis=0)]
        still = np.ptp(run.mse, axis=0)
        moved = np.array([np.flatnonzero(np.diff(run.mse[:, r]))[-1] + 1 for r in range(seeds)])
        lost = int((~near.any(axis=0) | (run.collapsed > 0) | ~np.isfinite(still)).sum())
        rows.append([name, goal or "", float(np.median(first)), int(first.max()), float(np.median(moved)), lost])
        print(rows[-1], file=sys.stderr, flush=True)
    columns = ["setting", "goal", "median to 1e-6", "worst", "stopped by itself, median", "diverged"]
    report("exact", [Table("Rounds to the pooled estimate", f"{seeds} data sets.", columns, rows)])


if __name__ == "__main__":
    main()
