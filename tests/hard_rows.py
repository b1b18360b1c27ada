"""Rows and parameters on which a kernel may go wrong."""

from __future__ import annotations

import numpy as np

from gaussip.arrays import to_numpy
from gaussip.mixture.theta import Theta
from gaussip.rows.rows import Rows

SIZES = (1, 2, 7, 8, 9, 64, 257, 2100)  # no multiple of a vector or a block, and one of each
HARD = (
    "random", "offset", "tiny component", "labelled", "weighted", "labelled and weighted", "all labelled",
    "one component", "underflow", "zero weights", "many rows",
)  # fmt: skip


def hard(case: str, K: int, p: int) -> tuple[Rows, Theta]:
    """Rows of several sites of very different sizes, and a theta for each."""
    rng = np.random.default_rng(len(case) + 100 * K + p)
    sizes = (20_000, 4097) if case == "many rows" else SIZES
    S = len(sizes)
    offset = 1e4 if case == "offset" else 0.0
    values = [offset + 2 * rng.standard_normal((n, p)) for n in sizes]
    root = rng.standard_normal((S, K, p, 4 * p + 3))
    theta = Theta(
        rng.dirichlet(np.full(K, 5.0), S),
        offset + rng.standard_normal((S, K, p)),
        root @ root.swapaxes(-1, -2) / (4 * p),
    )
    labels = weights = None
    if case == "tiny component":
        theta.covariances[:, -1] *= 1e-4
        for x in values:
            x[: len(x) // 3] = theta.means[0, -1] + 1e-2 * rng.standard_normal((len(x) // 3, p))
    if case.startswith("labelled"):
        labels = [rng.integers(-1, K, n) for n in sizes]
    if case == "all labelled":
        labels = [rng.integers(0, K, n) for n in sizes]
    if case.endswith("weighted"):
        weights = [rng.uniform(0.1, 2, n) for n in sizes]
    if case == "zero weights":
        weights = [rng.integers(0, 2, n) + (np.arange(n) == 0) for n in sizes]
        weights = [v.astype(float) for v in weights]
    if case == "one component":
        theta.means[:, 1:] += 300.0
    if case == "underflow":
        for x in values:
            x[::2] += 200.0
    return Rows.of_sites(values, labels, weights, K), theta


def normwise(found: object, wanted: object) -> float:
    """The largest difference at any site, in norm, relative to the norm of what is wanted."""
    found, wanted = np.asarray(to_numpy(found), dtype=float), np.asarray(to_numpy(wanted), dtype=float)
    apart = np.linalg.norm((found - wanted).reshape(len(wanted), -1), axis=1)
    return float((apart / np.linalg.norm(wanted.reshape(len(wanted), -1), axis=1)).max())
