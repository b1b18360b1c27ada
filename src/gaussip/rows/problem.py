"""From a user's arrays to a checked problem over sites, and to its starting values."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gaussip.arrays import NDArray, to_device
from gaussip.errors import DataError, Text, some
from gaussip.mixture.owners import Owners
from gaussip.networks import mixing_weights
from gaussip.rows.cells import observed_rows, refuse_unobserved, together, warn_of_empty_rows, warn_of_pairs
from gaussip.rows.checks import check_cells, check_row_weights, check_sites_filled
from gaussip.rows.groups import Allowed
from gaussip.rows.held import Held
from gaussip.rows.labels import encode_labels
from gaussip.rows.rows import Rows
from gaussip.rows.sites import places_of_sites, site_of_rows


def seeds_of(random_state: Any, n_init: int) -> list[int]:
    """The seed of a random network, and one for each start, from what scikit-learn takes for a random state."""
    if isinstance(random_state, Integral):
        state = np.random.RandomState(int(random_state))
    else:
        from sklearn.utils import check_random_state  # not when a site starts

        state = check_random_state(random_state)
    return [int(s) for s in state.randint(2**31 - 1, size=1 + n_init)]


def not_empty(X: NDArray, codes: NDArray, names: Sequence[Any]) -> NDArray:
    """Which rows (n,) have an observed cell, with a warning of the others; refused where a site has no such row."""
    there = observed_rows(X)
    if not there.all():
        warn_of_empty_rows(int((~there).sum()), int((~there).argmax()))
        left = np.bincount(codes[there], minlength=len(names))
        gone = [name for name, n in zip(names, left, strict=True) if not n]
        if gone:
            raise DataError(
                f"site {some(gone)}: no cell of its rows is observed", site=gone[0], remedy="leave it out"
            )
    return there


class Problem(NamedTuple):
    """Checked input: rows by site, labels as component numbers, and the weights of the network."""

    rows: Rows
    values: list[NDArray]  #: (n_m, p) of each site
    weights: list[NDArray] | None  #: (n_m,) row weights of each site
    labels: list[NDArray] | None  #: (n_m,) numbers of labels, -1 where there is none
    sites: NDArray  #: (M,), sorted names
    classes: NDArray  #: (C,), sorted names
    owners: Owners  #: their components
    allowed: Allowed | None  #: the components of each number of a label; None where number k is component k
    W: sparse.csr_array

    @property
    def held(self) -> Held:
        """The rows as the questions of all sites want them."""
        return Held.everything(self.rows, self.values, self.weights, self.labels, self.owners)


def prepare(
    X: NDArray,
    y: Any = None,
    sites: Any = None,
    sample_weight: Any = None,
    *,
    n_components: int,
    network: Any = "circle",
    mixing: str = "row",
    seed: int = 0,
    device: str = "cpu",
    columns: Sequence[str] | None = None,
    unlabelled_weight: float = 1.0,
    components_per_class: int | Mapping[Any, int] = 1,
) -> Problem:
    """Check everything a fit is given, X (n, p) of floats, and lay it out by site; ``columns`` are their names.

    A row of which nothing is observed is left out.
    """
    n = len(X)
    check_cells(X, columns)
    v = check_row_weights(sample_weight, n)
    labels = encode_labels(y, n, n_components, unlabelled_weight, components_per_class)
    codes, names = site_of_rows(sites, n)
    there = not_empty(X, codes, names.tolist())
    if there.sum() < n_components:
        text = Text("{n_components:{K}} is more than the n_samples={n} rows", K=n_components, n=int(there.sum()))
        raise DataError(text, setting="n_components")
    W = mixing_weights(network, names.tolist(), mixing, seed)

    places = [rows[there[rows]] for rows in places_of_sites(codes)]

    def by_site(column: NDArray) -> list[NDArray]:
        return [column[rows] for rows in places]

    values = by_site(X)
    weights = None if v is None else by_site(v)
    if weights is not None:
        check_sites_filled(np.array([w.sum() for w in weights]), names.tolist())
    known = None if labels.codes is None else by_site(labels.codes)
    rows = Rows.of_sites(
        [to_device(x, device) for x in values],
        known,
        None if weights is None else [to_device(w, device) for w in weights],
        n_components,
        unlabelled_weight=unlabelled_weight,
        allowed=labels.allowed,
    )
    problem = Problem(rows, values, weights, known, names, labels.classes, labels.owners, labels.allowed, W)
    if rows.incomplete:
        refuse_unobserved(problem.held.seen.sum(axis=0), float(problem.held.counts.sum()), 0, columns)
        both = [together(x, None if weights is None else weights[m]) for m, x in enumerate(values)]
        warn_of_pairs(np.sum(both, axis=0), columns)
    return problem
