"""A search with all sites in one process, with the sums that real sites would agree on."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from gaussip.arrays import NDArray, namespace
from gaussip.exchange import sums
from gaussip.mixture.theta import Theta, broadcast
from gaussip.mixture.units import Unit
from gaussip.rows.checks import check_mean_weight
from gaussip.rows.moments import moments
from gaussip.rows.rows import Rows
from gaussip.starts import shared as start
from gaussip.starts.search.climb import Totals, part_of
from gaussip.starts.search.numbers import over
from gaussip.starts.search.standard import standard_centres, standard_classes, unit_of_extents
from gaussip.starts.shared import Centres, Classes

Result = TypeVar("Result")


def run(
    search: Generator[Theta, Totals, Result],
    rows: Rows,
    unit: Unit,
    watch: Callable[[Theta], None] | None = None,
) -> Result:
    """Run a search to its result; ``watch`` is called after every pass over the rows.

    The rows (M,) have labels for at least as many components as the search has.
    """
    like, of_components = rows.centres, dict[int, Rows]()
    xp = namespace(like)
    try:
        theta = next(search)
        while True:
            K = len(theta.weights)
            if K not in of_components:
                of_components = {K: _with_components(rows, K)}
            everywhere = map(np.array, broadcast(unit.original_theta(theta), rows.shape))
            at_sites = Theta(*(xp.asarray(part, dtype=like.dtype, device=like.device) for part in everywhere))
            parts = part_of(moments(of_components[K], at_sites), unit, rows.shape[0])
            totals = Totals.of(sums.agreed(parts), K)
            if watch is not None:
                watch(theta)
            theta = search.send(totals)
    except StopIteration as end:
        result: Result = end.value
        return result


def _with_components(rows: Rows, n_components: int) -> Rows:
    """The same rows for fewer components; those left out have no labelled rows."""
    return rows if rows.labelled is None else replace(rows, labelled=rows.labelled[..., :n_components, :])


def searched(
    values: Sequence[NDArray],
    weights: Sequence[Any] | None,
    rows: Rows,
    n_components: int,
    seed: int,
    reg_covar: float,
    shrinkage: float,
) -> Theta:
    """The best of many starts; see `shared_by`."""
    check_mean_weight(weights)
    unit, shared, classes = shared_by(values, weights, rows, n_components, seed)
    numbers = range(n_components, n_components + 1)
    best = run(over(numbers, shared, classes, seed, reg_covar / unit.spread**2, shrinkage), rows, unit)
    return unit.original_theta(best.mixtures[0].theta)


def shared_by(
    values: Sequence[NDArray], weights: Sequence[Any] | None, rows: Rows, n_groups: int, seed: int
) -> tuple[Unit, list[Centres], Classes | None]:
    """What sites share before a search: the unit, and in it ``n_groups`` centres each and their labelled rows' sums.

    ``rows`` are the same as ``values`` and ``weights``, with labels.
    """
    unit = unit_of_extents(start.extents_of(values, weights))
    centres = start.all_centres(values, n_groups, unit.spread, seed, weights)
    shared = [standard_centres(site, unit) for site in centres]
    classes = None if rows.labelled is None else start.labelled_classes(rows)
    if classes is None or not classes.counts.any():
        return unit, shared, None
    return unit, shared, standard_classes(classes, unit)
