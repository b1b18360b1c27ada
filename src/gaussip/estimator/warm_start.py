"""How a fit with ``warm_start`` goes on from the last one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms import Algorithm
from gaussip.arrays import to_numpy
from gaussip.errors import StartError, Text
from gaussip.mixture.theta import Theta, broadcast, pack, reorder
from gaussip.rows.moments import Shrinkage
from gaussip.rows.problem import Problem
from gaussip.simulation.rounds import Carry
from gaussip.starts.given import class_order


class LeftOff(NamedTuple):
    """Where a run stopped. The next of the same rows continues it bit by bit: as if it had not stopped."""

    digest: str  #: of its rows, network and settings
    start: Theta
    shrinkage: Shrinkage | None
    carry: Carry


def left_off(mixture: Any, digest: str) -> LeftOff | None:
    """Where the last fit stopped; None where rows or settings are others now, or the estimates were changed."""
    left: LeftOff | None = getattr(mixture, "_left_off", None)
    if left is None or left.digest != digest:
        return None
    reached = broadcast(Theta(*map(to_numpy, left.carry.theta)), (len(mixture.sites_),))
    return left if np.array_equal(pack(reached), pack(site_estimates(mixture))) else None


def digest_of(mixture: Any, algorithm: Algorithm, problem: Problem) -> str:
    """A digest of what a run's numbers depend on, beside its start."""
    digest = hashlib.sha256()
    for part in _parts(mixture, algorithm, problem):
        digest.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _parts(mixture: Any, algorithm: Algorithm, problem: Problem) -> Iterator[Any]:
    rows, W = problem.rows, problem.W
    allowed = [(site.allowed, [group.components for group in site.groups]) for site in rows.sites]
    numbers = [float(mixture.reg_covar), float(mixture.shrinkage), float(mixture.unlabelled_weight)]
    sizes = [x.shape for x in problem.values]
    yield repr((algorithm, mixture.weighting, mixture.device, numbers, problem.owners, allowed, sizes)).encode()
    yield from (W.indptr, W.indices, W.data)
    for parts in (problem.values, problem.weights, problem.labels):
        yield repr(parts is None).encode()
        yield from parts or ()
    for array in (rows.centres, rows.mass, rows.labelled):  # of all rows, where those on disk have a sample above
        yield b"" if array is None else to_numpy(array)


def site_estimates(mixture: Any) -> Theta:
    """Each site's own estimate."""
    return Theta(mixture.site_weights_, mixture.site_means_, mixture.site_covariances_)


def last_estimates(mixture: Any, problem: Problem) -> Theta:
    """The last fit as a start: each site's own estimate where the sites are the same, else the consensus.

    Where the classes are others than last time, components are matched to them again.
    """
    n_features = problem.values[0].shape[1]
    if mixture.means_.shape != (mixture.n_components, n_features):
        text = Text(
            "{the last fit} has {old} components and {width} features, this one {new} and {features}",
            old=mixture.means_.shape[0], width=mixture.means_.shape[1], new=mixture.n_components,
            features=n_features,
        )  # fmt: skip
        raise StartError(text, setting="warm_start", remedy=Text("use {warm_start:False}"))
    order = np.arange(mixture.n_components)
    owned = problem.owners.classes(mixture.n_components)
    if problem.rows.labelled is not None and not (
        np.array_equal(problem.classes, mixture.classes_) and np.array_equal(owned, mixture.class_of_component_)
    ):
        if not problem.owners.single:
            raise StartError(
                "the last fit had other classes, or other numbers of components for them", setting="warm_start",
                remedy=Text("use {warm_start:False}"),
            )  # fmt: skip
        order = class_order(problem.held, mixture._theta(), mixture.min_count, problem.classes.tolist())
    if not np.array_equal(problem.sites, mixture.sites_):
        return reorder(mixture._theta(), order)
    return Theta(*(part[:, order] for part in site_estimates(mixture)))
