"""How the sites find rows of which there are few, and leave them out; see `gaussip.rows.rare`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms import REGISTRY
from gaussip.algorithms.base import SUMS
from gaussip.arrays import NDArray
from gaussip.errors import DataError, MissingCellsWarning
from gaussip.exchange.codes import Fixed
from gaussip.exchange.questions import Ask, Replicated, answered
from gaussip.rows.checks import ROUNDED, check_row_weights, enough
from gaussip.rows.labels import encode_labels, holds_sets, label_column
from gaussip.rows.rare import BINS, HASHES, Grouped, Rare
from gaussip.rows.sites import places_of_sites, site_of_rows
from gaussip.simulation.history import WHOLE_SAMPLE
from gaussip.starts.facts import refuse_impossible

COUNTS = Fixed(24)
FULL = 1 / 3  # of the bins: where more have rows, a few rows are hidden in all theirs by one chance in 700


def ask_rare(min_count: int) -> Replicated[Rare]:
    """Which rows to leave out; the sites hold `Grouped`."""
    total = yield Ask(lambda held: np.array([[mine.unlike] for mine in held]), COUNTS)
    refuse_impossible(total >= 0, "a negative number of them have missing cells")
    if not total[0] > 0:
        return Rare.nothing()
    bins = yield Ask(lambda held: np.stack([mine.in_bins().ravel() for mine in held]), COUNTS)
    rows = bins.reshape(HASHES, BINS)
    in_all = rows.sum(axis=1)
    sound = (rows >= 0).all() & (np.ptp(in_all) <= ROUNDED * in_all) & (in_all >= total * (1 - ROUNDED))
    refuse_impossible(sound, "they are not as many in all counts of groups")
    if (rows > ROUNDED).mean() > FULL:
        raise DataError(
            f"rows have too many different sets of missing cells (more than about {int(0.4 * BINS)}) to see which "
            "are rare: sums over a few rows with the same cells missing would reveal them",
            remedy="leave out features of which single cells are missing, or rows with missing cells",
        )
    few = (rows > ROUNDED) & ~enough(rows, min_count)
    if not few.any():
        return Rare.nothing()

    def left(held: Any) -> NDArray:
        stay = [mine.kept(few) for mine in held]
        return np.array([
            [float(((mine.counts > 0) & ~here).sum()), float(not ((mine.counts > 0) & here).any())]
            for mine, here in zip(held, stay, strict=True)
        ])  # fmt: skip

    out, emptied = yield Ask(left, COUNTS)
    refuse_impossible(np.array([out >= 0, emptied >= 0]), "a negative number of them is left out")
    if emptied > 0:
        raise DataError(
            f"{emptied:g} site{'s have' if emptied > 1 else ' has'} no row left without those with missing cells "
            f"that fewer than min_count={min_count} rows of all sites share",
            remedy="leave these sites or features out",
        )
    return Rare(few, np.asarray(out))


def about_left_out(rows: float, min_count: int) -> str:
    """What was left out, and why."""
    are = "row is" if rows == 1 else "rows are"
    return (
        f"{rows:g} {are} left out: fewer than min_count={min_count} rows of all sites have the same cells missing, "
        "or may be of the same classes, and sums would reveal them"
    )


class Kept(NamedTuple):
    """What a fit takes of what it is given."""

    X: NDArray
    y: Any
    sites: Any
    sample_weight: Any


def without_rare(
    X: NDArray,
    y: Any,
    sites: Any,
    sample_weight: Any,
    min_count: int,
    count: Callable[[int], None] = lambda words: None,
    *,
    several: bool = False,
) -> Kept:
    """Leave rows out as real sites do, all of them being in this process, and warn of them.

    Parameters
    ----------
    count : called with the words of each sum
    several : whether the rows are of several sites though none are given
    """
    codes, names = site_of_rows(sites, len(X))
    if min_count == 1 or (len(names) == 1 and not several):
        return Kept(X, y, sites, sample_weight)
    if not np.isnan(X).any() and (y is None or not holds_sets(label_column(y, len(X)))):  # as all sites would answer
        count(COUNTS.words(1))
        return Kept(X, y, sites, sample_weight)
    labels, weights = encode_labels(y, len(X), len(X)), check_row_weights(sample_weight, len(X))
    counts = np.ones(len(X)) if weights is None else weights
    counts = np.where(np.isnan(X).all(axis=1), 0.0, counts)
    places, C = places_of_sites(codes), len(labels.classes)
    held = [
        Grouped.of(X[rows], None if labels.codes is None else labels.codes[rows], labels.sets, C, counts[rows])
        for rows in places
    ]
    rare = answered(ask_rare(min_count), held, len(names), count)
    if not rare.few.any():
        return Kept(X, y, sites, sample_weight)
    warnings.warn(about_left_out(float(rare.rows), min_count), MissingCellsWarning, stacklevel=3)
    stay = np.ones(len(X), dtype=bool)
    for rows, mine in zip(places, held, strict=True):
        stay[rows] = mine.kept(rare.few)
    return Kept(
        X[stay], None if y is None else label_column(y, len(X))[stay], None if sites is None else names[codes[stay]],
        None if weights is None else weights[stay],
    )  # fmt: skip


def rows_of_fit(mixture: Any, X: NDArray, y: Any, sites: Any, sample_weight: Any) -> Kept:
    """The rows that a fitted estimator's fit took of those that it was given."""
    if mixture.origin_ == WHOLE_SAMPLE or REGISTRY[mixture.algorithm].source != SUMS:
        return Kept(X, y, sites, sample_weight)
    several = len(mixture.sites_) > 1
    return without_rare(X, y, sites, sample_weight, mixture.min_count, several=several)
