"""One pass over numbers of components: each begun from shared centres, from labels, and by splitting the last."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import StartError
from gaussip.parameters import Theta
from gaussip.search.candidates import candidates
from gaussip.search.climb import Found, Totals, best_of
from gaussip.start import Centres, Classes

SEEDS = 5  # of k-means over the shared centres, and of centres drawn at random


class Best(NamedTuple):
    """The best mixture of each number of components, and why the pass ended before the last, if it did."""

    found: list[Found]
    ended: str


def over(
    numbers: range, shared: Sequence[Centres], classes: Classes | None, seed: int, reg: NDArray
) -> Generator[Theta, Totals, Best]:
    """The search that all sites run; see `gaussip.search.climb`.

    Parameters
    ----------
    shared, classes : what all sites know, in standard units
    reg : (p,), added to every variance
    """
    found: list[Found] = []
    labelled = 0 if classes is None else int(np.count_nonzero(classes.counts))
    seeds = [(seed + j) % 2**32 for j in range(SEEDS)]
    for K in numbers:
        fewer = found[-1].theta if found else None
        try:
            starts = candidates(K, shared, classes, seeds, fewer)
            found.append((yield from best_of(starts, reg, labelled)))
        except StartError as error:
            if not found:
                raise
            return Best(found, f"no mixture of {K} components was found: {error}")
    return Best(found, "")
