"""How many evaluations accelerated EM takes against plain EM, and whether it ends as high.

    python benchmarks/acceleration.py                   # the paper's model, 20 data sets; real data, 200 starts
    python benchmarks/acceleration.py --seeds 4 --starts 24

An evaluation is one pass over all rows. On the paper's model it counts until psi is within 1e-6 of the end; on other
data until EM's own move is at most 1e-8, from starts at random rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA

from gaussip.algorithms import make
from gaussip.arrays import NDArray
from gaussip.mixture.theta import Theta, to_psi
from gaussip.rows.rows import Rows
from gaussip.simulation.history import Progress
from gaussip.simulation.run import Run, simulate
from gaussip.studies.simulation_model import Setting, draw, paper_start
from results import Table, report

ALONE = np.ones((1, 1))
MODELS = ((2.0, 0.0), (1.0, 0.1), (1.0, 0.0))  # Delta and the labelled share
LOWER = 1e-6  # of log-likelihood a row: a worse optimum


def papers(seeds: int) -> Table:
    """The paper's model, N = 30,000, start noise .3."""
    lines = []
    for delta, labelled in MODELS:
        taken: dict[bool, list[int]] = {False: [], True: []}
        for seed in range(seeds):
            data = draw(Setting(delta=delta, labelled=labelled, n_rows=30_000), seed)
            rows = Rows.of_sites([data.X], [data.labels] if labelled else None, None, 3)
            start = paper_start(data.truth, 0.3, np.random.default_rng(seed + 100))
            end = to_psi(simulate(make("em", 1), start, rows, ALONE, max_rounds=2000, tol=1e-13).theta)
            for quick, numbers in taken.items():
                numbers.append(_until(quick, start, rows, end))
        em, accelerated = (sorted(taken[quick]) for quick in (False, True))
        lines.append([delta, labelled, np.median(em), np.median(accelerated), accelerated[-1]])
        print(lines[-1], flush=True)
    return Table(
        "Evaluations until 1e-6", f"The paper's model, 30,000 rows, start noise 0.3, {seeds} data sets.",
        ["Delta", "labelled", "EM, median", "accelerated, median", "accelerated, most"], lines,
    )  # fmt: skip


def _until(quick: bool, start: Theta, rows: Rows, end: NDArray) -> int:
    """Evaluations until psi is within 1e-6 of the end."""
    near: list[int] = []

    def watch(now: Progress) -> None:
        if np.linalg.norm(to_psi(now.theta) - end) < 1e-6:
            near.append(now.round)

    most = 40
    while not near:
        most *= 2
        simulate(make("em", 1, accelerate=quick), start, rows, ALONE, max_rounds=most, watch=watch)
    return near[0]


def data_sets() -> Iterator[tuple[str, NDArray, int]]:
    """Real data and hard cases, in standard units, and how many components are fitted."""
    rng = np.random.default_rng(0)
    digits = PCA(10, random_state=0).fit_transform(load_digits().data)
    groups = np.concatenate([rng.normal(centre, 0.6, (300, 2)) for centre in rng.uniform(-6, 6, (10, 2))])
    two = np.concatenate([rng.normal(0, 1, (600, 6)), rng.normal(1.5, 1, (400, 6))])
    for name, X, K in (
        ("iris", load_iris().data, 3),
        ("wine", load_wine().data, 3),
        ("breast cancer, 10 features", load_breast_cancer().data[:, :10], 2),
        ("digits, 10 principal components", digits, 10),
        ("ten groups in the plane", groups, 10),
        ("two groups, four components", two, 4),
    ):
        yield name, (X - X.mean(axis=0)) / X.std(axis=0), K


def real(starts: int, reg_covar: float) -> Table:
    """Both kinds of EM from the same starts at random rows."""
    lines = []
    for name, X, K in data_sets():
        rng, rows, ratios, ends = np.random.default_rng(7), Rows.of_sites([X]), [], []
        counts = []
        for _ in range(-(-starts // 6)):
            covariance = np.cov(X.T) * 0.5
            start = Theta(np.full(K, 1 / K), X[rng.choice(len(X), K, replace=False)], np.stack([covariance] * K))
            plain, quick = (_converged(accelerate, start, rows, reg_covar) for accelerate in (False, True))
            ratios.append(quick.n_rounds / plain.n_rounds)
            counts.append((plain.n_rounds, quick.n_rounds))
            ends.append(quick.history.log_likelihood[-1] - plain.history.log_likelihood[-1])
        em, accelerated = np.median(counts, axis=0)
        gains = np.array(ends)
        lines.append(
            [name, em, accelerated, np.median(ratios), len(ends), (gains < -LOWER).sum(), (gains > LOWER).sum()]
        )
        print(lines[-1], flush=True)
    total = [sum(line[j] for line in lines) for j in (4, 5, 6)]
    return Table(
        f"Evaluations on other data, reg_covar = {reg_covar:g}",
        f"From {total[0]} starts the end was lower than EM's by more than {LOWER:g} a row {total[1]} times, "
        f"and higher {total[2]} times.",
        ["data", "EM, median", "accelerated, median", "ratio, median", "starts", "lower", "higher"], lines,
    )  # fmt: skip


def _converged(accelerate: bool, start: Theta, rows: Rows, reg_covar: float) -> Run:
    algorithm = make("em", 1, accelerate=accelerate)
    return simulate(
        algorithm, start, rows, ALONE, max_rounds=20_000, tol=1e-8, reg_covar=reg_covar, record_collapse=True
    )


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--starts", type=int, default=200, help="on all data together")
    given = parser.parse_args()
    tables = [papers(given.seeds)] if given.seeds else []
    if given.starts:
        tables += [real(given.starts, reg_covar) for reg_covar in (1e-6, 1e-3)]
    report("acceleration", tables)


if __name__ == "__main__":
    main()
