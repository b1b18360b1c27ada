"""The hot function and a whole round against scikit-learn's EM iteration: one run, one table.

Times are medians; only the ratios, measured in the same run, mean anything on a shared machine. scikit-learn's
iteration is the difference between two fits of different length from the same start, so its initialisation is left
out.
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import gaussip
from gaussip.algorithms import make
from gaussip.data.generate import Setting, draw, paper_start
from gaussip.moments import moments
from gaussip.networks import mixing_weights
from gaussip.parameters import Theta
from gaussip.rows import Rows
from gaussip.simulation import simulate


class Workload(NamedTuple):
    """Rows over sites."""

    n_rows: int
    n_sites: int
    n_features: int


WORKLOADS = (
    Workload(30_000, 20, 6),  # the paper's
    Workload(30_000, 20, 2),
    Workload(30_000, 20, 12),
    Workload(30_000, 1, 6),
    Workload(300_000, 20, 6),
    Workload(15_000, 8, 50),
)


def median_ms(work: Callable[[], object], repeats: int) -> float:
    """Median time of a call in milliseconds, after one call to warm up."""
    work()
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return float(1e3 * np.median(taken))


def sklearn_iteration_ms(X: np.ndarray[Any, Any], start: Theta, repeats: int) -> float:
    """One EM iteration of scikit-learn's, without its initialisation."""
    short, long = 2, 12

    def fit(iterations: int) -> None:
        GaussianMixture(
            len(start.weights), tol=0, max_iter=iterations, reg_covar=0, weights_init=start.weights,
            means_init=start.means, precisions_init=np.linalg.inv(start.covariances),
        ).fit(X)  # fmt: skip

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return (median_ms(lambda: fit(long), repeats) - median_ms(lambda: fit(short), repeats)) / (long - short)


def measure(work: Workload) -> tuple[float, float, float]:
    """Milliseconds of scikit-learn's iteration, of the hot function, and of a whole MNEM round."""
    data = draw(Setting(n_rows=work.n_rows, n_sites=work.n_sites, n_features=work.n_features), 0)
    start = paper_start(data.truth, 0.1, np.random.default_rng(0))
    rows = Rows.of_sites(data.by_site(data.X))
    everywhere = Theta(*(np.broadcast_to(part, (work.n_sites, *part.shape)) for part in start))
    repeats = 5 if work.n_rows * work.n_features**2 > 5e6 else 15
    theirs = sklearn_iteration_ms(data.X, start, repeats)
    hot = median_ms(lambda: moments(rows, everywhere), 4 * repeats)
    W = mixing_weights("circle", range(work.n_sites))
    rounds = 20
    whole = median_ms(lambda: simulate(make("mnem", 0.01), start, rows, W, max_rounds=rounds), repeats) / rounds
    return theirs, hot, whole


def main() -> None:
    """Measure and print."""
    versions = f"gaussip {gaussip.__version__}, NumPy {np.__version__}, scikit-learn {sklearn.__version__}"
    print(f"{versions}, {platform.machine()}")
    print("K=3, float64; milliseconds, and scikit-learn's EM iteration divided by them\n")
    columns = ("N", "M", "p", "scikit-learn", "hot function", "MNEM round", "hot", "round")
    print("{:>7} {:>3} {:>3} {:>13} {:>13} {:>11} {:>8} {:>8}".format(*columns))
    for work in WORKLOADS:
        theirs, hot, whole = measure(work)
        sizes = "{:>7} {:>3} {:>3}".format(*work)
        times = f"{theirs:>13.2f} {hot:>13.2f} {whole:>11.2f}"
        print(f"{sizes} {times} {theirs / hot:>7.1f}x {theirs / whole:>7.1f}x", flush=True)


if __name__ == "__main__":
    main()
