"""How often the sites' BIC chooses the paper's K = 3, and whether it chooses what the pooled rows' BIC chooses.

    python benchmarks/choosing_k.py --replicates 50 --out out/choosing-k.jsonl

For each data set of the paper's model (30,000 heterogeneous rows at 20 sites): the K that sites choose by sums on
which they agree; by the same criterion with every site's rows at that site's own MNEM fit, on a circle and on a
fixed-degree network; and scikit-learn's BIC of the pooled rows. Goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from gaussip import NetworkGaussianMixture
from gaussip.selection import Selection, agreed_criteria, choose_components
from gaussip.studies.simulation_model import Dataset, Setting, draw
from results import Table, report

CELLS = [(2.0, 0.0), (4.0, 0.0), (1.0, 0.0), (1.0, 0.1)]  # Delta and the labelled fraction
NETWORKS = ("circle", "fixed-degree(2)")
MOST = 5


def main() -> None:
    """Run what is missing, then report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--replicates", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--out", type=Path, default=Path("out/choosing-k.jsonl"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    known = {(line["delta"], line["labelled"], line["seed"]) for line in done}
    warnings.simplefilter("ignore")
    with threadpool_limits(1), open(given.out, "a", encoding="utf-8") as file:
        for delta, labelled in CELLS:
            for seed in range(given.first, given.first + given.replicates):
                if (delta, labelled, seed) not in known:
                    done.append(choices(delta, labelled, seed, given.rows))
                    file.write(json.dumps(done[-1]) + "\n")
                    file.flush()
    report("choosing-k", [shares_of(done)])


def choices(delta: float, labelled: float, seed: int, n_rows: int) -> dict[str, Any]:
    """The K that each criterion chooses for one data set."""
    data = draw(Setting(n_rows=n_rows, delta=delta, labelled=labelled), 10_000 + seed)
    y = data.labels if labelled else None
    selection = choose_components(data.X, y, sites=data.sites, at_most=MOST, random_state=seed)
    chosen: dict[str, Any] = {"delta": delta, "labelled": labelled, "seed": seed, "agreed": selection.n_components}
    chosen["aic"], chosen["icl"] = (selection._replace(criterion=name).n_components for name in ("aic", "icl"))
    for network in NETWORKS:
        chosen[network] = at_local_fits(data, y, selection, network)
    if not labelled:
        bic = [GaussianMixture(K, tol=1e-4, max_iter=500, random_state=seed).fit(data.X).bic(data.X)
               for K in range(1, MOST + 1)]  # fmt: skip
        chosen["pooled"] = int(np.argmin(bic)) + 1
    return chosen


def at_local_fits(data: Dataset, y: Any, selection: Selection, network: str) -> int:
    """The K of the least BIC with every site at its own MNEM fit, from the best mixture of each K that has one."""
    heights = {}
    for line, theta in ((selection.lines[place], selection.thetas[place]) for place in sorted(selection.sound)):
        mixture = NetworkGaussianMixture(
            line.n_components, algorithm="mnem", network=network, eta=0.02, max_rounds=300, tol=1e-4,
            weights_init=theta.weights, means_init=theta.means, covariances_init=theta.covariances, random_state=0,
            degenerate="keep",
        ).fit(data.X, y, sites=data.sites)  # fmt: skip
        heights[line.n_components] = agreed_criteria(mixture, data.X, y, sites=data.sites).bic
    return min(heights, key=lambda K: heights[K])


def shares_of(done: list[dict[str, Any]]) -> Table:
    """The share of data sets for which K = 3 is chosen, and for which the choice is that of the pooled rows."""
    ways, rows = ["agreed", *NETWORKS, "pooled"], []
    for delta, labelled in CELLS:
        cell = [line for line in done if (line["delta"], line["labelled"]) == (delta, labelled)]
        if not cell:
            continue
        shares = [float(np.mean([line[way] == 3 for line in cell])) if way in cell[0] else "" for way in ways]
        same = [
            float(np.mean([line[way] == line["pooled"] for line in cell])) for way in ways[:-1] if "pooled" in cell[0]
        ]
        rows.append([delta, labelled, len(cell), *shares, ", ".join(f"{share:.2f}" for share in same)])
    columns = ["Delta", "labelled", "data sets", *(f"K = 3, {way}" for way in ways), "same as pooled"]
    return Table("Choices of K", "Shares of the data sets.", columns, rows)


if __name__ == "__main__":
    main()
