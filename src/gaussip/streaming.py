"""A fit's problem where rows stay on disk: the checks of `gaussip.fitting.prepare`, a chunk at a time.

One pass checks every cell, finds the classes and draws a thin sample, from which starting values are taken; two more
find each site's mean row and the sums of its labelled rows. Then every round is a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gaussip.arrays import NDArray
from gaussip.chunks import Chunks, of_array
from gaussip.data.split import by_column
from gaussip.errors import DataError
from gaussip.fitting import Problem
from gaussip.networks import mixing_weights
from gaussip.rows import Rows
from gaussip.validation import check_cells, check_row_weights, check_sites_filled, encode_labels, is_unlabelled, some

SAMPLE_ROWS = 20_000  # of each site, at most twice as many, for starting values


def on_disk(X: Any) -> bool:
    """Whether rows are given in a way that leaves them where they are."""
    return isinstance(X, (np.memmap, Chunks)) or by_name(X)


def by_name(X: Any) -> bool:
    """Whether X maps sites to their rows; some of SciPy's sparse matrices are mappings too, and are not meant."""
    return isinstance(X, Mapping) and not sparse.issparse(X)


class _Site(NamedTuple):
    """What the first pass finds at one site."""

    sample: NDArray  #: (s, p)
    weights: NDArray | None  #: (s,)
    labels: list[Any]  #: distinct, without the unlabelled
    mass: float


def prepare_on_disk(
    X: Any,
    y: Any = None,
    sites: Any = None,
    sample_weight: Any = None,
    *,
    n_components: int,
    network: Any = "circle",
    mixing: str = "row",
    seed: int = 0,
    device: str = "cpu",
) -> Problem:
    """Check rows that stay on disk, and lay them out by site.

    Parameters
    ----------
    X : `numpy.memmap` with y, sites and sample_weight as for an array; `Chunks` of one site; or a mapping of site
        names to arrays, memory-mapped arrays or `Chunks`, which then bring labels and weights themselves
    """
    sources, names = _by_site(X, y, sites, sample_weight)
    W = mixing_weights(network, names.tolist(), mixing, seed)
    seen = [_first_pass(source, name) for source, name in zip(sources, names.tolist(), strict=True)]
    widths = sorted({site.sample.shape[1] for site in seen})
    if len(widths) > 1:
        raise DataError(f"sites have different numbers of columns ({some(widths)}); all need the same features")
    check_sites_filled(np.array([site.mass for site in seen]), names.tolist())
    distinct = list(dict.fromkeys(label for site in seen for label in site.labels))
    codes, classes = encode_labels(distinct or None, len(distinct), n_components)
    known = {} if codes is None else dict(zip(distinct, codes.tolist(), strict=True))

    def encode(labels: NDArray) -> NDArray:
        return np.array([-1 if is_unlabelled(v) else known[v] for v in labels.tolist()], dtype=int)

    labelled = [source.map_labels(encode) for source in sources]
    rows = Rows.of_sites(labelled, n_components=n_components, device=device)
    weights = [site.weights for site in seen]
    sampled = None if any(v is None for v in weights) else [v for v in weights if v is not None]
    return Problem(rows, [site.sample for site in seen], sampled, names, classes, W)


def _by_site(X: Any, y: Any, sites: Any, sample_weight: Any) -> tuple[list[Chunks], NDArray]:
    if isinstance(X, np.memmap):
        if X.ndim != 2:
            raise DataError(f"X must be a table of rows and columns; this array has shape {X.shape}")
        codes, names = (np.zeros(len(X), dtype=int), np.array([0])) if sites is None else by_column(sites)
        if len(codes) != len(X):
            raise DataError(f"sites has {len(codes)} entries for {len(X)} rows")
        labels = None if y is None else np.asarray(y, dtype=object if isinstance(y, (list, tuple)) else None)
        if labels is not None and labels.shape != (len(X),):
            raise DataError(f"y has shape {labels.shape}; {len(X)} rows need ({len(X)},)")
        v = check_row_weights(sample_weight, len(X))
        return [of_array(X, labels, v, np.flatnonzero(codes == m)) for m in range(len(names))], names
    for name, given in (("y", y), ("sites", sites), ("sample_weight", sample_weight)):
        if given is not None:
            raise DataError(f"rows in chunks bring labels, site and weights themselves; leave {name} out")
    if isinstance(X, Chunks):
        return [X], np.array([0])
    if not X:
        raise DataError("the mapping of sites to rows is empty")
    codes, names = by_column(list(X))
    given = list(X.values())
    ordered: Sequence[Any] = [given[int(np.flatnonzero(codes == m)[0])] for m in range(len(names))]
    return [source if isinstance(source, Chunks) else of_array(np.asanyarray(source)) for source in ordered], names


def _first_pass(source: Chunks, name: Any) -> _Site:
    """Check one site's rows; every so many-th is kept."""
    rows: list[NDArray] = []
    weights: list[NDArray] = []
    labels: dict[Any, None] = {}
    step, seen, mass = 1, 0, 0.0
    for chunk in source:
        p = chunk.values.shape[1]
        if rows and rows[0].shape[1] != p:
            raise DataError(f"site {name!r}: a chunk has {p} columns, those before it {rows[0].shape[1]}")
        try:
            check_cells(chunk.values, [f"column {j}" for j in range(p)])
            check_row_weights(chunk.weights, len(chunk.values))
        except DataError as error:
            raise DataError(f"site {name!r}, in the {len(chunk.values)} rows from row {seen + 1}: {error}") from None
        v = np.ones(len(chunk.values)) if chunk.weights is None else chunk.weights
        if chunk.labels is not None:
            labels |= dict.fromkeys(label for label in chunk.labels.tolist() if not is_unlabelled(label))
        first = -seen % step
        rows.append(chunk.values[first::step].copy())
        weights.append(v[first::step].copy())
        seen, mass = seen + len(v), mass + float(v.sum())
        while sum(map(len, rows)) > 2 * SAMPLE_ROWS:
            rows, weights, step = [np.concatenate(rows)[::2]], [np.concatenate(weights)[::2]], 2 * step
    if not seen:
        raise DataError(f"site {name!r} has no rows")
    return _Site(np.concatenate(rows), np.concatenate(weights), list(labels), mass)
