"""Ways to deal rows out to sites, and to show some of their labels.

Each returns the site 0..M-1 of every row, (N,).
"""

from collections.abc import Sequence

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import SettingError
from gaussip.rows.sites import places_of_sites


def sizes(n_rows: int, n_sites: int, ratio: float = 1.0) -> NDArray:
    """Rows per site: equal, or falling geometrically with the given ratio of largest to smallest.

    >>> sizes(10, 3)
    array([4, 3, 3])
    """
    if n_sites < 1 or n_rows < n_sites:
        raise SettingError(f"{n_rows} rows cannot fill {n_sites} sites")
    wanted = np.geomspace(ratio, 1.0, n_sites)
    spare = n_rows - n_sites  # every site gets one row, the rest by share
    exact = spare * wanted / wanted.sum()
    counts = np.floor(exact).astype(int)
    largest_rest = np.argsort(counts - exact, kind="stable")[: spare - counts.sum()]
    counts[largest_rest] += 1
    return np.asarray(counts + 1)


def homogeneous(counts: NDArray, rng: np.random.Generator) -> NDArray:
    """Rows dealt at random: every site sees the same patients."""
    return rng.permutation(np.repeat(np.arange(len(counts)), counts))


def heterogeneous(classes: NDArray, counts: NDArray, rng: np.random.Generator) -> NDArray:
    """Rows sorted by class and dealt in order: most sites see one class (the paper's heterogeneous case)."""
    shuffled = rng.permutation(len(classes))
    order = shuffled[np.argsort(classes[shuffled], kind="stable")]
    sites = np.empty(len(classes), dtype=int)
    sites[order] = np.repeat(np.arange(len(counts)), counts)
    return sites


def dirichlet(classes: NDArray, counts: NDArray, concentration: float, rng: np.random.Generator) -> NDArray:
    """Label skew: each site's class proportions are a Dirichlet draw around the overall ones.

    Sites are filled to their sizes from what is left of the classes, by their proportions; small concentrations
    make sites nearly one-class, large ones homogeneous.
    """
    names, codes = np.unique(classes, return_inverse=True)
    stock = [list(rng.permutation(np.flatnonzero(codes == k))) for k in range(len(names))]
    overall = np.bincount(codes) / len(codes)
    sites = np.empty(len(classes), dtype=int)
    for m in rng.permutation(len(counts)):
        wanted = rng.dirichlet(concentration * len(names) * overall)
        for _ in range(counts[m]):
            left = np.array([len(rows) > 0 for rows in stock])
            share = np.where(left, wanted + 1e-12, 0.0)
            sites[stock[rng.choice(len(names), p=share / share.sum())].pop()] = m
    return sites


def show_labels(
    classes: NDArray, sites: NDArray, fraction: float | Sequence[float], rng: np.random.Generator
) -> NDArray:
    """Labels with a given fraction shown at each site (rounded to whole rows), -1 elsewhere."""
    places = places_of_sites(sites)
    fractions = np.broadcast_to(np.asarray(fraction, dtype=float), (len(places),))
    labels = np.full(len(classes), -1)
    for mine, r in zip(places, fractions, strict=True):
        shown = rng.permutation(mine)[: round(r * len(mine))]
        labels[shown] = classes[shown]
    return labels
