"""The rows of one or many sites, ready for the hot function.

Labelled rows never change their responsibilities, so the sums of their features (1, z, vech(zz')), z a row minus its
site's centre, are computed once, and the hot function passes over the unlabelled rows alone. Rows are in memory, or
in chunks that are read again for every pass (`gaussip.rows.chunks`). Rows with missing cells, and those of a label
with several components, go in groups of their own (`gaussip.rows.groups`).

Sums about the centre lose accuracy where a component is tiny against the spread of its site's rows: relative
errors are about machine epsilon times the squared ratio of that spread to the component's standard deviation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import Array, NDArray, indices, namespace, to_device, to_numpy
from gaussip.errors import DataError
from gaussip.kernels import Kernel
from gaussip.kernels.array.incomplete import Totals
from gaussip.kernels.array.reference import feature_blocks, features_of
from gaussip.mixture.theta import width
from gaussip.rows.chunks import Chunks
from gaussip.rows.groups import Allowed, Group, Stack, all_of, divided, nothing, stacked


class SiteRows(NamedTuple):
    """One site's rows that are in no group and have no label, or the chunks with all its rows."""

    values: Array | Chunks  # (n, p)
    weights: Array | None  # (n,)
    n_rows: int  # without a label
    groups: Sequence[Group] = ()
    incomplete: bool = False  # whether cells are missing
    factor: float = 1.0  # on the weights of rows in chunks that have no label
    allowed: Allowed | None = None  # the components of each label, for rows in chunks

    def chunks(self, centre: Array) -> Iterator[tuple[Array, Array | None, Sequence[Group], int]]:
        """Piece by piece: the rows in no group, their weights, the groups, and how many rows have no label."""
        if not isinstance(self.values, Chunks):
            yield self.values, self.weights, self.groups, self.n_rows
            return
        xp = namespace(centre)
        for values, labels, weights in self.values:
            free = np.full(len(values), True) if labels is None else labels < 0
            if self.factor != 1.0:
                weights = np.where(free, self.factor, 1.0) * (1.0 if weights is None else weights)
            x, v = (None if part is None else xp.asarray(part, device=centre.device) for part in (values, weights))
            plain, groups = divided(x, v, centre, labels, self.allowed)
            if len(plain) < len(values):
                chosen = indices(plain, x)
                x, v = xp.take(x, chosen, axis=0), None if v is None else xp.take(v, chosen, axis=0)
            yield x, v, groups, int(free.sum())


@dataclass(frozen=True)
class Rows:
    """The rows of sites with leading axes ``...`` (none for one site), ready for `gaussip.rows.moments.moments`.

    Attributes
    ----------
    shape : the leading axes, for example ``()``, ``(M,)`` or ``(R, M)``
    centres : (..., p), each site's mean row; sums are taken about it, which keeps large offsets harmless
    mass : (...), the summed row weights n_m
    labelled : (..., K, f) or None, sums of the labelled rows' features by class
    """

    shape: tuple[int, ...]
    centres: Array
    mass: Array
    labelled: Array | None
    sites: tuple[SiteRows, ...]
    _laid: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # of these rows alone

    @cached_property
    def in_memory(self) -> bool:
        """Whether all sites' rows are in memory."""
        return not any(isinstance(site.values, Chunks) for site in self.sites)

    @cached_property
    def incomplete(self) -> bool:
        """Whether cells are missing."""
        return any(site.incomplete for site in self.sites)

    @property
    def stacks(self) -> list[Stack]:
        """All rows of all sites in groups, kept for the next round; empty where no site needs any."""
        if "stacks" not in self._laid:
            self._laid["stacks"] = []
            if any(site.groups for site in self.sites):
                known: Array = [None] * len(self.sites)
                if self.labelled is not None:
                    known = namespace(self.labelled).reshape(self.labelled, (-1, *self.labelled.shape[-2:]))
                groups = [
                    [all_of(site.values, site.weights, known[m]), *site.groups] for m, site in enumerate(self.sites)
                ]
                self._laid["stacks"] = stacked(groups, self._flat_centres)
        stacks: list[Stack] = self._laid["stacks"]
        return stacks

    def nothing(self, n_components: int) -> Totals:
        """The totals of the groups before any is added, with what the kernels' log-likelihoods will lack."""
        key = f"nothing of {n_components} components"
        if key not in self._laid:
            self._laid[key] = nothing([site.groups for site in self.sites], n_components, self._flat_centres)
        totals: Totals = self._laid[key]
        return totals

    @property
    def _flat_centres(self) -> Array:
        return namespace(self.centres).reshape(self.centres, (-1, self.centres.shape[-1]))

    def laid_out(self, kernel: Kernel) -> Any:
        """The rows in the layout of a kernel, kept for the next round."""
        if kernel.name not in self._laid:
            xp = namespace(self.centres)
            values: list[Array] = [site.values for site in self.sites]
            weights = None
            if any(site.weights is not None for site in self.sites):
                given = (site.weights for site in self.sites)
                weights = [xp.ones_like(x[:, 0]) if v is None else v for x, v in zip(values, given, strict=True)]
            self._laid[kernel.name] = kernel.lay_out(values, weights, self._flat_centres)
        return self._laid[kernel.name]

    @classmethod
    def of_sites(
        cls,
        values: Sequence[Array | Chunks],
        labels: Sequence[Array] | None = None,
        weights: Sequence[Array] | None = None,
        n_components: int | None = None,
        device: str = "cpu",
        unlabelled_weight: float = 1.0,
        allowed: Allowed | None = None,
    ) -> Rows:
        """Rows of a list of sites; a missing cell is NaN, and each row has at least one that is not.

        Parameters
        ----------
        values : one (n_m, p) array per site, or `Chunks`, which hold labels and weights too
        labels : one (n_m,) integer array per site, -1 where unlabelled; needs ``n_components``
        weights : one (n_m,) array of row weights per site
        device : where chunks are computed
        unlabelled_weight : in [0, 1], the weight of an unlabelled row relative to a labelled one
        allowed : the components that the rows of each label can be of; label k is component k by default
        """
        sites = []
        for m, x in enumerate(values):
            if isinstance(x, Chunks):
                sites.append(_of_chunks(x, n_components, device, unlabelled_weight, allowed))
            else:
                y = None if labels is None else to_numpy(labels[m])
                v = None if weights is None else weights[m]
                sites.append(_of_array(x, y, v, n_components, unlabelled_weight, allowed))
        return cls.joined(sites, (len(sites),))

    @classmethod
    def stack(cls, parts: Sequence[Rows]) -> Rows:
        """Rows with the same number of sites each, under a new first axis (a study's replicates)."""
        sites = [part.site(m) for part in parts for m in range(len(part.sites))]
        return cls.joined(sites, (len(parts), *parts[0].shape))

    @classmethod
    def joined(cls, parts: Sequence[Rows], shape: tuple[int, ...]) -> Rows:
        """Rows of single sites, joined under the leading axes ``shape``."""
        xp = namespace(parts[0].centres)
        some = next((part.labelled for part in parts if part.labelled is not None), None)
        labelled = None
        if some is not None:
            known = [xp.zeros_like(some) if part.labelled is None else part.labelled for part in parts]
            labelled = xp.reshape(xp.stack(known), (*shape, *some.shape))
        return cls(
            shape=shape,
            centres=xp.reshape(xp.stack([part.centres for part in parts]), (*shape, -1)),
            mass=xp.reshape(xp.stack([part.mass for part in parts]), shape),
            labelled=labelled,
            sites=tuple(site for part in parts for site in part.sites),
        )

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle or copy, without the kernels' layouts, which are made again."""
        return {**self.__dict__, "_laid": {}}

    def site(self, index: int) -> Rows:
        """The rows of one site, without leading axes: what that site's process holds."""
        xp = namespace(self.mass)
        return Rows(
            shape=(),
            centres=xp.reshape(self.centres, (-1, self.centres.shape[-1]))[index, :],
            mass=xp.reshape(self.mass, (-1,))[index],
            labelled=None
            if self.labelled is None
            else xp.reshape(self.labelled, (-1, *self.labelled.shape[-2:]))[index, :, :],
            sites=(self.sites[index],),
        )


def _of_array(
    x: Array,
    y: NDArray | None,
    v: Array | None,
    n_components: int | None,
    unlabelled_weight: float,
    allowed: Allowed | None,
) -> Rows:
    """One site's rows in memory."""
    xp = namespace(x)
    if not xp.isdtype(x.dtype, "real floating"):
        x = xp.astype(x, xp.float64)
    v = None if v is None else xp.astype(v, x.dtype)
    incomplete = bool(xp.any(xp.isnan(x)))
    count = xp.asarray(float(x.shape[0]), dtype=x.dtype, device=x.device)
    mass, labelled = (count if v is None else xp.sum(v)), None
    if incomplete or not x.shape[0]:
        centre = _mean_of_observed(x, v)
    elif v is None:
        centre = xp.mean(x, axis=0)
    else:  # rows of weight zero may lie anywhere
        centre = xp.where(mass > 0, xp.sum(v[:, None] * x, axis=0) / mass, xp.mean(x, axis=0))
    n_rows = x.shape[0]
    if y is not None:
        labelled = _labelled_sums(x, _alone(x, y, allowed), v, centre, n_components)
        n_rows = int((y < 0).sum())
    if unlabelled_weight != 1.0:
        v = xp.ones_like(x[:, 0]) if v is None else v
        free = xp.ones_like(v) if y is None else xp.asarray(y < 0, dtype=x.dtype, device=x.device)
        mass = (mass - xp.sum(free * v)) + unlabelled_weight * xp.sum(free * v)
        v = xp.where(free > 0, unlabelled_weight * v, v)
    plain, groups = divided(x, v, centre, y, allowed)
    if len(plain) < x.shape[0]:
        chosen = indices(plain, x)
        x, v = xp.take(x, chosen, axis=0), None if v is None else xp.take(v, chosen, axis=0)
    return Rows((), centre, mass, labelled, (SiteRows(x, v, n_rows, groups, incomplete),))


def _mean_of_observed(x: Array, v: Array | None) -> Array:
    """The mean of each feature's observed cells; zero where there is none."""
    xp = namespace(x)
    counts = xp.astype(~xp.isnan(x), x.dtype)
    if v is not None:
        counts = v[:, None] * counts
    number = xp.sum(counts, axis=0)
    total = xp.sum(xp.where(counts > 0, counts * x, xp.zeros_like(x)), axis=0)
    return total / xp.where(number > 0, number, xp.ones_like(number))


def _alone(x: Array, y: NDArray, allowed: Allowed | None) -> NDArray:
    """The component of each complete row whose label has just one; else -1."""
    own = y if allowed is None else np.array([*(few[0] if len(few) == 1 else -1 for few in allowed), -1])[y]
    return np.where(to_numpy(namespace(x).any(namespace(x).isnan(x), axis=1)), -1, own)


def _of_chunks(
    chunks: Chunks, n_components: int | None, device: str, unlabelled_weight: float, allowed: Allowed | None
) -> Rows:
    """One site's rows in chunks: a pass for the mean row, and another for the labelled rows."""
    count, mass, with_labels, incomplete = 0, 0.0, False, False
    total: NDArray | float = 0.0
    number: NDArray | float = 0.0
    for values, labels, weights in chunks:
        count += len(values)
        mass += len(values) if weights is None else weights.sum()
        missing = np.isnan(values)
        incomplete = incomplete or bool(missing.any())
        observed = np.where(missing, 0.0, values)
        total = total + (observed.sum(axis=0) if weights is None else weights @ observed)
        number = number + ((~missing).sum(axis=0) if weights is None else weights @ ~missing)
        with_labels = with_labels or labels is not None
    if not count:
        raise DataError("the source gave its rows only once: give a function that opens it again for every pass")
    centre = np.asarray(total / np.where(number > 0, number, 1.0)) if incomplete else np.asarray(total / mass)
    labelled: Array = None
    free, known_mass = count, 0.0
    for values, labels, weights in chunks if with_labels else ():
        if labels is not None:
            part = _labelled_sums(values, _alone(values, labels, allowed), weights, centre, n_components)
            labelled = part if labelled is None else labelled + part
            free -= int((labels >= 0).sum())
            known_mass += (labels >= 0).sum() if weights is None else weights[labels >= 0].sum()
    known = None if labelled is None else to_device(labelled, device)
    mass = known_mass + unlabelled_weight * (mass - known_mass) if unlabelled_weight != 1.0 else mass
    site = SiteRows(chunks, None, free, (), incomplete, unlabelled_weight, allowed)
    return Rows((), to_device(centre, device), to_device(mass, device), known, (site,))


def _labelled_sums(x: Array, y: NDArray, v: Array | None, centre: Array, n_components: int | None) -> Array:
    """The sums (K, f) of the rows' features about the centre by component; -1 is for rows that are left out."""
    if n_components is None:
        raise TypeError("labelled rows need n_components")
    xp = namespace(x)
    known = np.flatnonzero(y >= 0)
    if known.size < y.size:  # skip the features of the others
        chosen = indices(known, x)
        x, y, v = xp.take(x, chosen, axis=0), y[known], None if v is None else xp.take(v, chosen, axis=0)
    total: Array = xp.zeros((n_components, width(x.shape[1])), dtype=x.dtype, device=x.device)
    for part in feature_blocks(*x.shape):
        member = xp.asarray(y[None, part] == np.arange(n_components)[:, None], device=x.device)
        member = xp.astype(member, x.dtype)
        if v is not None:
            member = member * v[part]
        total = total + member @ features_of(x[part, :] - centre).T
    return total
