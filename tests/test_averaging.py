"""Averages over a network, by exchanges with neighbours alone."""

from __future__ import annotations

import numpy as np
import pytest
from gaussip.phases.averaging import average, plan_of

from gaussip.errors import NetworkError
from gaussip.networks import mixing_weights

NETWORKS = {  # and the fewest sites of each
    "complete": 1, "ring": 1, "circle": 1, "circle(3)": 4, "star": 1, "grid": 1, "chain": 1, "random-regular(4)": 5,
    "fixed-degree(3)": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("network", "n_sites"),
    [(name, n) for name, least in NETWORKS.items() for n in (1, 2, 3, 8, 20, 60) if n >= least],
)
def test_every_site_ends_with_the_average(network, n_sites):
    W = mixing_weights(network, range(n_sites), seed=1)
    values = np.random.default_rng(n_sites).lognormal(sigma=4, size=(n_sites, 50))
    np.testing.assert_allclose(average(values, W), np.broadcast_to(values.mean(axis=0), values.shape), rtol=1e-11)


def test_few_eigenvalues_need_few_exchanges():
    """A ring averages in as many exchanges as it is wide, a complete one at once, a circle in a turn."""
    counts = {
        name: len(plan_of(mixing_weights(name, range(20))).steps) for name in ("ring", "complete", "star", "circle")
    }
    assert counts == {"ring": 10, "complete": 1, "star": 2, "circle": 19}


def test_a_network_that_cannot_average_exactly_is_refused():
    W = np.eye(60, k=1) * 0.999 + np.eye(60) * 0.001
    W[-1, :] = 0.0
    W[-1, 0] = 1.0
    W[30, 30], W[30, 31] = 1 - 1e-13, 1e-13
    with pytest.raises(NetworkError, match="averages over this network of 60 sites would not be exact"):
        plan_of(W)
