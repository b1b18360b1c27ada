"""Collapsing components: the culprit is named, and others go on."""

import numpy as np
import pytest

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import make
from gaussip.errors import (
    CollapseError,
)
from gaussip.mixture.theta import Theta
from gaussip.networks import mixing_weights
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate


def test_collapse_says_where_when_and_what_to_try(data):
    start = {"weights_init": [0.3, 0.3, 0.4], "covariances_init": np.stack([np.eye(3)] * 3)}
    far = data.truth.means.copy()
    far[1] += 1e3
    with pytest.raises(CollapseError, match=r"component 1 collapsed at site 0 in round \d+: .*try fewer") as caught:
        NetworkGaussianMixture(3, algorithm="nnem", means_init=far, **start).fit(data.X, sites=data.sites)
    assert caught.value.component == 1
    assert caught.value.round == 1
    singular = np.repeat(data.X[:, :1], 3, axis=1)  # three times the same column, no ridge
    with pytest.raises(CollapseError, match="not positive definite"):
        NetworkGaussianMixture(2, reg_covar=0, random_state=0).fit(singular)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_the_component_at_fault_is_named_whatever_the_scales(scale):
    rng = np.random.default_rng(0)
    X = np.column_stack([scale * (rng.normal(size=400) + np.repeat([-10, 10], 200)), np.ones(400)])
    start = Theta(
        np.full(2, 0.5), np.array([[-10 * scale, 1], [10 * scale, 1]]), np.stack([np.diag([scale**2, 1.0])] * 2)
    )  # fmt: skip
    rows = Rows.of_sites(np.split(X, 4))
    with pytest.raises(CollapseError, match="component 1 collapsed at site 0 in round 1: its weight vanished"):
        simulate(make("nnem", 1), start, rows, mixing_weights("circle", range(4)), max_rounds=3, reg_covar=1e-6)


@pytest.mark.parametrize("algorithm", ["nnem", "ngd"])
def test_the_site_at_fault_is_named_in_the_round_it_happened(algorithm):
    """Site 3 alone is at fault, and hears and is heard by others."""
    rng = np.random.default_rng(0)
    values = [np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(8, 1, (50, 2))]) for _ in range(5)]
    values[3] = values[3][:50] * 0.1 if algorithm == "nnem" else values[3] * 1e-3  # no second group; too narrow
    start = Theta(np.full(2, 0.5), np.array([[0.0, 0], [8, 8]]), np.stack([np.eye(2)] * 2))
    W = mixing_weights("circle", range(5))
    with pytest.raises(CollapseError) as caught:
        simulate(make(algorithm, 1.0), start, Rows.of_sites(values), W, max_rounds=3)
    assert caught.value.site == 3
    assert caught.value.round == 1


def test_a_replicate_s_collapse_leaves_the_others_alone(data):
    rows = Rows.of_sites(data.by_site(data.X))
    bad = data.truth._replace(covariances=data.truth.covariances * np.array([-0.1, 1, 1])[:, None, None])
    start = Theta(*(np.stack(parts)[:, None] for parts in zip(data.truth, bad, strict=True)))
    W = mixing_weights("circle", range(6))
    both = simulate(make("mnem", 0.1), start, Rows.stack([rows, rows]), W, max_rounds=5, record_collapse=True)
    alone = simulate(make("mnem", 0.1), data.truth, rows, W, max_rounds=5)
    assert both.collapsed[0] == 0
    assert both.collapsed[1] == 1
    assert "component 0" in str(both.collapse)
    np.testing.assert_array_equal(both.theta.means[0], alone.theta.means)
    assert both.history.bytes.tolist() == alone.history.bytes.tolist()  # looking into the collapse sends nothing


def test_the_last_estimate_is_checked_too(data):
    narrow = np.stack([np.eye(3) * 0.05] * 3)  # far too narrow: one gradient step overshoots
    start = data.truth._replace(covariances=narrow)
    rows = Rows.of_sites(data.by_site(data.X))
    with pytest.raises(CollapseError, match=r"in round 1: .*not positive definite"):
        simulate(make("ngd", 1.0), start, rows, mixing_weights("circle", range(6)), max_rounds=1)
