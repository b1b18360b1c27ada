"""Groups of rows: those that share which features are observed, and which components they can be of.

The hot function takes each group for a site of its own, of fewer features or components
(`gaussip.kernels.array.incomplete`); groups with as many components go together. A site whose rows are all complete,
and can be of any component, needs no groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import Array, NDArray, indices, namespace, to_numpy
from gaussip.kernels import Kernel
from gaussip.kernels.array.incomplete import Groups, Totals
from gaussip.mixture.theta import width

Allowed = Sequence[Sequence[int]]  #: for each label, the components that its rows can be of

STACK_BYTES = 2**23  # of one component's sums over the groups that are computed together
SMALL_KEYS = 62  # features: beyond, a row's pattern does not fit into one number


class Group(NamedTuple):
    """Some rows of one site."""

    values: Array  #: (n, p), the missing cells at the site's centre
    weights: Array | None  #: (n,)
    observed: NDArray  #: (p,), booleans
    components: tuple[int, ...] | None  #: None: all
    labelled: Array | None = None  #: (K, f), sums of labelled rows to add

    @property
    def unseen(self) -> Array | float:
        """The missing cells by row weight, a number."""
        n_rows = self.values.shape[0] if self.weights is None else namespace(self.weights).sum(self.weights)
        return float((~self.observed).sum()) * n_rows


class Divided(NamedTuple):
    """A site's rows as a pass takes them."""

    plain: NDArray  #: the numbers of the rows that are in no group
    groups: list[Group]


def divided(x: Array, v: Array | None, centre: Array, codes: NDArray | None, allowed: Allowed | None) -> Divided:
    """Divide rows (n, p) that have weights and labels; complete rows of labels with one component are left out.

    Parameters
    ----------
    codes : (n,), the labels' numbers, -1 where there is none
    allowed : by number; None where label k is component k alone
    """
    xp = namespace(x)
    missing = to_numpy(xp.isnan(x))
    incomplete = missing.any(axis=1)
    labels = np.full(len(missing), -1) if codes is None else codes
    several = np.zeros(len(missing), dtype=bool)
    if allowed is not None and codes is not None:
        several = (np.array([len(few) > 1 for few in allowed] + [False]))[labels]  # the last is that of -1
    apart = np.flatnonzero(incomplete | several)
    plain = np.flatnonzero(~incomplete & (labels < 0))
    if not apart.size:
        return Divided(plain, [])
    filled = xp.where(xp.isnan(x), centre, x)
    groups = []
    for rows in _alike(missing[apart], labels[apart]):
        chosen = apart[rows]
        label, place = int(labels[chosen[0]]), indices(chosen, x)
        components = None if label < 0 else (label,) if allowed is None else tuple(allowed[label])
        weights = None if v is None else xp.take(v, place, axis=0)
        groups.append(Group(xp.take(filled, place, axis=0), weights, ~missing[chosen[0]], components))
    return Divided(plain, groups)


def _alike(missing: NDArray, labels: NDArray) -> list[NDArray]:
    """The rows of each group, in an order that depends on nothing but the patterns and labels."""
    if missing.shape[1] <= SMALL_KEYS:
        keys = missing @ (1 << np.arange(missing.shape[1], dtype=np.int64))
        _, keys = np.unique(keys, return_inverse=True)
    else:
        _, keys = np.unique(np.packbits(missing, axis=1), axis=0, return_inverse=True)
    keys = keys.reshape(-1) * (int(labels.max()) + 2) + labels + 1
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)


class Stack(NamedTuple):
    """Groups with as many components, of all sites, as the hot function takes them."""

    values: list[Array]
    weights: list[Array] | None
    centres: Array  #: (G, p)
    labelled: Array | None  #: (G, K, f)
    shared: Groups
    laid: dict[str, Any]

    def laid_out(self, kernel: Kernel) -> Any:
        """The rows in the layout of a kernel, kept for the next round."""
        if kernel.name not in self.laid:
            self.laid[kernel.name] = kernel.lay_out(self.values, self.weights, self.centres)
        return self.laid[kernel.name]


def stacked(groups: Sequence[Sequence[Group]], centres: Array) -> list[Stack]:
    """Stacks of the groups of each site, (S, p) centres; a site's groups keep their order."""
    alike: dict[int, list[tuple[int, Group]]] = {}
    for site, here in enumerate(groups):
        for group in here:
            alike.setdefault(0 if group.components is None else len(group.components), []).append((site, group))
    size = max(1, STACK_BYTES // (8 * width(centres.shape[-1])))
    return [
        _stack(members[first : first + size], len(groups), centres)
        for _, members in sorted(alike.items())
        for first in range(0, len(members), size)
    ]


def _stack(members: list[tuple[int, Group]], n_sites: int, centres: Array) -> Stack:
    xp = namespace(centres)
    sites = np.array([site for site, _ in members])
    given = [group for _, group in members]
    weights = None
    if any(group.weights is not None for group in given):
        weights = [xp.ones_like(g.values[:, 0]) if g.weights is None else g.weights for g in given]
    counts = np.bincount(sites, minlength=n_sites)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    few = None if given[0].components is None else indices(np.array([g.components for g in given]), centres)
    observed = indices(np.stack([group.observed for group in given]), centres)
    shared = Groups(indices(sites, centres), observed, few, indices(offsets, centres), int(counts.max()))
    some = next((group.labelled for group in given if group.labelled is not None), None)
    labelled = None
    if some is not None:
        labelled = xp.stack([xp.zeros_like(some) if g.labelled is None else g.labelled for g in given])
    own = xp.take(centres, shared.sites, axis=0)
    return Stack([g.values for g in given], weights, own, labelled, shared, {})


def all_of(values: Array, weights: Array | None, labelled: Array | None) -> Group:
    """The group of a site's complete rows that can be of any component, with the sums of its labelled rows."""
    return Group(values, weights, np.full(values.shape[1], True), None, labelled)


def nothing(groups: Sequence[Sequence[Group]], n_components: int, centres: Array) -> Totals:
    """Totals of sites, (S, p) centres, before their groups are added.

    The log-likelihoods start at what the kernels' lack: the density of the missing cells, at the centre.
    """
    xp, (S, p) = namespace(centres), centres.shape
    kind = {"dtype": centres.dtype, "device": centres.device}
    cells = [xp.asarray(sum((group.unseen for group in here), 0.0), **kind) for here in groups]
    sums, seen = xp.zeros((S, n_components, width(p)), **kind), xp.zeros((S, n_components, p), **kind)
    return Totals(sums, 0.5 * math.log(2 * math.pi) * xp.stack(cells), seen)
