"""The rows of one or many sites, laid out for the hot function.

Each row x becomes the features (1, z, vech(zz')) with z = x minus its site's centre: a Gaussian's
log-density is linear in them, and so are all the moments. Labelled rows never change their
responsibilities, so their sums of features are taken once and the hot function passes over the
unlabelled rows alone.

Sums about the centre lose accuracy where a component is tiny against the spread of its site's rows: relative
errors are about machine epsilon times the squared ratio of that spread to the component's standard deviation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gaussip.arrays import Array, NDArray, indices, namespace, to_numpy

BLOCK_BYTES = 2**21  # features of one block: small enough to stay in a core's cache
HOLD_BYTES = 2**28  # features are kept between rounds up to this size, made anew in each round beyond


class SiteRows(NamedTuple):
    """One site's unlabelled rows."""

    values: Array  # (n, p)
    weights: Array | None  # (n,)
    centre: Array  # (p,)
    held: tuple[Array, ...] | None  # features of each block

    def blocks(self) -> Iterator[tuple[Array, Array | None]]:
        """Features (1 + p + p(p+1)/2, b) and row weights (b,) of one block of rows after the other."""
        for number, part in enumerate(_blocks(*self.values.shape)):
            features = self.held[number] if self.held is not None else self._features(part)
            yield features, None if self.weights is None else self.weights[part]

    def _features(self, part: slice) -> Array:
        return features_of(self.values[part, :] - self.centre)


@dataclass(frozen=True)
class Rows:
    """The rows of sites with leading axes ``...`` (none for one site), ready for `gaussip.moments.moments`.

    Attributes
    ----------
    shape : the leading axes, for example ``()``, ``(M,)`` or ``(R, M)``
    centres : (..., p), each site's mean row; sums are taken about it, which keeps large offsets harmless
    mass : (...), the summed row weights n_m
    labelled : (..., K, 1 + p + p(p+1)/2) or None, sums of the labelled rows' features by class
    """

    shape: tuple[int, ...]
    centres: Array
    mass: Array
    labelled: Array | None
    sites: tuple[SiteRows, ...]

    @classmethod
    def of_sites(
        cls,
        values: Sequence[Array],
        labels: Sequence[Array] | None = None,
        weights: Sequence[Array] | None = None,
        n_components: int | None = None,
    ) -> Rows:
        """Rows of a list of sites.

        Parameters
        ----------
        values : one (n_m, p) array per site
        labels : one (n_m,) integer array per site, -1 where unlabelled; needs ``n_components``
        weights : one (n_m,) array of row weights per site
        """
        xp = namespace(values[0])
        hold = _width(values[0].shape[1]) * sum(x.shape[0] for x in values) * 8 <= HOLD_BYTES
        sites, labelled, mass = [], [], []
        for m, x in enumerate(values):
            v = None if weights is None else weights[m]
            centre = xp.mean(x, axis=0)
            count = xp.asarray(float(x.shape[0]), dtype=x.dtype, device=x.device)
            mass.append(count if v is None else xp.sum(v))
            if labels is not None:
                if n_components is None:
                    raise TypeError("labelled rows need n_components")
                y = to_numpy(labels[m])
                labelled.append(_labelled_sums(x, y, v, centre, n_components))
                free = indices(np.flatnonzero(y < 0), x)
                x = xp.take(x, free, axis=0)
                v = None if v is None else xp.take(v, free, axis=0)
            site = SiteRows(x, v, centre, None)
            if hold:
                site = site._replace(held=tuple(features for features, _ in site.blocks()))
            sites.append(site)
        return cls(
            shape=(len(sites),),
            centres=xp.stack([site.centre for site in sites]),
            mass=xp.stack(mass),
            labelled=xp.stack(labelled) if labelled else None,
            sites=tuple(sites),
        )

    @classmethod
    def stack(cls, parts: Sequence[Rows]) -> Rows:
        """Rows of equally many sites each, under a new first axis (a study's replicates)."""
        xp = namespace(parts[0].mass)
        some = next((part.labelled for part in parts if part.labelled is not None), None)
        labelled = [
            xp.zeros_like(some) if part.labelled is None else part.labelled for part in parts if some is not None
        ]
        return cls(
            shape=(len(parts), *parts[0].shape),
            centres=xp.stack([part.centres for part in parts]),
            mass=xp.stack([part.mass for part in parts]),
            labelled=xp.stack(labelled) if labelled else None,
            sites=tuple(site for part in parts for site in part.sites),
        )

    def one(self, index: int) -> Rows:
        """The rows of one site alone, without leading axes: what that site's own process holds."""
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


def features_of(z: Array) -> Array:
    """The features (1, z, vech(zz')) of centred rows: (n, p) to (1 + p + p(p+1)/2, n), a row per feature."""
    xp = namespace(z)
    columns = xp.stack([z[:, j] for j in range(z.shape[1])])  # each feature contiguous, as BLAS likes them
    products = [columns[i, :] * columns[i:, :] for i in range(z.shape[1])]
    return xp.concat([xp.ones_like(columns[:1, :]), columns, *products], axis=0)


def _width(n_features: int) -> int:
    """Number of features of a row: 1 + p + p(p+1)/2."""
    return (n_features + 1) * (n_features + 2) // 2


def _blocks(n_rows: int, n_features: int) -> Iterator[slice]:
    size = max(32, BLOCK_BYTES // (8 * _width(n_features)))
    for first in range(0, n_rows, size):
        yield slice(first, min(first + size, n_rows))


def _labelled_sums(x: Array, y: NDArray, v: Array | None, centre: Array, n_components: int) -> Array:
    xp = namespace(x)
    total: Array = 0.0
    for part in _blocks(*x.shape):
        member = xp.asarray(y[None, part] == np.arange(n_components)[:, None], device=x.device)
        member = xp.astype(member, x.dtype)
        if v is not None:
            member = member * v[part]
        total = total + member @ features_of(x[part, :] - centre).T
    return total
