"""A look at a table of all sites before a fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import MissingCellsWarning, some
from gaussip.inspection import concerns
from gaussip.inspection.concerns import Concern, in_order
from gaussip.inspection.features import concerns_of
from gaussip.inspection.values import KNOWN_CODES, Values
from gaussip.rows.cells import never_together, together
from gaussip.rows.checks import check_cells, check_row_weights, check_sites_filled, column_name
from gaussip.rows.frames import as_table, by_column_name
from gaussip.rows.labels import encode_labels
from gaussip.rows.sites import places_of_sites, site_of_rows
from gaussip.settings import default


class Cells(NamedTuple):
    """The cells of one feature at one site; the numbers after ``distinct`` are NaN where all are missing."""

    feature: str
    site: Any
    rows: int
    missing: int
    distinct: int  #: different values
    least: float
    low: float  #: the quantile at 0.05
    median: float
    high: float  #: at 0.95
    largest: float

    @classmethod
    def of(cls, feature: str, site: Any, rows: int, values: Values) -> Cells:
        """From the values that are not missing."""
        five = map(values.quantile, (0.0, 0.05, 0.5, 0.95, 1.0))
        return cls(feature, site, rows, rows - values.n, len(values), *five)


class TableCheck(NamedTuple):
    """What a look at a table found."""

    features: list[str]
    sites: list[Any]  #: sorted names
    rows: NDArray  #: (M,), those that count
    classes: list[Any]
    labelled: NDArray  #: (M, C), labelled rows by site and class
    cells: list[Cells]  #: feature by feature, site by site
    concerns: list[Concern]

    @property
    def found_at(self) -> dict[tuple[str, Any], list[str]]:
        """The names of what was found, by feature and site."""
        found: dict[tuple[str, Any], list[str]] = {}
        for concern in self.concerns:
            for place in ((feature, site) for feature in concern.features for site in concern.sites):
                found.setdefault(place, []).append(concern.name)
        return found


def check_table(
    X: Any,
    y: Any = None,
    *,
    sites: Any = None,
    sample_weight: Any = None,
    watch: Callable[[int], None] = lambda done: None,
) -> TableCheck:
    """Look at rows before a fit: codes for missing cells, few values, heaps, other units at a site, and so on.

    Parameters
    ----------
    X : (n, p), an array or a frame, of which y, sites and sample_weight may name columns; a missing cell is NaN
    y : (n,) labels, -1, None or NaN where unlabelled
    sites : (n,) name of the site of each row
    sample_weight : (n,); rows of weight zero are left out, all others are looked at alike
    watch : called after each feature with their number so far

    Examples
    --------
    >>> import numpy as np
    >>> from gaussip.inspection import check_table
    >>> ages = np.random.default_rng(0).normal(60, 9, size=100).round()
    >>> ages[::20] = -9
    >>> check_table(ages[:, None]).concerns[0].sentence
    '-9 stands in 5 of 100 cells, apart from all others (39 to 78)'
    """
    X, y, sites, sample_weight = by_column_name(X, y, sites, sample_weight)
    table, columns = as_table(X)
    check_cells(table, columns)
    weights = check_row_weights(sample_weight, len(table))
    codes, names = site_of_rows(sites, len(table))
    labels = encode_labels(y, len(table), len(table))
    places = places_of_sites(codes)
    if weights is not None:
        check_sites_filled(np.array([weights[rows].sum() for rows in places]), names.tolist())
        places = [rows[weights[rows] > 0] for rows in places]
    features = [column_name(j, columns) for j in range(table.shape[1])]
    known, cells, found = names.tolist(), [], []
    for j, feature in enumerate(features):
        column = np.ascontiguousarray(table[:, j])
        parts = [Values.of(column[rows]) for rows in places]
        cells += [Cells.of(feature, known[m], len(places[m]), part) for m, part in enumerate(parts)]
        found += concerns_of(feature, parts, known)
        watch(j + 1)
    found += _apart(table, features, places)
    C = len(labels.classes)
    labelled = np.zeros((len(known), C), dtype=int)
    if labels.codes is not None:
        labelled += np.stack([np.bincount(labels.codes[rows] + 1, minlength=C + 1)[1 : C + 1] for rows in places])
    found += _few_labelled(labels.classes.tolist(), labelled, known)
    return TableCheck(
        features, known, np.array([len(rows) for rows in places]), labels.classes.tolist(), labelled, cells,
        in_order(found),
    )  # fmt: skip


def warn_of_columns(X: Any, sites: Any = None, *, constants: bool = True) -> None:
    """Warn of columns of rows (n, p) that are constant, or whose least or largest number looks like a code."""
    table, columns = as_table(X)
    codes, names = site_of_rows(sites, len(table))
    places = places_of_sites(codes)
    for j in range(table.shape[1]):
        there = table[~np.isnan(table[:, j]), j]
        ends = [there.min(), there.max()] if there.size else []
        if not ends or (ends[0] < ends[1] and not np.isin(ends, KNOWN_CODES).any()):
            continue
        parts = [Values.of(table[rows, j]) for rows in places]
        for concern in concerns_of(column_name(j, columns), parts, names.tolist()):
            if concern.name in ((concerns.CODE, concerns.CONSTANT) if constants else (concerns.CODE,)):
                where = "" if sites is None or ends[0] == ends[1] else f" at site {some(concern.sites)}"
                text = f"{concern.features[0]!r}{where}: {concern.sentence}; {concern.remedy}"
                warnings.warn(text, MissingCellsWarning, stacklevel=2)


def _apart(table: NDArray, features: list[str], places: list[NDArray]) -> list[Concern]:
    """Features that somebody recorded, but never together."""
    rows = table[np.concatenate(places)]
    recorded = np.flatnonzero(~np.isnan(rows).all(axis=0))
    if not np.isnan(rows[:, recorded]).any():
        return []
    pairs = never_together(together(rows[:, recorded]))
    return [concerns.never_together(features, recorded[pairs])] if len(pairs) else []


def _few_labelled(classes: list[Any], labelled: NDArray, sites: list[Any]) -> list[Concern]:
    least, total = default("min_count"), labelled.sum(axis=0)
    return [
        concerns.few_labelled(name, int(total[c]), least, tuple(sites[m] for m in np.flatnonzero(labelled[:, c])))
        for c, name in enumerate(classes)
        if total[c] < least
    ]
