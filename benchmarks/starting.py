"""How often a start that knows nothing leads to the pooled optimum: the sites' starts against scikit-learn's default.

    python benchmarks/starting.py --seeds 100 --out out/starting.jsonl

The optimum is the highest log-likelihood of pooled EM from the truth and of all fits of the seed; a fit has reached
it if it is within 1e-6 a row. Sites fit by exact on a ring, from "search" and from "kmeans"; scikit-learn fits the
pooled rows from its default start. Goes on where it was interrupted.
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
from gaussip.arrays import NDArray
from gaussip.mixture.theta import Theta
from gaussip.studies.simulation_model import Setting, draw
from results import Table, report

NEAR = 1e-6  # of the mean log-likelihood


def paper(seed: int, delta: float, n_rows: int) -> tuple[NDArray, NDArray, Theta]:
    """The paper's model: heterogeneous rows at 20 sites."""
    data = draw(Setting(n_rows=n_rows, delta=delta), 20_000 + seed)
    return data.X, data.sites, data.truth


def groups(seed: int) -> tuple[NDArray, NDArray, Theta]:
    """Ten groups of different shape in the plane, 3000 rows, dealt to ten sites along a slanted line."""
    rng = np.random.default_rng(30_000 + seed)
    means = rng.uniform(-8, 8, size=(10, 2))
    factors = rng.normal(size=(10, 2, 2)) * 0.6 + 0.5 * np.eye(2)
    weights = rng.dirichlet(np.full(10, 5.0))
    member = rng.choice(10, size=3000, p=weights)
    X = means[member] + np.einsum("nij,nj->ni", factors[member], rng.normal(size=(3000, 2)))
    along = X @ rng.normal(size=2) + 3 * rng.normal(size=3000)
    sites = np.argsort(np.argsort(along)) // 300
    return X, sites, Theta(weights, means, factors @ factors.swapaxes(-1, -2) + 1e-3 * np.eye(2))


def heights_of(kind: str, seed: int, n_rows: int) -> dict[str, Any]:
    """The mean log-likelihoods that each way ends with."""
    X, sites, truth = groups(seed) if kind == "groups" else paper(seed, float(kind), n_rows)
    K = len(truth.weights)
    settings: dict[str, Any] = {"max_rounds": 20_000, "tol": 1e-7, "random_state": seed}
    heights = {}
    for start in ("search", "kmeans"):
        heights[start] = NetworkGaussianMixture(K, init_params=start, **settings).fit(X, sites=sites).score(X)
    em = NetworkGaussianMixture(
        K, algorithm="em", weights_init=truth.weights, means_init=truth.means, covariances_init=truth.covariances,
        **settings,
    )  # fmt: skip
    heights["truth"] = em.fit(X, sites=sites).score(X)
    pooled = GaussianMixture(K, max_iter=20_000, tol=1e-9, random_state=seed)
    heights["scikit-learn"] = pooled.fit(X).score(X)
    return {"kind": kind, "seed": seed, **{name: float(height) for name, height in heights.items()}}


def main() -> None:
    """Run what is missing, then report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--kinds", nargs="+", default=["2", "4", "groups"], help="Delta, or groups")
    parser.add_argument("--out", type=Path, default=Path("out/starting.jsonl"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    known = {(line["kind"], line["seed"]) for line in done}
    warnings.simplefilter("ignore")
    with threadpool_limits(1), open(given.out, "a", encoding="utf-8") as file:
        for kind in given.kinds:
            for seed in range(given.seeds):
                if (kind, seed) not in known:
                    done.append(heights_of(kind, seed, given.rows))
                    file.write(json.dumps(done[-1]) + "\n")
                    file.flush()
    ways, rows = ("search", "kmeans", "scikit-learn"), []
    for kind in given.kinds:
        seeds = [line for line in done if line["kind"] == kind]
        tops = np.array([max(line[name] for name in (*ways, "truth")) for line in seeds])
        shares = [float(np.mean(np.array([line[way] for line in seeds]) > tops - NEAR)) for way in ways]
        rows.append(["ten groups" if kind == "groups" else f"Delta {kind}", len(seeds), *shares])
    columns = ["data", "seeds", *(f"{way} reaches it" for way in ways)]
    report("starting", [Table("Starts that reach the pooled optimum", "Shares of the seeds.", columns, rows)])


if __name__ == "__main__":
    main()
