"""The rows that a process holds: of one real site, or of all sites of a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gaussip.arrays import NDArray, namespace, to_numpy
from gaussip.kernels.array.algebra import about_means
from gaussip.mixture.theta import Theta, broadcast
from gaussip.rows.moments import Moments, moments
from gaussip.rows.rows import Rows


@dataclass(frozen=True, eq=False)
class Held:
    """Rows as the questions of a replicated computation want them.

    Attributes
    ----------
    rows : (M,), as they count in the fit, with labels
    values, weights : of each site, (n, p) and (n,): a sample where rows stay on disk
    indices : (M,), the sites' places among all sites
    n_sites : all sites, held here or not
    """

    rows: Rows
    values: Sequence[NDArray]
    weights: Sequence[NDArray] | None
    indices: NDArray
    n_sites: int
    _of_components: dict[int, Rows] = field(default_factory=dict, repr=False)

    @classmethod
    def everything(cls, rows: Rows, values: Sequence[NDArray], weights: Sequence[NDArray] | None) -> Held:
        """All sites in this process."""
        return cls(rows, values, weights, np.arange(len(values)), len(values))

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

    def weighted(self, site: int, numbers: NDArray) -> NDArray:
        """The weighted sum over a site's rows of numbers (n, ...)."""
        if self.weights is None:
            return np.asarray(numbers.sum(axis=0))
        return np.asarray((self.weights[site][:, None] * numbers).sum(axis=0))

    def counting(self, site: int) -> NDArray:
        """A site's rows that count, (n, p)."""
        return self.values[site] if self.weights is None else self.values[site][self.weights[site] > 0]

    def labelled(self, about: NDArray) -> NDArray:
        """The sums (M, K, f) of the labelled rows by class, the squares and products about a point."""
        assert self.rows.labelled is not None
        sums, centres = to_numpy(self.rows.labelled), to_numpy(self.rows.centres)
        return np.asarray(about_means(sums, centres, np.broadcast_to(about, (sums.shape[-2], len(about)))))

    def moments(self, theta: Theta) -> Moments:
        """The moments of the rows as they count in the fit, at one mixture of at most as many components."""
        K, rows = len(theta.weights), self.rows
        if rows.labelled is not None and rows.labelled.shape[-2] > K:
            rows = self._fewer(K)
        return _moments(rows, theta)

    def plain_moments(self, theta: Theta) -> Moments:
        """The moments of the rows without their labels, in NumPy."""
        found = _moments(self.plain, theta)
        return found._replace(
            mass=to_numpy(found.mass), sums=to_numpy(found.sums), log_likelihood=to_numpy(found.log_likelihood)
        )

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
    """At one mixture of NumPy's, wherever the rows are."""
    xp, like = namespace(rows.centres), rows.centres
    everywhere = map(np.array, broadcast(theta, rows.shape))
    return moments(rows, Theta(*(xp.asarray(part, dtype=like.dtype, device=like.device) for part in everywhere)))
