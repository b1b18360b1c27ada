"""How often 95% intervals cover the truth, on the paper's model, pooled and decentralised.

    python benchmarks/intervals.py [--replicates 500] [--features 6] [--rows 3000] [--sites 10] [--delta 2]
                                   [--fits em em-robust exact mnem]

Rows are sorted by class over the sites, fits started at the truth. At decentralised fits every site's own intervals
count. Errors are Monte-Carlo standard errors over data sets.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gaussip import NetworkGaussianMixture
from gaussip.arrays import NDArray
from gaussip.errors import GaussipError
from gaussip.mixture.theta import Theta, pack, upper_triangle
from gaussip.studies.simulation_model import Dataset, Setting, draw
from results import Table, report

FITS: dict[str, dict[str, Any]] = {
    "em": {"algorithm": "em", "max_rounds": 20_000},
    "em-robust": {"algorithm": "em", "max_rounds": 20_000},
    "exact": {"algorithm": "exact", "network": "ring", "max_rounds": 20_000},
    "mnem": {"algorithm": "mnem", "network": "random-regular(4)", "eta": 0.01, "max_rounds": 4000},
}


def covered(data: Dataset, settings: dict[str, Any], robust: bool) -> NDArray:
    """The share of sites whose interval covers the truth, (K, f)."""
    weights, means, covariances = data.truth
    mixture = NetworkGaussianMixture(
        len(weights),
        weights_init=weights,
        means_init=means,
        covariances_init=covariances,
        tol=1e-6,
        random_state=0,
        **settings,
    ).fit(data.X, sites=data.sites)
    uncertainty = mixture.uncertainty(data.X, sites=data.sites, robust=robust)
    truth, shares = pack(data.truth), []
    for theta in zip(mixture.site_weights_, mixture.site_means_, mixture.site_covariances_, strict=True):
        low, high = uncertainty._replace(theta=Theta(*theta)).intervals(0.95)
        shares.append((pack(low) <= truth) & (truth <= pack(high)))
    return np.asarray(np.mean(shares, axis=0))


def kinds(p: int) -> dict[str, NDArray]:
    """Which of a component's f numbers are of which kind."""
    i, j = upper_triangle(p)
    names = np.array(["weights", *["means"] * p, *np.where(i == j, "variances", "covariances")])
    return {"all": names != "", **{kind: names == kind for kind in ("weights", "means", "variances", "covariances")}}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    for name, value in (("replicates", 500), ("features", 6), ("rows", 3000), ("sites", 10)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--delta", type=float, default=2.0)
    parser.add_argument("--fits", nargs="+", choices=FITS, default=list(FITS))
    given = parser.parse_args()
    setting = Setting(n_rows=given.rows, n_sites=given.sites, n_features=given.features, delta=given.delta)
    columns = kinds(given.features)
    covering: dict[str, list[NDArray]] = {name: [] for name in given.fits}
    for seed in range(given.replicates):
        data = draw(setting, seed)
        for name in given.fits:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # MNEM has a bias, and says so
                try:
                    covering[name].append(covered(data, FITS[name], name == "em-robust"))
                except GaussipError as error:
                    print(f"{name}, data set {seed}: {error}", flush=True)
    rows = []
    for name, shares in covering.items():
        cells = []
        for chosen in columns.values():
            of_sets = 100 * np.stack(shares)[..., chosen].mean(axis=(1, 2))
            cells.append(f"{of_sets.mean():.1f} ± {of_sets.std(ddof=1) / np.sqrt(len(of_sets)):.1f}")
        rows.append([name, len(shares), *cells])
    about = f"N = {given.rows}, {given.sites} sites, p = {given.features}, Delta = {given.delta:g}, nominal 95%."
    report("intervals", [Table("Intervals that cover the truth", about, ["fit", "data sets", *columns], rows)])


if __name__ == "__main__":
    main()
