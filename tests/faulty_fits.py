"""Fits that each have one fault which diagnosis should find."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from gaussip import NetworkGaussianMixture
from gaussip.diagnosis import diagnose
from gaussip.mixture.theta import reorder
from gaussip.studies.simulation_model import Setting, draw

quiet = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::gaussip.errors.PooledTargetWarning",
    "ignore::gaussip.errors.DiagnosisWarning",
)  # fmt: skip


def rows_of(K=3, seed=21, **changes):
    weights = np.arange(K, 0, -1) / (K * (K + 1) / 2)
    given = {"n_rows": 1600, "n_sites": 6, "n_features": 3, "delta": 3.0, "spread": "homogeneous"} | changes
    return draw(Setting(weights=tuple(weights), correlations=tuple(np.linspace(0.5, -0.1, K)), **given), seed)


def fit(data, K=3, labels=False, **settings):
    mixture = NetworkGaussianMixture(K, **{"random_state": 1, "algorithm": "exact", **settings})
    return mixture.fit(data.X, data.labels if labels else None, sites=data.sites)


def too_few_rounds():
    return fit(rows_of(), algorithm="mnem", eta=0.02, max_rounds=400)


def large_step():
    return fit(rows_of(2), 2, algorithm="ngd", network="complete", eta=0.8, max_rounds=200)


@cache
def overlapping():
    data = rows_of(delta=0.8, n_rows=3000)
    return fit(data, network="complete", max_rounds=10_000, means_init=data.truth.means)


def unfair():
    return fit(
        rows_of(spread="heterogeneous"), algorithm="mnem", network="fixed-degree(2)", eta=0.05, max_rounds=2000
    )


def repeated_rows():
    data = rows_of(2)
    data.X[::40] = -9.0
    return fit(data, max_rounds=2000, degenerate="keep")


def hundredths():
    data = rows_of(2)
    data.X[data.sites == 3, 1] *= 100
    return fit(data, 2, max_rounds=2000)


def twins():
    data = rows_of(2)
    begin = reorder(data.truth, np.array([0, 1, 1]))
    return fit(
        data, weights_init=[0.4, 0.3, 0.3], means_init=begin.means, covariances_init=begin.covariances, max_rounds=500
    )


def one_too_many():
    return fit(rows_of(2), network="complete", max_rounds=400)


def other_units():
    data = rows_of()
    data.X[data.sites == 3] *= 2
    return fit(data, algorithm="mnem", eta=0.05, max_rounds=3000)


def slow_together():
    return fit(rows_of(delta=1.0), network="complete", max_rounds=120)


def far_apart():
    return fit(rows_of(spread="heterogeneous"), algorithm="mnem", eta=0.2, max_rounds=1000)


FAULTS = {
    "not enough rounds": too_few_rounds, "step too large": large_step, "poor separation": overlapping,
    "unbalanced network": unfair, "collapsed component": repeated_rows, "duplicated component": twins,
    "too many components": one_too_many, "a site pulls away": other_units,
    "agreed but still moving": slow_together, "settled apart": far_apart, "far wider component": hundredths,
}  # fmt: skip


def found(run):
    return {finding.name: finding for finding in diagnose(run)}
