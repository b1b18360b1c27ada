"""Groups of rows by k-means (Lloyd's iterations) on all sites' rows, by sums.

Centres are drawn from what all know, the mean and variances of all rows, and every iteration takes two sums: how many
rows each group has, and then the sums of those groups that have enough. So nobody learns the mean of fewer rows than
min_count. A row's group is found by the hot function, at a mixture of narrow components.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray, slices
from gaussip.errors import StartError, Text
from gaussip.exchange.questions import Ask, Replicated
from gaussip.mixture.theta import Theta, unvech, vech, width
from gaussip.rows.cells import together
from gaussip.rows.checks import CHECK_ROWS, ROUNDED
from gaussip.rows.held import Held
from gaussip.starts.facts import PRECISE, Facts, asked_for, refuse_impossible, spread_out

SEEDS = 10  # runs side by side, each from centres of its own
MOST = 15  # iterations
LONGEST = 60  # iterations until some run's groups all have enough rows
CLOSER = (
    0.2  # how much closer new centres then are to the largest group: with many features, few rows are near others
)
WORTH = 0.01  # of the squared distances: an iteration that gains less is the last
ALIKE = 1e-9  # of the squared distances per row: runs that end this close have the same groups
NARROW = 1e-4  # variance of a component, in standard units: a row belongs to the nearest


class Groups(NamedTuple):
    """Groups of all sites' rows, in standard units."""

    counts: NDArray  #: (K,)
    means: NDArray  #: (K, p)
    scatters: NDArray  #: (K, p, p), sums of squares and products about the group's mean


class _Sums(NamedTuple):
    """The sums of each site's rows by their nearest centres, over the number of rows, in standard units."""

    moments: NDArray  #: (M, R, K, f); missing cells count as if they lay at the centre
    seen: NDArray  #: (M, R, K, p), in how many rows a feature is observed
    apart: NDArray  #: (M, R), squared distances


class _Passes:
    """The sums of each site's rows, for several runs; kept for a second question."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._centres: NDArray | None = None
        self._found: _Sums | None = None

    def at(self, centres: NDArray, held: Held) -> _Sums:
        """At the centres (R, K, p)."""
        if self._centres is not centres or self._found is None:
            self._found, self._centres = self._pass(centres, held), centres
        return self._found

    def _pass(self, centres: NDArray, held: Held) -> _Sums:
        unit, rows = self._facts.unit, float(self._facts.rows)
        K, p = centres.shape[1:]
        covariances = np.broadcast_to(NARROW * np.diag(unit.spread**2), (K, p, p))
        constant = np.log(K) + p / 2 * np.log(2 * np.pi * NARROW) + unit.log_volume
        of_cell = 0.5 * np.log(2 * np.pi * NARROW) + np.log(unit.spread)
        moments, seen, apart = [], [], []
        for one in centres:
            theta = Theta(np.full(K, 1 / K), one * unit.spread + unit.location, covariances)
            found = held.plain_moments(theta)
            sums = unit.standard(found.sums) / rows
            heights = found.log_likelihood + found.mass * constant
            here = np.repeat(sums[..., :1], p, axis=-1)
            if found.observed is not None:
                here = found.observed / rows
                left = sums[..., :1] - here  # missing cells were filled in: each at the centre, of variance NARROW
                sums[..., 1 + p :] -= NARROW * vech(left[..., None] * np.eye(p))
                heights = heights - ((found.mass[:, None] - held.seen) * of_cell).sum(axis=1)
            moments.append(sums)
            seen.append(here)
            apart.append(-2 * NARROW * heights / rows)
        return _Sums(*(np.stack(parts, axis=1) for parts in (moments, seen, apart)))


def ask_groups(facts: Facts, n_groups: int, seed: int, min_count: int, best: bool = True) -> Replicated[list[Groups]]:
    """The groups of the best run, or those of all runs, each where all its groups had enough rows."""
    passes, rows, p = _Passes(facts), float(facts.rows), len(facts.mean)
    draws = [np.random.default_rng([seed, run]) for run in range(SEEDS if n_groups > 1 else 1)]
    centres = np.stack([_drawn(rng, (n_groups, p)) for rng in draws])
    reached = centres.copy()  # by each run, the best so far; infinitely far before all groups have enough rows
    apart_there = np.full(len(draws), np.inf)
    for iteration in range(LONGEST):
        here, shape = centres, centres.shape[:2]

        def counted(held: Held, here: NDArray = here) -> NDArray:
            sums, seen, apart = passes.at(here, held)
            counts = [sums[..., 0], *([seen] if facts.incomplete else []), apart]
            return np.concatenate([part.reshape(len(apart), -1) for part in counts], axis=1)

        about = np.ascontiguousarray(here, dtype="<f8").tobytes()
        total = yield Ask(counted, PRECISE, about)
        counts, seen, apart = np.split(rows * total, [shape[0] * shape[1], len(total) - len(draws)])
        counts, apart = counts.reshape(shape), total[-len(draws) :]
        seen = seen.reshape(centres.shape) if facts.incomplete else counts[..., None]
        refuse_impossible(
            np.abs(counts.sum(axis=1) - rows) < ROUNDED * rows, "groups hold more or fewer rows than all"
        )
        asked = asked_for(seen, min_count)
        better, before = asked.all(axis=1) & (apart < apart_there), apart_there.min()
        reached[better], apart_there[better] = centres[better], apart[better]
        last = MOST if np.isfinite(apart_there).any() else LONGEST
        if apart_there.min() > (1 - WORTH) * before or iteration >= last - 1:
            break

        def summed(held: Held, here: NDArray = here, asked: NDArray = asked) -> NDArray:
            sums, there, _ = passes.at(here, held)
            first = sums[..., 1 : 1 + p]
            if facts.incomplete:  # without the cells that were filled in
                first = first - (sums[..., :1] - there) * here
            return np.asarray(np.where(asked[..., None], first, 0.0).reshape(len(sums), -1))

        total = (yield Ask(summed, PRECISE, about)).reshape(centres.shape)
        centres = total / np.where(asked[..., None], seen / rows, 1.0)
        for run, k in np.argwhere(~asked).tolist():  # next to the largest group
            apart_each = (1 if iteration < MOST else CLOSER) * np.sqrt(max(float(apart[run]), 0.0) / p)
            centres[run, k] = centres[run, int(counts[run].argmax())] + apart_each * _drawn(draws[run], (p,))
    found = np.isfinite(apart_there)
    if not found.any():
        raise StartError(
            f"k-means found no {n_groups} groups of at least {min_count} rows each in the rows of all sites, too few "
            f"to start {n_groups} components",
            setting="init_params",
            remedy=Text("use {init_params:'labels'}, or give {means_init, weights_init and covariances_init}"),
        )
    if best:  # of runs that ended alike the first, whatever the last digits, which depend on who has which rows
        found = np.flatnonzero(apart_there <= apart_there.min() + ALIKE)[:1]
    return (yield from _groups(passes, reached[found], facts, min_count))


def _drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray:
    """Normal numbers, rounded: their last digits depend on the machine."""
    return rng.standard_normal(shape).round(9)


def _whole(centres: NDArray, facts: Facts, min_count: int) -> Replicated[NDArray]:
    """Which groups (R, K) have products that may be known: with enough rows, or none, that have both features."""
    unit, shape = facts.unit, centres.shape[:2]

    def counted(held: Held) -> NDArray:
        return np.stack([
            [_pairs(unit.standard_rows(x), one, None if held.weights is None else held.weights[m]) for one in centres]
            for m, x in enumerate(held.values)
        ]).reshape(len(held.values), -1) / float(facts.rows)  # fmt: skip

    total = yield Ask(counted, PRECISE, np.ascontiguousarray(centres, dtype="<f8").tobytes())
    return asked_for(float(facts.rows) * total.reshape(*shape, -1), min_count, none_too=True)


def _pairs(z: NDArray, centres: NDArray, weights: NDArray | None) -> NDArray:
    """The rows next to each centre that have both features, (K, p (p + 1) / 2)."""
    K, p = centres.shape
    counts = np.zeros((K, p, p))
    for rows in slices(len(z), CHECK_ROWS):
        apart = np.nan_to_num(z[rows, None, :] - centres) ** 2
        nearest = apart.sum(axis=-1).argmin(axis=1)
        for k in range(K):
            mine = nearest == k
            counts[k] += together(z[rows][mine], None if weights is None else weights[rows][mine])
    return np.asarray(vech(counts))


def _groups(passes: _Passes, centres: NDArray, facts: Facts, min_count: int) -> Replicated[list[Groups]]:
    """The groups about the centres of some runs, with their squares and products.

    Where cells are missing and too few rows of a group have two features, it has no products of any two.
    """
    p, rows = centres.shape[-1], float(facts.rows)
    size = centres.shape[0] * centres.shape[1] * width(p)
    whole = (yield from _whole(centres, facts, min_count)) if facts.incomplete else None

    def summed(held: Held) -> NDArray:
        sums, seen, _ = passes.at(centres, held)
        if whole is not None:
            products = unvech(sums[..., 1 + p :]) * (whole[:, :, None, None] | np.eye(p, dtype=bool))
            sums = np.concatenate([sums[..., : 1 + p], vech(products)], axis=-1)
        parts = [sums, seen] if facts.incomplete else [sums]
        return np.concatenate([part.reshape(len(sums), -1) for part in parts], axis=1)

    total = yield Ask(summed, PRECISE)
    groups = []
    for number, (sums, about) in enumerate(
        zip(total[:size].reshape(*centres.shape[:2], width(p)), centres, strict=True)
    ):
        share = sums[:, 0]
        means, scatters = sums[:, 1 : 1 + p] / share[:, None], unvech(sums[:, 1 + p :])
        moved = means - about
        if facts.incomplete:  # about the centres, which are close to the means
            seen = total[size:].reshape(centres.shape)[number]
            means = about + moved * (share[:, None] / seen)
            scatters = spread_out(scatters, share, seen)
        else:
            scatters = scatters - share[:, None, None] * moved[:, :, None] * moved[:, None, :]
        groups.append(Groups(rows * share, means, rows * scatters))
    return groups
