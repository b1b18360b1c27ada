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

CELLS = [(2.0, 0.0), (4.0, 0.0), (1.0, 0.0), (1.0, 0.1)]  # Delta and the labelled fraction
NETWORKS = ("circle", "fixed-degree(2)")
MOST = 5


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--replicates", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--out", type=Path, default=Path("out/choosing-k.jsonl"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    known = {(one["delta"], one["labelled"], one["seed"]) for one in done}
    warnings.simplefilter("ignore")
    with threadpool_limits(1), open(given.out, "a", encoding="utf-8") as file:
        for delta, labelled in CELLS:
            for seed in range(given.first, given.first + given.replicates):
                if (delta, labelled, seed) not in known:
                    done.append(one_replicate(delta, labelled, seed, given.rows))
                    file.write(json.dumps(done[-1]) + "\n")
                    file.flush()
    show(done)


def one_replicate(delta: float, labelled: float, seed: int, n_rows: int) -> dict[str, Any]:
    """The K that each criterion chooses for one data set."""
    data = draw(Setting(n_rows=n_rows, delta=delta, labelled=labelled), 10_000 + seed)
    y = data.labels if labelled else None
    found = choose_components(data.X, y, sites=data.sites, at_most=MOST, random_state=seed)
    chosen: dict[str, Any] = {"delta": delta, "labelled": labelled, "seed": seed, "agreed": found.n_components}
    chosen["aic"], chosen["icl"] = (found._replace(criterion=name).n_components for name in ("aic", "icl"))
    for network in NETWORKS:
        chosen[network] = at_own_fits(data, y, found, network)
    if not labelled:
        bic = [GaussianMixture(K, tol=1e-4, max_iter=500, random_state=seed).fit(data.X).bic(data.X)
               for K in range(1, MOST + 1)]  # fmt: skip
        chosen["pooled"] = int(np.argmin(bic)) + 1
    return chosen


def at_own_fits(data: Dataset, y: Any, found: Selection, network: str) -> int:
    """The K of the least BIC with every site at its own MNEM fit, from the best mixture of each K."""
    heights = {}
    for line, theta in zip(found.lines, found.thetas, strict=True):
        mixture = NetworkGaussianMixture(
            line.n_components, algorithm="mnem", network=network, eta=0.02, max_rounds=300, tol=1e-4,
            weights_init=theta.weights, means_init=theta.means, covariances_init=theta.covariances, random_state=0,
        ).fit(data.X, y, sites=data.sites)  # fmt: skip
        heights[line.n_components] = agreed_criteria(mixture, data.X, y, sites=data.sites).bic
    return min(heights, key=lambda K: heights[K])


def show(done: list[dict[str, Any]]) -> None:
    """The shares, as a Markdown table."""
    ways = ["agreed", *NETWORKS, "pooled"]
    print("| Delta | labelled | data sets | " + " | ".join(f"K = 3, {way}" for way in ways) + " | same as pooled |")
    print("|---" * (4 + len(ways)) + "|")
    for delta, labelled in CELLS:
        some = [one for one in done if (one["delta"], one["labelled"]) == (delta, labelled)]
        if not some:
            continue
        shares = [np.mean([one.get(way, 0) == 3 for one in some]) if way in some[0] else None for way in ways]
        same = [[one[way] == one["pooled"] for one in some] for way in ways[:-1]] if "pooled" in some[0] else []
        told = ", ".join(f"{np.mean(one):.0%}" for one in same) or "-"
        cells = ["-" if share is None else f"{share:.0%}" for share in shares]
        print(f"| {delta:g} | {labelled:g} | {len(some)} | " + " | ".join(cells) + f" | {told} |")


if __name__ == "__main__":
    main()
