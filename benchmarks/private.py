"""What differential privacy costs: mean squared error over that of pooled EM without noise, and coverage.

    python benchmarks/private.py               # 20 data sets, some ten minutes on one core; --sets 3 for a look

The paper's model, Delta = 2, 6 features within [-10, 14], 3 components, delta 1e-6, one colluding site. Beside it:
every site adds all the noise itself; and DP-EM as published (Park et al. 2017), with today's tighter accounting and
from the truth: rows cut to a ball about the middle of the bounds that holds nearly all, moments that are not centred,
the last iterate.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from gaussip import NetworkGaussianMixture
from gaussip.arrays import NDArray
from gaussip.errors import GaussipError
from gaussip.mixture.density import responsibilities
from gaussip.mixture.theta import Theta, align, pack
from gaussip.privacy.accounting import mu_of
from gaussip.studies.simulation_model import Dataset, Setting, draw
from results import Table, report

BOUNDS, DELTA = (-10.0, 14.0), 1e-6
EPSILONS = (1, 2, 4, 8)
ROUNDS, BALL, NARROWEST = 10, 10.0, 0.05  # of the published method: iterations, radius, least variance
SETTINGS = {
    "30,000 rows, 20 sites, 10% labelled": Setting(labelled=0.1),
    "30,000 rows, 20 sites, no labels": Setting(),
    "8,000 rows, 8 sites, 10% labelled": Setting(n_rows=8_000, n_sites=8, labelled=0.1),
    "8,000 rows, 8 sites, no labels": Setting(n_rows=8_000, n_sites=8),
}


def error(theta: Theta, truth: Theta) -> float:
    """The paper's MSE."""
    return float(((pack(align(theta, truth)) - pack(truth)) ** 2).sum())


def labels_of(data: Dataset) -> NDArray | None:
    """Labels as an estimator takes them."""
    return None if (data.labels < 0).all() else data.labels


def pooled(data: Dataset) -> Theta:
    """EM on all rows, from the truth."""
    weights, means, covariances = data.truth
    start = {"weights_init": weights, "means_init": means, "covariances_init": covariances}
    return NetworkGaussianMixture(3, algorithm="em", tol=1e-8, **start).fit(data.X, labels_of(data))._theta()


def private(data: Dataset, epsilon: float, seed: int, colluding: int) -> NetworkGaussianMixture:
    """A private fit; with all sites but two colluding, each of the others adds all the noise."""
    privacy = {"epsilon": epsilon, "delta": DELTA, "bounds": BOUNDS, "colluding": colluding, "noise_seed": seed}
    mixture = NetworkGaussianMixture(3, random_state=0, privacy=privacy)
    return mixture.fit(data.X, labels_of(data), sites=data.sites)


def published(data: Dataset, epsilon: float, rng: np.random.Generator) -> Theta:
    """DP-EM: noise in the moments of rows within the unit ball, in each of a few rounds, from the truth."""
    p, middle = data.X.shape[1], sum(BOUNDS) / 2
    x = data.X - middle
    x = x * np.minimum(1, BALL / np.linalg.norm(x, axis=1, keepdims=True)) / BALL
    truth = data.truth
    theta = Theta(truth.weights, (truth.means - middle) / BALL, truth.covariances / BALL**2)
    deviation = np.sqrt(3 * ROUNDS) / mu_of(epsilon, DELTA)  # of each of three moments of norm one
    known = data.labels >= 0
    for _ in range(ROUNDS):
        shares, _ = responsibilities(x, theta)
        shares[known] = np.eye(3)[data.labels[known]]
        counts = np.maximum(shares.sum(axis=0) + deviation * rng.standard_normal(3), 1.0)
        means = (shares.T @ x + deviation * rng.standard_normal((3, p))) / counts[:, None]
        squares = np.einsum("nk,ni,nj->kij", shares, x, x)
        noise = np.triu(rng.standard_normal((3, p, p)))
        squares += deviation * (noise + np.triu(noise, 1).swapaxes(-1, -2)) / np.where(np.eye(p), 1, np.sqrt(2))
        covariances = squares / counts[:, None, None] - means[:, :, None] * means[:, None, :]
        variances, axes = np.linalg.eigh(covariances)
        covariances = (axes * np.maximum(variances, NARROWEST / BALL**2)[:, None, :]) @ axes.swapaxes(-1, -2)
        theta = Theta(counts / counts.sum(), means, covariances)
    return Theta(theta.weights, theta.means * BALL + middle, theta.covariances * BALL**2)


def covered(mixture: NetworkGaussianMixture, truth: Theta) -> float:
    """The share of 95% intervals that hold the truth."""
    known = align(truth, mixture._theta())
    low, high = mixture.uncertainty().intervals()
    return float(((pack(low) <= pack(known)) & (pack(known) <= pack(high))).mean())


def line(setting: Setting, epsilon: float, sets: int) -> list[Any]:
    """The ratios of one setting: the private fit, noise at each site, and the published method; coverage."""
    sums, coverage, failed = np.zeros(4), [], np.zeros(2, dtype=int)
    local_best = 0.0
    for seed in range(sets):
        data = draw(setting, seed)
        best = error(pooled(data), data.truth)
        mixture = private(data, epsilon, seed, 1)
        coverage.append(covered(mixture, data.truth))
        sums += [error(mixture._theta(), data.truth), 0.0, 0.0, best]
        try:
            sums[1] += error(private(data, epsilon, seed, setting.n_sites - 2)._theta(), data.truth)
            local_best += best
        except GaussipError:
            failed[0] += 1
        sums[2] += error(published(data, epsilon, np.random.default_rng(seed)), data.truth)
    local = sums[1] / local_best if local_best else "refused"
    return [epsilon, sums[0] / sums[3], np.mean(coverage), local, int(failed[0]), sums[2] / sums[3]]


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=20)
    sets = parser.parse_args().sets
    lines = []
    for name, setting in SETTINGS.items():
        for epsilon in EPSILONS if setting.n_rows > 10_000 else (4, 8):
            lines.append([name, *line(setting, epsilon, sets)])
            print(*lines[-1], file=sys.stderr, flush=True)
    columns = ["", "epsilon", "private", "covered", "noise at each site", "of which refused", "DP-EM as published"]
    about = f"{sets} data sets; MSE over that of pooled EM without noise, and the share of 95% intervals that cover."
    report("private", [Table("The cost of privacy", about, columns, lines)])


if __name__ == "__main__":
    main()
