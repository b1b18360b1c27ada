"""Which faults a diagnosis finds: runs built to have one each, and healthy runs, in which it must find nothing.

    python benchmarks/diagnosing.py [--healthy 50] [--first 0] [--seeds 5]

Healthy runs vary K = 1..4, p = 2..6, the separation Delta = 2..4, networks, algorithms, labels, sites; neighbouring
groups are at least 3 standard deviations apart (Mahalanobis) unless rows are labelled, and all runs have converged.
The thresholds were chosen with --first 1000. The second table holds what is said of numbers against what they are:
L against the map's Jacobian on the rows, rounds against a fit that goes on, MNEM's bias against pooled EM.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import exact
from gaussip.diagnosis import diagnose
from gaussip.findings import CHECKS
from gaussip.mixture.theta import to_psi
from gaussip.mixture.units import unit_of
from gaussip.rows.rows import Rows
from gaussip.studies.simulation_model import Dataset, Setting, draw, true_parameters
from gaussip.studies.theory import contraction
from results import Table, report

OVERLAPPING: dict[str, Any] = {"delta": 0.8, "n_rows": 6000}
APART = 3.0  # standard deviations between neighbouring groups of a healthy run


def fitted(data: Dataset, labels: bool = False, **settings: Any) -> NetworkGaussianMixture:
    """A fit, whatever becomes of its components, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixture = NetworkGaussianMixture(degenerate="keep", **settings)
        return mixture.fit(data.X, data.labels if labels else None, sites=data.sites)


def small(seed: int, K: int = 3, **changes: Any) -> Dataset:
    """A data set of the paper's model."""
    weights = np.arange(K, 0, -1) / (K * (K + 1) / 2)
    given: dict[str, Any] = {
        "n_rows": 2400,
        "n_sites": 8,
        "n_features": 3,
        "delta": 3.0,
        "spread": "homogeneous",
    } | changes
    return draw(Setting(weights=tuple(weights), correlations=tuple(np.linspace(0.5, -0.1, K)), **given), seed)


def healthy(seed: int) -> tuple[str, NetworkGaussianMixture]:
    """A run that nothing is wrong with, and what it is."""
    rng = np.random.default_rng([seed, 8])
    while True:
        K, p, M = (int(rng.integers(low, high)) for low, high in ((1, 5), (2, 7), (3, 21)))
        delta, labelled = float(rng.uniform(2, 4)), float(rng.choice([0.0, 0.0, 0.1, 0.3]))
        weights = rng.dirichlet(np.full(K, 10.0))
        network = str(rng.choice(["ring", "circle", "random-regular(4)", "star", "complete"]))
        algorithm = "mnem" if network == "circle" else str(rng.choice(["exact", "exact", "mnem", "em"]))
        rows = M * int(rng.integers(150, 400))
        spread = "homogeneous" if algorithm == "mnem" else str(rng.choice(["homogeneous", "heterogeneous"]))
        setting = Setting(
            n_rows=rows, n_sites=M, n_features=p, delta=delta, weights=tuple(weights / weights.sum()),
            correlations=tuple(np.linspace(0.5, -0.1, K)), spread=spread, labelled=labelled,
        )  # fmt: skip
        odd = network.startswith("random") and M < 5
        if odd or (labelled == 0 and nearest(setting) < APART) or weights.min() < 0.12:
            continue
        data = draw(setting, seed)
        settings = {
            "n_components": K, "algorithm": algorithm, "network": network, "eta": 0.02, "max_rounds": 20_000,
            "init_params": "labels" if labelled else "kmeans", "random_state": seed,
        }  # fmt: skip
        mixture = fitted(data, labels=labelled > 0, **settings)
        best = fitted(data, labels=labelled > 0, **settings, means_init=data.truth.means)
        trapped = mixture.history_["log_likelihood"][-1] < best.history_["log_likelihood"][-1] - 1e-3
        if not mixture.converged_ or trapped:  # a poor local maximum is no healthy run
            continue
        about = f"{algorithm}, {network}, {M} sites, {rows} rows, K={K}, p={p}, Delta={delta:.1f}, r={labelled:g}"
        return f"{about}, {spread}, {mixture.n_rounds_} rounds", mixture


def nearest(setting: Setting) -> float:
    """The least Mahalanobis distance of two groups, by their mean covariance."""
    theta = true_parameters(setting, np.random.default_rng(0))
    pairs = [(k, k + 1) for k in range(setting.n_components - 1)]
    gaps = [(theta.means[k] - theta.means[j], theta.covariances[[k, j]].mean(axis=0)) for k, j in pairs]
    return min((float(np.sqrt(gap @ np.linalg.solve(S, gap))) for gap, S in gaps), default=np.inf)


def too_few_rounds(seed: int) -> NetworkGaussianMixture:
    """MNEM with a quarter of the rounds it takes."""
    return fitted(small(seed), n_components=3, algorithm="mnem", max_rounds=400, eta=0.02, random_state=seed)


def large_step(seed: int) -> NetworkGaussianMixture:
    """A gradient step that jumps over the maximum."""
    return fitted(
        small(seed, K=2),
        n_components=2,
        algorithm="ngd",
        network="complete",
        eta=0.8,
        max_rounds=300,
        random_state=seed,
    )


def undone_steps(seed: int) -> NetworkGaussianMixture:
    """Exact with so few exchanges a step that sites of a star must go back."""
    apart, first = exact.APART, exact.FIRST
    exact.APART, exact.FIRST = 0.99, 0
    try:
        data = small(seed, delta=2.0, n_features=2, n_sites=12, spread="heterogeneous")
        return fitted(data, n_components=3, network="star", max_rounds=600, random_state=seed)
    finally:
        exact.APART, exact.FIRST = apart, first


def overlapping(seed: int) -> NetworkGaussianMixture:
    """Groups four fifths of a standard deviation apart in each feature."""
    data = small(seed, **OVERLAPPING)
    return fitted(data, n_components=3, max_rounds=20_000, means_init=data.truth.means, random_state=seed)


def unfair(seed: int) -> NetworkGaussianMixture:
    """A one-way network that counts some sites more."""
    return fitted(
        small(seed, spread="heterogeneous"), n_components=3, algorithm="mnem", network="fixed-degree(2)", eta=0.02,
        max_rounds=5000, random_state=seed,
    )  # fmt: skip


def repeated_rows(seed: int) -> NetworkGaussianMixture:
    """Two groups, and a value that was filled in where there was none."""
    data = small(seed, K=2)
    data.X[seed % 5 :: 40] = -9.0
    return fitted(data, n_components=3, max_rounds=5000, random_state=seed)


def hundredths(seed: int) -> NetworkGaussianMixture:
    """One site measures a feature in units of a hundredth."""
    data = small(seed, K=2)
    data.X[data.sites == 3, 1] *= 100
    return fitted(data, n_components=2 + seed % 3, max_rounds=5000, random_state=seed)


def far_out(seed: int) -> NetworkGaussianMixture:
    """Five rows with a missing decimal point."""
    data = small(seed, K=2)
    data.X[seed :: len(data.X) // 5, 2] *= 1000
    return fitted(data, n_components=3, max_rounds=5000, random_state=seed)


def twins(seed: int) -> NetworkGaussianMixture:
    """Two components that begin alike stay alike."""
    data = small(seed, K=2)
    begin = {
        "weights_init": [0.4, 0.3, 0.3], "means_init": data.truth.means[[0, 1, 1]],
        "covariances_init": data.truth.covariances[[0, 1, 1]],
    }  # fmt: skip
    return fitted(data, n_components=3, max_rounds=2000, random_state=seed, **begin)


def one_too_many(seed: int) -> NetworkGaussianMixture:
    """Three components for two groups."""
    return fitted(small(seed, K=2), n_components=3, max_rounds=3000, random_state=seed)


def other_units(seed: int) -> NetworkGaussianMixture:
    """One site measures in other units."""
    data = small(seed)
    data.X[data.sites == 3] *= 2
    return fitted(data, n_components=3, algorithm="mnem", eta=0.02, max_rounds=10_000, random_state=seed)


def slow_together(seed: int) -> NetworkGaussianMixture:
    """A well connected network, and groups that overlap."""
    data = small(seed, delta=1.0)
    return fitted(data, n_components=3, network="complete", max_rounds=120, random_state=seed)


def far_apart(seed: int) -> NetworkGaussianMixture:
    """A large step on sorted rows: MNEM's bias."""
    data = small(seed, spread="heterogeneous")
    return fitted(data, n_components=3, algorithm="mnem", eta=0.2, max_rounds=5000, random_state=seed)


FAULTS: list[tuple[str, Callable[[int], NetworkGaussianMixture]]] = [
    ("not enough rounds", too_few_rounds),
    ("step too large", large_step),
    ("step too large", undone_steps),
    ("poor separation", overlapping),
    ("unbalanced network", unfair),
    ("collapsed component", repeated_rows),
    ("far wider component", hundredths),
    ("far wider component", far_out),
    ("duplicated component", twins),
    ("too many components", one_too_many),
    ("a site pulls away", other_units),
    ("agreed but still moving", slow_together),
    ("settled apart", far_apart),
]


def findings(mixture: NetworkGaussianMixture) -> dict[str, Any]:
    """The findings by name."""
    return {finding.name: finding for finding in diagnose(mixture)}


def numbers(seed: int) -> list[tuple[str, float, float]]:
    """What a diagnosis says of numbers, and what they are."""
    data = small(seed, **OVERLAPPING)
    slow = overlapping(seed)
    evidence = findings(slow)["poor separation"].evidence
    rows = Rows.of_sites(data.by_site(data.X), None, None, 3)
    shown = [("1 - L, of the rows' map", 1 - evidence["contraction L"], 1 - contraction(rows, slow._theta()).rate)]
    labelled = small(seed, **OVERLAPPING, labelled=min(1.0, evidence["labels needed, share"]))
    again = fitted(
        labelled, labels=True, n_components=3, max_rounds=20_000, means_init=data.truth.means, random_state=seed
    )
    shown.append(("rounds with the labels asked for", evidence["rounds with them"], again.n_rounds_))
    short = too_few_rounds(seed)
    needed = findings(short)["not enough rounds"].evidence["rounds needed"]
    longer = fitted(small(seed), n_components=3, algorithm="mnem", max_rounds=20_000, eta=0.02, random_state=seed)
    shown.append(("rounds needed in all", needed, longer.n_rounds_))
    biased, rows_of = unfair(seed), small(seed, spread="heterogeneous")
    pooled = fitted(
        rows_of, n_components=3, algorithm="em", max_rounds=20_000, weights_init=biased.weights_,
        means_init=biased.means_, covariances_init=biased.covariances_,
    )  # fmt: skip
    unit = unit_of(pooled._theta())
    off = unit.standard(to_psi(biased._theta())) - unit.standard(to_psi(pooled._theta()))
    least = findings(biased)["unbalanced network"].evidence["bias at least about"]
    return [*shown, ("bias of an unbalanced network", least, float(np.linalg.norm(off)))]


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--healthy", type=int, default=50, help="healthy runs")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each fault")
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.seeds)
    wrong: dict[str, int] = {check.name: 0 for check in CHECKS}
    for seed in range(asked.first, asked.first + asked.healthy):
        what, mixture = healthy(seed)
        for name in findings(mixture):
            wrong[name] += 1
            print(f"found in a healthy run: {name} ({what}, seed {seed})", flush=True)
    faults, said = [], []
    for name, build in FAULTS:
        runs = [findings(build(seed)) for seed in seeds]
        others = sorted({other for run in runs for other in run if other != name})
        hits = sum(name in run for run in runs)
        about = (build.__doc__ or "").rstrip(".").lower()
        faults.append([name, about, f"{hits} of {len(runs)}", ", ".join(others), f"{wrong[name]} of {asked.healthy}"])
        print(faults[-1], file=sys.stderr, flush=True)
    for of_seeds in zip(*(numbers(seed) for seed in seeds), strict=True):
        values = [", ".join(f"{number[j]:.3g}" for number in of_seeds) for j in (1, 2)]
        said.append([of_seeds[0][0], *values])
    report(
        "diagnosing",
        [
            Table("Faults", "", ["finding", "fault", "found", "also found", "in healthy runs"], faults),
            Table("Numbers", "", ["number", "said", "is"], said),
        ],
    )


if __name__ == "__main__":
    main()
