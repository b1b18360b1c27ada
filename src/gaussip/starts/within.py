"""Starts where classes have several components: k-means within the labelled rows of each class, by sums."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import StartError
from gaussip.exchange.questions import Ask, Replicated
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta
from gaussip.starts.facts import Classes, Facts
from gaussip.starts.lloyd import Groups, ask_groups
from gaussip.starts.mixtures import from_groups

NARROWEST = 1e-6  # variance of a class, in standard units: where it is smaller, centres are drawn this far apart


class Shared(NamedTuple):
    """Which components are whose in a start."""

    owners: Owners
    n_components: int
    names: tuple[Any, ...] = ()  #: of the classes, for messages


def ask_within(facts: Facts, classes: Classes, shared: Shared, seed: int, min_count: int) -> Replicated[Theta]:
    """A mixture in standard units: the components of each class from its labelled rows, free ones from all rows."""
    n_free = shared.n_components - shared.owners.owned
    parts, labelled = [], classes.counts.sum()
    for c, count in enumerate(shared.owners.counts):
        theta = yield from _ask_class(facts, classes, c, count, seed, min_count, shared.names)
        share = classes.counts[c] / labelled * shared.owners.owned / shared.n_components
        parts.append(theta._replace(weights=share * theta.weights))
    if n_free:
        (groups,) = yield from ask_groups(facts, n_free, seed, min_count)
        theta = from_groups(groups)
        parts.append(theta._replace(weights=n_free / shared.n_components * theta.weights))
    return Theta(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _ask_class(
    facts: Facts, classes: Classes, c: int, count: int, seed: int, min_count: int, names: tuple[Any, ...]
) -> Replicated[Theta]:
    rows = float(classes.counts[c])
    name = repr(names[c]) if c < len(names) else f"number {c + 1}"
    if rows <= 0:
        raise StartError(
            f"class {name} has no labelled row, and its {count} components start from them",
            label=names[c] if c < len(names) else None, remedy="label some of its rows",
        )  # fmt: skip
    if count == 1:
        return from_groups(Groups(*(part[c : c + 1] for part in classes)))
    unit = facts.unit
    variance = np.maximum(np.diagonal(classes.scatters[c]) / rows, NARROWEST) * unit.spread**2
    here = facts._replace(
        rows=np.asarray(rows), mass=np.asarray(rows), class_counts=np.empty(0), seen=facts.seen * (rows / facts.rows),
        mean=classes.means[c] * unit.spread + unit.location, variance=variance,
    )  # fmt: skip
    try:
        (groups,) = yield from _of_class(ask_groups(here, count, seed, min_count), c)
    except StartError as error:
        raise StartError(
            f"class {name} has {rows:g} labelled rows at all sites together, in which k-means found no {count} "
            f"groups of at least {min_count}",
            setting="components_per_class", label=names[c] if c < len(names) else None,
            remedy="use fewer components for it, or label more of its rows",
        ) from error  # fmt: skip
    return unit.standard_theta(here.unit.original_theta(from_groups(groups)))


def _of_class(computation: Replicated[list[Groups]], c: int) -> Replicated[list[Groups]]:
    """The same questions to the labelled rows of one class."""
    try:
        ask = next(computation)
        while True:
            total: NDArray = yield _about(ask, c)
            ask = computation.send(total)
    except StopIteration as end:
        groups: list[Groups] = end.value
        return groups


def _about(ask: Ask, c: int) -> Ask:
    return ask._replace(part=lambda held: ask.part(held.of_class(c)))
