"""The rows that a process holds: of one real site, or of all sites of a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gaussip.arrays import NDArray, namespace, to_numpy
from gaussip.kernels.array.algebra import about_means
from gaussip.kernels.array.reference import feature_blocks, features_of
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta, broadcast, width
from gaussip.rows.moments import Moments, moments
from gaussip.rows.rows import Rows


@dataclass(frozen=True, eq=False)
class Held:
    """Rows as the questions of a replicated computation want them.

    Attributes
    ----------
    rows : (M,), as they count in the fit, with labels
    values, weights : of each site, (n, p) and (n,): a sample where rows stay on disk
    labels : of each site, (n,), the numbers of labels, -1 where there is none; None where nothing is labelled
    owners : the components of each class; None where component k is class k
    indices : (M,), the sites' places among all sites
    n_sites : all sites, held here or not
    """

    rows: Rows
    values: Sequence[NDArray]
    weights: Sequence[NDArray] | None
    labels: Sequence[NDArray] | None
    owners: Owners | None
    indices: NDArray
    n_sites: int
    _of_components: dict[int, Rows] = field(default_factory=dict, repr=False)
    _of_classes: dict[int, Held] = field(default_factory=dict, repr=False)

    @classmethod
    def everything(
        cls,
        rows: Rows,
        values: Sequence[NDArray],
        weights: Sequence[NDArray] | None,
        labels: Sequence[NDArray] | None = None,
        owners: Owners | None = None,
    ) -> Held:
        """All sites in this process."""
        return cls(rows, values, weights, labels, owners, np.arange(len(values)), len(values))

    @property
    def n_classes(self) -> int:
        """Classes, the first numbers of labels."""
        if self.owners is not None:
            return len(self.owners.counts)
        return 0 if self.rows.labelled is None else int(self.rows.labelled.shape[-2])

    @cached_property
    def plain(self) -> Rows:
        """(M,), the rows without their labels, every row with its own weight."""
        rows = self.rows
        if rows.labelled is None and rows.in_memory and np.array_equal(to_numpy(rows.mass), self.counts):
            return rows
        return Rows.of_sites(list(self.values), None, None if self.weights is None else list(self.weights))

    @cached_property
    def counts(self) -> NDArray:
        """Rows of each site by weight, (M,)."""
        if self.weights is None:
            return np.array([float(len(x)) for x in self.values])
        return np.array([float(v.sum()) for v in self.weights])

    @cached_property
    def seen(self) -> NDArray:
        """The rows of each site in which a feature is observed, by weight, (M, p)."""
        seen = np.repeat(self.counts[:, None], self.values[0].shape[1], axis=1)
        for m, (x, site) in enumerate(zip(self.values, self.rows.sites, strict=True)):
            if site.incomplete:
                seen[m] = self.weighted(m, (~np.isnan(x)).astype(float))
        return seen

    def weighted(self, site: int, numbers: NDArray) -> NDArray:
        """The weighted sum over a site's rows of numbers (n, ...); missing ones count nothing."""
        if self.rows.sites[site].incomplete:
            numbers = np.nan_to_num(numbers)
        if self.weights is None:
            return np.asarray(numbers.sum(axis=0))
        return np.asarray((self.weights[site][:, None] * numbers).sum(axis=0))

    def counting(self, site: int) -> NDArray:
        """A site's rows that count, (n, p)."""
        return self.values[site] if self.weights is None else self.values[site][self.weights[site] > 0]

    @cached_property
    def _summed(self) -> bool:
        """Whether the sums of the labelled rows by component are those by class."""
        return not any(site.groups or site.incomplete or site.allowed is not None for site in self.rows.sites)

    @cached_property
    def class_counts(self) -> NDArray:
        """Labelled rows by class, (M, C)."""
        if self._summed:
            return self.by_class(np.zeros((self.n_classes, self.values[0].shape[1])))[0][..., 0]
        assert self.labels is not None
        ones: Sequence[None] | Sequence[NDArray] = [None] * len(self.labels) if self.weights is None else self.weights
        C = self.n_classes
        return np.array([
            np.bincount(y[(y >= 0) & (y < C)], None if v is None else v[(y >= 0) & (y < C)], C)
            for y, v in zip(self.labels, ones, strict=True)
        ], dtype=float)  # fmt: skip

    def by_class(self, about: NDArray) -> tuple[NDArray, NDArray]:
        """The sums (M, C, f) of the labelled rows by class, the squares and products about points (C, p).

        A missing cell counts as if it lay at the point; the second array (M, C, p) says how many do not.
        """
        shape = (len(self.values), self.n_classes)
        if self._summed:
            assert self.rows.labelled is not None
            labelled = to_numpy(self.rows.labelled)[:, : self.n_classes]
            sums = np.asarray(about_means(labelled, to_numpy(self.rows.centres), about))
            return sums, np.broadcast_to(sums[..., :1], (*shape, about.shape[1]))
        assert self.labels is not None
        parts, seen = [], []
        for m, (x, y) in enumerate(zip(self.values, self.labels, strict=True)):
            v = np.ones(len(x)) if self.weights is None else self.weights[m]
            for c, point in enumerate(about):
                mine = y == c
                z, weights, there = x[mine] - point, v[mine], ~np.isnan(x[mine])
                part = np.zeros(width(len(point)))
                for block in feature_blocks(*z.shape):
                    part += features_of(np.where(there[block], z[block], 0.0)) @ weights[block]
                part[1 : 1 + len(point)] += part[0] * point
                parts.append(part)
                seen.append(weights @ there)
        return np.stack(parts).reshape(*shape, -1), np.stack(seen).reshape(*shape, -1)

    def of_class(self, number: int) -> Held:
        """The rows labelled with one class, without labels."""
        if number not in self._of_classes:
            assert self.labels is not None
            mine = [y == number for y in self.labels]
            values = [x[here] for x, here in zip(self.values, mine, strict=True)]
            weights = None
            if self.weights is not None:
                weights = [v[here] for v, here in zip(self.weights, mine, strict=True)]
            rows = Rows.of_sites(values, None, weights)
            self._of_classes[number] = Held(rows, values, weights, None, None, self.indices, self.n_sites)
        return self._of_classes[number]

    def moments(self, theta: Theta) -> Moments:
        """The moments, in NumPy, of the rows as they count in the fit, at a mixture of at most as many components."""
        K, rows = len(theta.weights), self.rows
        if rows.labelled is not None and rows.labelled.shape[-2] > K:
            rows = self._fewer(K)
        return _moments(rows, theta)

    def plain_moments(self, theta: Theta) -> Moments:
        """The same of the rows without their labels."""
        return _moments(self.plain, theta)

    def _fewer(self, n_components: int) -> Rows:
        """The same rows for fewer components; those left out have no labelled rows."""
        assert self.rows.labelled is not None
        if n_components not in self._of_components:
            labelled = self.rows.labelled[..., :n_components, :]
            self._of_components[n_components] = replace(self.rows, labelled=labelled)
        return self._of_components[n_components]

    def least(self, min_count: int) -> int:
        """The fewest rows whose sums may be known: of one site alone nothing is sent."""
        return min_count if self.n_sites > 1 else 1


def _moments(rows: Rows, theta: Theta) -> Moments:
    """At one mixture of NumPy's, and in NumPy, wherever the rows are."""
    xp, like = namespace(rows.centres), rows.centres
    everywhere = map(np.array, broadcast(theta, rows.shape))
    found = moments(rows, Theta(*(xp.asarray(part, dtype=like.dtype, device=like.device) for part in everywhere)))
    return Moments(
        to_numpy(found.mass), to_numpy(found.sums), to_numpy(found.log_likelihood),
        observed=None if found.observed is None else to_numpy(found.observed),
    )  # fmt: skip
