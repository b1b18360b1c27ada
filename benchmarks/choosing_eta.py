"""How good a chosen eta is: 60 settings drawn at random, none of which was looked at when the method was made.

    python benchmarks/choosing_eta.py [--settings 60] [--first 2000] [--out out/choosing-eta.jsonl]

In each, MNEM runs at the recommended eta for the predicted rounds, and at every eta of a grid until it moves no more,
30,000 rounds at most (where the recommended eta needs more, the best for 30,000 rounds is asked for). Printed are the
MSE against the truth over the best of the grid, the distance to the pooled estimate in standard errors, and predicted
and measured rounds to within a tenth of the standard error of where a run ends; the same for exact, and for two runs
with larger steps that are extrapolated. What is done is kept, and not done again. Seeds below 2000 served to design
the method.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gaussip import NetworkGaussianMixture
from gaussip.errors import CollapseError
from gaussip.mixture.theta import Theta, align, pack, to_psi, to_theta
from gaussip.step_size import Step, choose_eta
from gaussip.step_size.precision import Ruler
from gaussip.studies.simulation_model import Dataset, Setting, draw
from results import Table, report

ETAS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
NETWORKS = ("circle", "ring", "complete", "random-regular(4)", "star", "fixed-degree(3)")
SPREADS = ("homogeneous", "heterogeneous", "dirichlet")
CAP = 30_000
PAIR = 5  # times the recommended eta, for two runs that are extrapolated


def setting_of(seed: int) -> tuple[Setting, str]:
    """A setting drawn at random, and its network."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 4))
    network = str(rng.choice(NETWORKS))
    return Setting(
        n_sites=int(rng.integers(5, 21)),
        n_rows=int(rng.integers(2000, 10_001)),
        n_features=int(rng.integers(2, 7)),
        delta=float(rng.uniform(1.5, 4)),
        weights=((0.6, 0.4), (0.5, 0.3, 0.2))[K - 2],
        correlations=((0.5, 0.1), (0.5, 0.1, -0.1))[K - 2],
        spread=str(rng.choice(SPREADS)),
        labelled=round(float(rng.uniform(0, 0.3)), 2) if rng.random() < 0.5 else 0.0,
    ), network


class Case:
    """One data set, what is recommended for it, and what runs give."""

    def __init__(self, seed: int) -> None:
        self.setting, self.network = setting_of(seed)
        self.data: Dataset = draw(self.setting, seed)
        self.labels = self.data.labels if self.setting.labelled else None
        self.mixture = NetworkGaussianMixture(
            self.setting.n_components, algorithm="mnem", network=self.network, random_state=seed
        )
        asked = (self.mixture, self.data.X, self.labels)
        self.step: Step = choose_eta(*asked, sites=self.data.sites)
        if self.step.rounds > CAP:  # as a user would who has no more
            self.step = choose_eta(*asked, sites=self.data.sites, rounds=CAP)
        (trial,) = [trial for trial in self.step.trials if trial.eta == self.step.eta]
        self.predicted = math.ceil(trial.rounds)
        self.ruler = Ruler(self.step.pooled)

    def fit(self, watch: Any = None, **settings: Any) -> NetworkGaussianMixture:
        """A fit with other settings."""
        mixture = NetworkGaussianMixture(**{**self.mixture.get_params(), **settings})
        mixture._watch = watch
        return mixture.fit(self.data.X, self.labels, sites=self.data.sites)

    def mse(self, sites: Theta) -> float:
        """Of the sites' estimates, as in the paper."""
        apart = pack(align(sites, self.data.truth)) - pack(self.data.truth)
        return float((apart**2).sum(axis=(-2, -1)).mean())

    def distance(self, sites: Theta, other: Theta) -> float:
        """Root mean square over sites, in standard errors of the pooled estimate."""
        return float(np.sqrt(np.mean(self.ruler.apart(sites, other) ** 2)) / self.step.standard_error)

    def rounds_to(self, end: Theta, most: int, **settings: Any) -> tuple[float, dict[int, Theta]]:
        """The round from which on a run is within a tenth of the standard error of its end, and where it was when
        the predicted rounds were over.
        """
        seen: list[float] = []
        at: dict[int, Theta] = {}

        def watch(now: Any) -> None:
            seen.append(self.distance(now.theta, end))
            numbers.append(now.round)
            if now.round == self.step.rounds:
                at[now.round] = now.theta

        numbers: list[int] = []
        self.fit(watch, max_rounds=most, **settings)
        far = [number for number, apart in zip(numbers, seen, strict=True) if apart > 0.1]
        never = far and far[-1] == numbers[-1]
        return math.inf if never else (far[-1] if far else 0) + 1, at

    def pair(self) -> tuple[int, float, float]:
        """Rounds, MSE and distance to the pooled estimate of two runs with large steps that are extrapolated."""
        eta = min(0.5, PAIR * self.step.eta)
        settings = {"warm_start": True, "max_rounds": CAP}
        mixture = NetworkGaussianMixture(**{**self.mixture.get_params(), **settings})
        rounds, ends = 0, []
        for part in (1.0, 0.5):
            mixture.set_params(eta=part * eta, tol=part * self.step.tol)
            try:
                mixture.fit(self.data.X, self.labels, sites=self.data.sites)
            except CollapseError:
                return 0, math.inf, math.inf
            rounds += mixture.n_rounds_
            ends.append(to_psi(estimates(mixture)))
        theta = to_theta(2 * ends[1] - ends[0])
        return rounds, self.mse(theta), self.distance(theta, self.step.pooled)


def estimates(mixture: NetworkGaussianMixture) -> Theta:
    """The sites' estimates."""
    return Theta(mixture.site_weights_, mixture.site_means_, mixture.site_covariances_)


def measured(seed: int) -> dict[str, Any]:
    """All that is measured in one setting."""
    case = Case(seed)
    s, step = case.setting, case.step
    end = estimates(case.fit(eta=step.eta, tol=step.tol / 50, max_rounds=3 * CAP))
    most = min(4 * case.predicted + 100, 3 * CAP)
    rounds, at = case.rounds_to(end, most, eta=step.eta, tol=0.0)
    chosen = at[step.rounds]
    pooled = Theta(*(part[None] for part in step.pooled))
    grid, far = {}, {}
    for eta in ETAS:
        try:
            end_of_run = estimates(case.fit(eta=eta, tol=step.tol / 10, max_rounds=CAP))
            grid[eta], far[eta] = case.mse(end_of_run), case.distance(end_of_run, step.pooled)
        except CollapseError:
            grid[eta] = far[eta] = math.inf
    pair = case.pair()
    best = min(grid, key=lambda eta: grid[eta])
    return {
        "seed": seed, "network": case.network, "spread": s.spread, "K": s.n_components, "p": s.n_features,
        "delta": round(s.delta, 2), "M": s.n_sites, "N": s.n_rows, "r": s.labelled,
        "eta": step.eta, "bias": step.bias, "least_bias": step.least_bias, "rate": step.terms.rate,
        "predicted": case.predicted, "measured": rounds, "mse": case.mse(chosen),
        "away": case.distance(chosen, step.pooled), "best_eta": best, "best_mse": grid[best],
        "best_away": far[best], "pooled_mse": case.mse(pooled),
        "grid": {str(eta): value for eta, value in grid.items()},
        "pair_rounds": pair[0], "pair_mse": pair[1], "pair_away": pair[2],
    }  # fmt: skip


def table_of(settings: list[dict[str, Any]]) -> Table:
    """A line for each setting, and the shares."""
    rows = []
    for line in settings:
        name = "{network} {spread} K={K} p={p} Delta={delta} M={M} N={N} r={r:g}".format(**line)
        best = line["best_mse"]
        rows.append(
            [name, line["eta"], line["mse"] / best, line["best_eta"], line["away"], line["predicted"],
             line["measured"], line["pair_rounds"], line["pair_mse"] / best, line["exact_predicted"] or "",
             line["exact_measured"] or ""]
        )  # fmt: skip

    def over(a: str, b: str) -> Any:
        return np.array([line[a] / line[b] for line in settings if line[a] is not None and line[b]])

    ratio, paired = over("mse", "best_mse"), over("pair_mse", "best_mse")
    rounds, pairs = over("predicted", "measured"), over("pair_rounds", "measured")
    exact, two_way = over("exact_predicted", "exact_measured"), over("exact_measured", "measured")
    about = (
        f"MSE within twice the best of the grid: {(ratio <= 2).mean():.0%} of {len(settings)}, worst "
        f"{ratio.max():.2f}; rounds within twice: {(np.abs(np.log2(rounds)) <= 1).mean():.0%}, {_range(rounds)}. "
        f"Pair: MSE within twice {(paired <= 2).mean():.0%}, its rounds over those at one eta {_range(pairs)}. "
        f"exact: predicted over measured {_range(exact)}; its rounds over MNEM's {_range(two_way)}."
    )
    columns = ["setting", "eta", "MSE / best of grid", "its eta", "away, SE", "rounds predicted", "measured",
               "pair, rounds", "pair, MSE / best", "exact predicted", "measured"]  # fmt: skip
    return Table("The recommended eta", about, columns, rows)


def _range(values: Any) -> str:
    if not len(values):
        return "none"
    return "median {:.2f}, from {:.2f} to {:.2f}".format(*np.quantile(values, [0.5, 0.0, 1.0]))


def main() -> None:
    """Measure what is not yet measured, and report it all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--settings", type=int, default=60)
    parser.add_argument("--first", type=int, default=2000, help="first seed")
    parser.add_argument("--out", type=Path, default=Path("out/choosing-eta.jsonl"), help="results so far")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.settings)
    lines = options.out.read_text(encoding="utf-8").splitlines() if options.out.exists() else []
    done = {line["seed"]: line for line in map(json.loads, lines)}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds, 1):
        if seed in done:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # runs are stopped on purpose, networks unbalanced on purpose
            done[seed] = measured(seed)
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(done[seed]) + "\n")
        line = done[seed]
        print(
            f"{number}/{len(seeds)}: MSE {line['mse'] / line['best_mse']:.2f} of the best, "
            f"rounds {line['predicted']} / {line['measured']}", flush=True,
        )  # fmt: skip
    report("choosing-eta", [table_of([done[seed] for seed in seeds])])


if __name__ == "__main__":
    main()
