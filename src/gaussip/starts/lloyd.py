"""Groups of rows by k-means (Lloyd's iterations) on all sites' rows, by sums.

Centres are drawn from what all know, the mean and variances of all rows, and every iteration takes two sums: how many
rows each group has, and then the sums of those groups that have enough. So nobody learns the mean of fewer rows than
min_count. A row's group is found by the hot function, at a mixture of narrow components.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import StartError, Text
from gaussip.exchange.questions import Ask, Replicated
from gaussip.mixture.theta import Theta, unvech, width
from gaussip.rows.checks import ROUNDED, enough
from gaussip.rows.held import Held
from gaussip.starts.facts import PRECISE, Facts, refuse_impossible

SEEDS = 10  # runs side by side, each from centres of its own
MOST = 15  # iterations
WORTH = 0.01  # of the squared distances: an iteration that gains less is the last
ALIKE = 1e-9  # of the squared distances per row: runs that end this close have the same groups
NARROW = 1e-4  # variance of a component, in standard units: a row belongs to the nearest


class Groups(NamedTuple):
    """Groups of all sites' rows, in standard units."""

    counts: NDArray  #: (K,)
    means: NDArray  #: (K, p)
    scatters: NDArray  #: (K, p, p), sums of squares and products about the group's mean


class _Passes:
    """The sums of each site's rows by their nearest centres, for several runs; kept for a second question."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._centres: NDArray | None = None
        self._found: tuple[NDArray, NDArray] | None = None

    def at(self, centres: NDArray, held: Held) -> tuple[NDArray, NDArray]:
        """Moments (M, R, K, f) and squared distances (M, R) over the number of rows, in standard units."""
        if self._centres is not centres or self._found is None:
            self._found, self._centres = self._pass(centres, held), centres
        return self._found

    def _pass(self, centres: NDArray, held: Held) -> tuple[NDArray, NDArray]:
        unit, rows = self._facts.unit, float(self._facts.rows)
        K, p = centres.shape[1:]
        covariances = np.broadcast_to(NARROW * np.diag(unit.spread**2), (K, p, p))
        constant = np.log(K) + p / 2 * np.log(2 * np.pi * NARROW) + unit.log_volume
        sums, apart = [], []
        for one in centres:
            theta = Theta(np.full(K, 1 / K), one * unit.spread + unit.location, covariances)
            found = held.plain_moments(theta)
            sums.append(unit.standard(found.sums) / rows)
            apart.append(-2 * NARROW * (found.log_likelihood + found.mass * constant) / rows)
        return np.stack(sums, axis=1), np.stack(apart, axis=1)


def ask_groups(facts: Facts, n_groups: int, seed: int, min_count: int, best: bool = True) -> Replicated[list[Groups]]:
    """The groups of the best run, or those of all runs, each where all its groups had enough rows."""
    passes, rows, p = _Passes(facts), float(facts.rows), len(facts.mean)
    draws = [np.random.default_rng([seed, run]) for run in range(SEEDS if n_groups > 1 else 1)]
    centres = np.stack([_drawn(rng, (n_groups, p)) for rng in draws])
    reached = centres.copy()  # by each run, the best so far; infinitely far before all groups have enough rows
    apart_there = np.full(len(draws), np.inf)
    for iteration in range(MOST):
        here, shape = centres, centres.shape[:2]

        def counted(held: Held, here: NDArray = here) -> NDArray:
            sums, apart = passes.at(here, held)
            return np.concatenate([sums[..., 0].reshape(len(apart), -1), apart], axis=1)

        about = np.ascontiguousarray(here, dtype="<f8").tobytes()
        total = yield Ask(counted, PRECISE, about)
        counts, apart = rows * total[: -len(draws)].reshape(shape), total[-len(draws) :]
        refuse_impossible(
            np.abs(counts.sum(axis=1) - rows) < ROUNDED * rows, "groups hold more or fewer rows than all"
        )
        asked = _asked_for(counts, min_count)
        better, before = asked.all(axis=1) & (apart < apart_there), apart_there.min()
        reached[better], apart_there[better] = centres[better], apart[better]
        if apart_there.min() > (1 - WORTH) * before or iteration == MOST - 1:
            break

        def summed(held: Held, here: NDArray = here, asked: NDArray = asked) -> NDArray:
            sums = np.where(asked[..., None], passes.at(here, held)[0][..., 1 : 1 + p], 0.0)
            return np.asarray(sums.reshape(len(sums), -1))

        total = (yield Ask(summed, PRECISE, about)).reshape(centres.shape)
        centres = total / np.where(asked, counts / rows, 1.0)[..., None]
        for run, k in np.argwhere(~asked).tolist():  # next to the largest group
            apart_each = np.sqrt(max(float(apart[run]), 0.0) / p)
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
    return (yield from _groups(passes, reached[found], rows))


def _drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray:
    """Normal numbers, rounded: their last digits depend on the machine."""
    return rng.standard_normal(shape).round(9)


def _asked_for(counts: NDArray, min_count: int) -> NDArray:
    """The groups (R, K) of each run whose sums are asked for.

    All know the sum of all rows, so what is left of it is that of the groups left out: these must have enough rows
    together, or none.
    """
    asked = enough(counts, min_count)
    for mine, here in zip(asked, counts, strict=True):
        while mine.any() and (rest := here[~mine].sum()) > ROUNDED and not enough(rest, min_count):
            mine[np.where(mine, here, np.inf).argmin()] = False
    return np.asarray(asked)


def _groups(passes: _Passes, centres: NDArray, rows: float) -> Replicated[list[Groups]]:
    """The groups about the centres of some runs, with their squares and products."""
    p = centres.shape[-1]

    def summed(held: Held) -> NDArray:
        sums = passes.at(centres, held)[0]
        return np.asarray(sums.reshape(len(sums), -1))

    total = (yield Ask(summed, PRECISE)).reshape(*centres.shape[:2], width(p))
    groups = []
    for sums, about in zip(total, centres, strict=True):
        share = sums[:, 0]
        means = sums[:, 1 : 1 + p] / share[:, None]
        moved = means - about
        scatters = unvech(sums[:, 1 + p :]) - share[:, None, None] * moved[:, :, None] * moved[:, None, :]
        groups.append(Groups(rows * share, means, rows * scatters))
    return groups
