"""A fit's problem where rows stay on disk: the checks of `gaussip.rows.problem.prepare`, a chunk at a time.

One pass checks every cell, finds the classes and draws a sample, from which starting values are taken; two more
find each site's mean row and the sums of its labelled rows. Then every round is a pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gaussip.arrays import NDArray
from gaussip.errors import DataError, some
from gaussip.networks import mixing_weights
from gaussip.rows.cells import observed_rows, refuse_unobserved, together, warn_of_empty_rows, warn_of_pairs
from gaussip.rows.checks import (
    check_cells,
    check_row_weights,
    check_sites_filled,
    column_name,
)
from gaussip.rows.chunks import Chunks, of_array
from gaussip.rows.labels import encode_labels, is_labelled, label_column
from gaussip.rows.problem import Problem
from gaussip.rows.rows import Rows
from gaussip.rows.sites import by_column, places_of_sites, site_of_rows

SAMPLE_ROWS = 20_000  # of each site, for starting values


def on_disk(X: Any) -> bool:
    """Whether rows are given in a way that leaves them where they are."""
    return isinstance(X, (np.memmap, Chunks)) or by_name(X)


def by_name(X: Any) -> bool:
    """Whether X maps sites to their rows; some of SciPy's sparse matrices are mappings too, and are not meant."""
    return isinstance(X, Mapping) and not sparse.issparse(X)


class _Site(NamedTuple):
    """What the first pass knows of a site."""

    sample: _Drawn  #: with weights, each row's for all those it stands for
    by_label: _Drawn  #: the same, with as many labelled rows as can be
    incomplete: bool  #: whether cells are missing
    labels: list[Any]  #: distinct, without the unlabelled
    mass: float
    n_empty: int  #: rows without a cell
    first_empty: int
    together: NDArray  #: (p, p), rows in which two features are both observed


def prepare_on_disk(
    X: Any,
    y: Any,
    sites: Any,
    sample_weight: Any,
    *,
    n_components: int,
    network: Any,
    mixing: str,
    seed: int,
    device: str,
    unlabelled_weight: float,
    components_per_class: int | Mapping[Any, int],
) -> Problem:
    """Check rows that stay on disk, and lay them out by site.

    Parameters
    ----------
    X : an array with y, sites and sample_weight; `Chunks` of one site; or a mapping of site names to arrays,
        memory-mapped arrays or `Chunks`, which then bring labels and weights themselves
    """
    sources, names = _by_site(X, y, sites, sample_weight)
    W = mixing_weights(network, names.tolist(), mixing, seed)
    seen = [_first_pass(source, name, seed) for source, name in zip(sources, names.tolist(), strict=True)]
    widths = sorted({site.sample.rows.shape[1] for site in seen})
    if len(widths) > 1:
        raise DataError(f"sites have different numbers of columns ({some(widths)}); all need the same features")
    check_sites_filled(np.array([site.mass for site in seen]), names.tolist())
    _check_observed(seen, names)
    distinct = list(dict.fromkeys(label for site in seen for label in site.labels))
    labels = encode_labels(distinct, len(distinct), n_components, unlabelled_weight, components_per_class)
    known = {} if labels.codes is None else dict(zip(distinct, labels.codes.tolist(), strict=True))

    def encode(column: NDArray) -> NDArray:
        try:
            return np.array([known[label] if is_labelled(label) else -1 for label in column.tolist()], dtype=int)
        except KeyError as error:
            raise DataError(f"a source has the label {error} it had not before; rows must stay the same") from None

    rows = Rows.of_sites(
        [source.prepared(encode) for source in sources], n_components=n_components, device=device,
        unlabelled_weight=unlabelled_weight, allowed=labels.allowed,
    )  # fmt: skip
    # starts take the labelled rows from the sample unless their sums are known
    apart = labels.allowed is not None or any(site.incomplete for site in seen)
    samples = [site.by_label if apart else site.sample for site in seen]
    _check_sampled(samples)
    return Problem(
        rows, [sample.rows for sample in samples], [sample.weights for sample in samples],
        None if labels.codes is None else [encode(sample.labels) for sample in samples], names, labels.classes,
        labels.owners, labels.allowed, W,
    )  # fmt: skip


def _check_sampled(samples: Sequence[_Drawn]) -> None:
    """Refuse features so rarely observed that no row drawn for the starts has them."""
    drawn = np.sum([(~np.isnan(sample.rows)).any(axis=0) for sample in samples], axis=0)
    for j in np.flatnonzero(drawn == 0).tolist():
        raise DataError(
            f"{column_name(j, None)!r} is observed in so few rows that none is among the {SAMPLE_ROWS} of each site "
            "that starts are found from",
            column=column_name(j, None), remedy="leave it out, or give the rows as an array in memory",
        )  # fmt: skip


def _check_observed(seen: Sequence[_Site], names: NDArray) -> None:
    """Warn of rows without a cell, and refuse features that nobody observed."""
    for site, name in zip(seen, names.tolist(), strict=True):
        warn_of_empty_rows(site.n_empty, site.first_empty, f" at site {name!r}")
    both = np.sum([site.together for site in seen], axis=0)
    refuse_unobserved(np.diagonal(both), sum(site.mass for site in seen), 0)
    warn_of_pairs(both)


def _by_site(X: Any, y: Any, sites: Any, sample_weight: Any) -> tuple[list[Chunks], NDArray]:
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise DataError(f"X must be a table of rows and columns; this array has shape {X.shape}")
        codes, names = site_of_rows(sites, len(X))
        labels = None if y is None else label_column(y, len(X))
        v = check_row_weights(sample_weight, len(X))
        if sites is None and not isinstance(X, np.memmap):
            return [of_array(X, labels, v)], names
        return [of_array(X, labels, v, rows) for rows in places_of_sites(codes)], names
    for name, given in (("y", y), ("sites", sites), ("sample_weight", sample_weight)):
        if given is not None:
            raise DataError(f"rows in chunks bring labels, site and weights themselves; leave {name} out")
    if isinstance(X, Chunks):
        return [X], np.array([0])
    if not X:
        raise DataError("the mapping of sites to rows is empty")
    codes, names = by_column(list(X))
    given = list(X.values())
    ordered: Sequence[Any] = [given[place] for place in np.argsort(codes).tolist()]
    return [source if isinstance(source, Chunks) else of_array(np.asanyarray(source)) for source in ordered], names


def _first_pass(source: Chunks, name: Any, seed: int) -> _Site:
    """Check one site's rows, and draw some of them."""
    rng = np.random.default_rng(seed)
    kept: _Drawn | None = None
    known: _Drawn | None = None  # labelled rows, of which few may be among those drawn of all
    labels: dict[Any, None] = {}
    seen, mass, n_empty, first_empty, n_known = 0, 0.0, 0, 0, 0
    both: NDArray | float = 0.0
    incomplete = False
    for chunk in source:
        n, p = chunk.values.shape
        if kept is not None and kept.rows.shape[1] != p:
            text = f"site {name!r}: a chunk has {p} columns, those before it {kept.rows.shape[1]}"
            raise DataError(text, site=name)
        try:
            check_cells(chunk.values)
            check_row_weights(chunk.weights, n)
        except DataError as error:
            text = f"site {name!r}, in the {n} rows from row {seen + 1}: {error}"
            raise DataError(text, site=name, column=error.column) from None
        v = np.ones(n) if chunk.weights is None else chunk.weights
        y = np.full(n, None) if chunk.labels is None else chunk.labels.astype(object)
        labelled = _labelled(y)
        labels |= dict.fromkeys(y[labelled].tolist())
        there = observed_rows(chunk.values)
        if not there.all():
            first_empty = first_empty if n_empty else seen + int((~there).argmax())
            n_empty += int((~there).sum())
        drawn = _Drawn(rng.random(n), chunk.values, v, y)
        kept, known = drawn.where(there).after(kept), drawn.where(there & labelled).after(known)
        n_known += int((there & labelled).sum())
        both = both + together(chunk.values, v)
        incomplete = incomplete or bool(np.isnan(chunk.values[there]).any())
        seen, mass = seen + n, mass + float(v[there].sum())
    if not seen or kept is None:
        raise DataError(f"site {name!r} has no rows", site=name)
    if seen == n_empty:
        raise DataError(f"site {name!r}: no cell of its rows is observed", site=name, remedy="leave it out")
    assert known is not None
    others = kept.where(~_labelled(kept.labels)).for_all(seen - n_empty - n_known)
    return _Site(
        kept.for_all(seen - n_empty), known.for_all(n_known).after(others, math.inf), incomplete, list(labels), mass,
        n_empty, first_empty, np.asarray(both),
    )  # fmt: skip


def _labelled(labels: NDArray) -> NDArray:
    """Which cells hold a label."""
    return np.array([is_labelled(label) for label in labels.tolist()], dtype=bool)


class _Drawn(NamedTuple):
    """Rows drawn at random so far, in their order: those with the smallest of random numbers."""

    numbers: NDArray  # (s,)
    rows: NDArray  # (s, p)
    weights: NDArray  # (s,)
    labels: NDArray  # (s,)

    def where(self, chosen: NDArray) -> _Drawn:
        """Some of these rows."""
        return _Drawn(*(part[chosen] for part in self))

    def for_all(self, n_rows: int) -> _Drawn:
        """Each row with the weight of all those that it stands for."""
        return self._replace(weights=self.weights * (n_rows / max(len(self.rows), 1)))

    def after(self, before: _Drawn | None, most: float = SAMPLE_ROWS) -> _Drawn:
        """These rows after others, at most so many."""
        parts = (
            [np.concatenate(both) for both in zip(before, self, strict=True)] if before is not None else list(self)
        )
        if len(parts[0]) > most:
            chosen = np.sort(np.argpartition(parts[0], SAMPLE_ROWS)[:SAMPLE_ROWS])
            parts = [part[chosen] for part in parts]
        return _Drawn(*(part.copy() for part in parts))
