"""Seconds and memory of simulations over very many sites, one process after the other.

    python benchmarks/many.py                     # 10,000 sites: masked, mnem, exact's refusal; 100,000: masked
    python benchmarks/many.py --device cuda

The paper's model with 100 rows at each site, sorted over the sites, on a random 4-regular network. Masked runs until
it converges, mnem for a hundred rounds.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from gaussip.algorithms import make
from gaussip.errors import GaussipError
from gaussip.simulation.run import simulate
from gaussip.studies.comparison import Trial
from gaussip.studies.simulation_model import Setting
from results import Table, report

CASES = (("masked", 10_000), ("mnem", 10_000), ("exact", 10_000), ("masked", 100_000))
FEW = 20  # sites
ROWS, ROUNDS = 100, {"masked": 1000, "mnem": 100, "exact": 100}


def measured(name: str, n_sites: int, device: str) -> dict[str, Any]:
    """One run, in this process, after one of a few sites, which compiles."""
    if n_sites > FEW:
        measured(name, FEW, device)
    trial = Trial(Setting(n_rows=ROWS * n_sites, n_sites=n_sites), network="random-regular(4)", noise=0.3, seed=1)
    rows, start = trial.rows_of(0, False, device), trial.begins[0]
    if device == "cuda":
        from gaussip.mixture.theta import place

        start = place(start, device)
    held = peak()
    began = time.perf_counter()
    try:
        run = simulate(make(name, 0.1), start, rows, trial.W, max_rounds=ROUNDS[name], tol=1e-6)
    except GaussipError as error:
        return {"refused": str(error)}
    seconds = time.perf_counter() - began
    found: dict[str, Any] = {"rounds": run.n_rounds, "seconds": seconds, "before": held, "peak": peak()}
    if device == "cuda":
        import torch

        found["card"] = torch.cuda.max_memory_allocated() / 1e9
    return found | {"converged": float(np.all(run.converged))}


def peak() -> float:
    """GB that this process has held at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one[0], int(given.one[1]), given.device)))
        return
    lines, refusals = [], []
    for name, n_sites in CASES:
        command = [sys.executable, __file__, "--device", given.device, "--one", name, str(n_sites)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(name, n_sites, found, file=sys.stderr, flush=True)
        if "refused" in found:
            refusals.append(f"{name}, {n_sites:,} sites: {found['refused']}")
            continue
        each = 1e3 * found["seconds"] / found["rounds"]
        line = [name, n_sites, found["rounds"], found["seconds"], each, found["before"], found["peak"]]
        lines.append([*line, found.get("card", "")])
    columns = [
        "algorithm", "sites", "rounds", "seconds", "ms a round", "GB with rows and network", "GB at most",
        "GB on the card",
    ]  # fmt: skip
    about = f"{ROWS} rows at each site, p = 6, K = 3, random 4-regular network, {given.device}."
    report(f"many-{given.device}", [Table("Many sites", " ".join([about, *refusals]), columns, lines)])


if __name__ == "__main__":
    main()
