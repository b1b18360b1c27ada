"""Exchanges and bytes to the pooled estimate: masked sums beside exact gossip, mnem, flooding and a plain tree.

    python benchmarks/exact.py [--seeds 20]

The paper's model, N = 30,000, 20 sites, sorted data, starting means off by 0.3. The distance is M^(-1/2) times the
norm of the sites' psi minus the pooled psi, whose EM is iterated until it moves by less than 1e-12. All exchanges
count: masked's keys, exact's survey. Flooding and a plain tree send every site's moments, unmasked, for each of EM's
own iterations; what they cost follows from the network.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms import make
from gaussip.arrays import NDArray
from gaussip.errors import PooledTargetWarning
from gaussip.exchange.plan import Network
from gaussip.mixture.theta import to_psi, width
from gaussip.rows.rows import Rows
from gaussip.simulation.history import Progress
from gaussip.simulation.run import simulate
from gaussip.studies.comparison import Trial
from gaussip.studies.simulation_model import Setting
from results import Table, report

ROWS: list[tuple[str, str, dict[str, Any], int | None]] = [
    ("complete", "complete", {}, 20),
    ("4-regular", "random-regular(4)", {}, 55),
    ("star", "star", {}, 40),
    ("ring", "ring", {}, 150),
    ("4-regular, Delta=1, r=.1", "random-regular(4)", {"delta": 1.0, "labelled": 0.1}, 90),
    ("4-regular, sizes 100:1", "random-regular(4)", {"size_ratio": 100.0}, None),
    ("ring, sizes 100:1", "ring", {"size_ratio": 100.0}, None),
    ("one-way circle", "circle", {}, None),
    ("fixed-degree(3)", "fixed-degree(3)", {}, None),
]
ARRIVED = 1e-6
MNEM_ROUNDS = 3000
ONE_WAY = ("circle", "fixed-degree(3)")


class Arrival(NamedTuple):
    """When a run first was within 1e-6 of the pooled estimate; infinite where it never was."""

    exchanges: float
    bytes: float
    distance: float  #: at the end
    sent: float  #: until the end


def arrival(name: str, trial: Trial, rows: Rows, seed: int, pooled: NDArray, most: int, eta: float = 0.01) -> Arrival:
    """Of one algorithm on one data set."""
    first: list[tuple[int, int]] = []
    last = [np.inf, 0.0]

    def watch(now: Progress) -> None:
        apart = np.sum((to_psi(now.theta) - pooled) ** 2, axis=(-2, -1))
        last[:] = [float(np.sqrt(apart.mean())), now.bytes]
        if last[0] < ARRIVED and not first:
            first.append((now.exchanges, now.bytes))

    tol = 0.0 if name == "mnem" else 1e-9
    simulate(make(name, eta), trial.begins[seed], rows, trial.W, max_rounds=most, tol=tol, watch=watch)
    exchanges, sent = first[0] if first else (np.inf, np.inf)
    return Arrival(exchanges, sent, last[0], last[1])


def unmasked(network: Network, n_iterations: int, setting: Setting) -> tuple[float, float]:
    """Megabytes of flooding, and of a tree, for so many of EM's iterations."""
    vector, M = 8 * setting.n_components * width(setting.n_features), network.n_sites
    return n_iterations * M * (M - 1) * vector / 1e6, n_iterations * 2 * (M - 1) * vector / 1e6


def iterations(trial: Trial, rows: Rows, seed: int, pooled: NDArray) -> int:
    """Of plain EM, until it arrives."""
    near: list[int] = []

    def watch(now: Progress) -> None:
        if not near and np.linalg.norm(to_psi(now.theta)[0] - pooled) < ARRIVED:
            near.append(now.round)

    simulate(
        make("em", 1.0, accelerate=False), trial.begins[seed], rows, trial.W, max_rounds=5000, tol=1e-11, watch=watch
    )
    return near[0]


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="data sets")
    seeds = parser.parse_args().seeds
    lines = []
    for name, network, changes, goal in ROWS:
        setting = Setting(**changes)
        warnings.simplefilter("ignore", PooledTargetWarning)  # mnem on a network that counts sites unequally
        trial = Trial(setting, network=network, noise=0.3, replicates=seeds, seed=1)
        links = Network(trial.W)
        found: dict[str, list[Arrival]] = {"masked": [], "exact": [], "mnem": []}
        plain = []
        for seed in range(seeds):
            rows = trial.rows_of(seed, changes.get("labelled", 0.0) > 0, "cpu")
            end = simulate(make("em", 1.0), trial.begins[seed], rows, trial.W, max_rounds=5000, tol=1e-12)
            pooled = to_psi(end.theta)[0]
            found["masked"].append(arrival("masked", trial, rows, seed, pooled, 400))
            plain.append(iterations(trial, rows, seed, pooled))
            if network not in ONE_WAY:
                found["exact"].append(arrival("exact", trial, rows, seed, pooled, 4000))
            if seed < 3:
                found["mnem"].append(arrival("mnem", trial, rows, seed, pooled, MNEM_ROUNDS))
        masked, exact, mnem = (np.array(found[key]).reshape(-1, 4) for key in found)
        flooded, tree = unmasked(links, int(np.median(plain)), setting)
        lines.append([
            name, links.plan(3 * width(setting.n_features) + 4).kind, goal or "",
            float(np.median(masked[:, 0])), float(masked[:, 0].max()), _median(exact[:, 0]),
            _median(masked[:, 1]) / 1e6, _median(exact[:, 1]) / 1e6, flooded, tree,
            float(np.median(mnem[:, 2])), float(np.median(mnem[:, 3])) / 1e6,
        ])  # fmt: skip
        print(lines[-1], file=sys.stderr, flush=True)
    columns = [
        "setting", "plan", "goal", "masked, median", "masked, worst", "exact, median", "masked, MB", "exact, MB",
        "flooding, MB", "tree, MB", "mnem's distance", "mnem, MB",
    ]  # fmt: skip
    note = (
        f"{seeds} data sets: exchanges until the distance is {ARRIVED:g}, and megabytes over the whole network until "
        f"then; mnem's are of {MNEM_ROUNDS} rounds, after which it is so far away. Exact needs a two-way network."
    )
    report("exact", [Table("Exchanges to the pooled estimate", note, columns, lines)])


def _median(values: NDArray) -> float:
    return float(np.median(values)) if values.size else float("nan")


if __name__ == "__main__":
    main()
