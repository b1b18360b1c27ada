"""A search over rows with missing cells or label sets: the likelihood it reports is that of its own mixture."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from gaussip import NetworkGaussianMixture
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import pack
from gaussip.phases.task import LocalData, make_task
from gaussip.selection import choose_components
from programs import run_all, settings

SITES = ("Basel", "Bern", "Chur")


def four_groups(missing, sets):
    """Rows in four groups, of which two are classes with some labels; label 2 stands for either class."""
    rng = np.random.default_rng(0)
    group = rng.integers(4, size=600)
    X = np.column_stack([6 * (group % 2), 6 * (group // 2), np.zeros(600)]) + rng.normal(size=(600, 3))
    y = np.where((rng.random(600) < 0.4) & (group < 2), group, -1)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
        some = ~np.isnan(X).all(axis=1)
        X, y = X[some], y[some]
    if sets:
        y = np.where((y >= 0) & (rng.random(len(y)) < 0.3), 2, y)
    return X, y, np.array(SITES)[np.arange(len(X)) % 3]


def as_given(y):
    """Labels as a user gives them."""
    cells = np.empty(len(y), dtype=object)
    for i, code in enumerate(y.tolist()):
        cells[i] = [None, 0, 1, {0, 1}][code + 1]
    return cells


def by_hand(mixture, X, y):
    """The log-likelihood per row, a row at a time, with SciPy's densities."""
    total = 0.0
    for x, code in zip(X, y.tolist(), strict=True):
        o = ~np.isnan(x)
        components = [range(len(mixture.weights_)), [0], [1], [0, 1]][code + 1]
        total += logsumexp([
            np.log(mixture.weights_[k])
            + multivariate_normal.logpdf(x[o], mixture.means_[k][o], mixture.covariances_[k][np.ix_(o, o)])
            for k in components
        ])  # fmt: skip
    return total / len(X)


@pytest.mark.parametrize(("missing", "sets"), [(True, False), (False, True), (True, True)])
def test_a_search_with_labels_reports_its_own_likelihood(missing, sets):
    X, y, sites = four_groups(missing, sets)
    mixture = NetworkGaussianMixture(4, init_params="search", random_state=3, network="ring", min_count=1)
    mixture.fit(X, as_given(y), sites=sites)
    assert mixture.lower_bound_ == pytest.approx(by_hand(mixture, X, y), abs=1e-5)
    np.testing.assert_allclose(mixture.weights_, 0.25, atol=0.04)
    task = make_task(
        SITES,
        **settings("masked", 3, n_components=4, owners=Owners((1, 1)), start="search", max_rounds=1000,
                   tol=mixture.tol, min_count=mixture.min_count),
    )  # fmt: skip
    here = [sites == name for name in SITES]
    programs = run_all(task, [LocalData(X[m], y[m], None, ((0, 1),) if sets else ()) for m in here])
    ends = np.array([pack(program.estimate()) for program in programs])
    np.testing.assert_array_equal(ends, np.broadcast_to(pack(mixture._theta()), ends.shape))


def test_more_components_are_never_less_likely():
    X, y, sites = four_groups(missing=True, sets=False)
    found = choose_components(X, as_given(y), sites=sites, at_least=2, at_most=5, random_state=0, min_count=1)
    assert found.n_components == 4
    heights = [line.log_likelihood for line in found.lines]
    assert np.all(np.diff(heights) > 0)
