"""The reference runs on any array library: array-api-strict allows nothing but the standard."""

import array_api_strict as strict
import numpy as np
import pytest

from gaussip.algorithms import REGISTRY, make
from gaussip.moments import moments
from gaussip.networks import mixing_weights
from gaussip.parameters import Theta
from gaussip.rows import Rows
from gaussip.simulation import simulate


def strict_rows(dataset):
    values = [strict.asarray(x) for x in dataset.by_site(dataset.X)]
    return Rows.of_sites(values, dataset.by_site(dataset.labels), None, 3)


def test_moments(dataset, rows, start):
    everywhere = Theta(*(np.broadcast_to(part, (*rows.shape, *part.shape)) for part in start))
    wanted = moments(rows, everywhere, 1e-3)
    found = moments(strict_rows(dataset), Theta(*(strict.asarray(part.copy()) for part in everywhere)), 1e-3)
    for part, exact in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(part), exact, rtol=1e-13)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_algorithm(name, dataset, rows, start):
    W = mixing_weights("circle(2)", range(5))
    settings = {"max_rounds": 5, "reg_covar": 1e-3, "weighting": "rows"}
    wanted = simulate(make(name, 0.05), start, rows, W, **settings)
    on_strict = Theta(*map(strict.asarray, start))
    found = simulate(make(name, 0.05), on_strict, strict_rows(dataset), W, **settings)
    for part, exact in zip(found.theta, wanted.theta, strict=True):
        np.testing.assert_allclose(np.asarray(part), exact, rtol=1e-10, atol=1e-12)
