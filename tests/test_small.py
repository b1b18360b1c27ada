"""The compiled small algebra of a round against the array-API code it stands in for, run by array-api-strict."""

import array_api_strict as strict
import numpy as np
import pytest

from gaussip.arrays import compiled
from gaussip.exchange import Stacked
from gaussip.mixture.theta import Theta, to_psi, to_theta
from gaussip.mixture.units import measure, unit_of_start
from gaussip.mixture.validity import are_mixtures, healthy
from gaussip.networks import mixing_weights

SHAPES = [((), 1, 1), ((), 3, 6), ((4,), 2, 3), ((2, 5), 3, 4)]


def random_theta(leading, K, p, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((*leading, K, p, p + 2))
    return Theta(
        rng.dirichlet(np.full(K, 5.0), size=leading), 3 + rng.standard_normal((*leading, K, p)), root @ root.mT
    )


def moved(theta):
    return Theta(*(strict.asarray(np.array(part)) for part in theta))


def test_numpy_is_compiled_and_others_are_not():
    assert compiled(np.zeros(2)).__name__ == "gaussip.kernels.cpu.small"
    assert compiled(np.zeros(2, dtype=np.float32)) is None
    assert compiled(strict.asarray([1.0])) is None


@pytest.mark.parametrize(("leading", "K", "p"), SHAPES)
@pytest.mark.parametrize("mass", [1.0, 0.03])
def test_to_theta(leading, K, p, mass):
    psi = mass * to_psi(random_theta(leading, K, p))
    for result, wanted in zip(to_theta(psi), to_theta(strict.asarray(psi)), strict=True):
        np.testing.assert_array_equal(result, np.asarray(wanted))


@pytest.mark.parametrize(("leading", "K", "p"), SHAPES)
def test_healthy(leading, K, p):
    assert np.all(healthy(random_theta(leading, K, p)))
    for part, entry, value in [
        (0, 0, 0.0), (0, 0, 1e-16), (0, 0, np.nan), (1, (0, 0), np.inf), (1, (0, 0), np.nan), (2, (0, 0, 0), -1.0),
        (2, (0, 0, 0), np.inf), (2, (0, 0, 0), np.nan), (2, (0, 0, 0), 0.0), (2, (K - 1, p - 1, p - 1), 1e-9),
    ]:  # fmt: skip
        theta = random_theta(leading, K, p)
        last = tuple(size - 1 for size in leading)
        theta[part][(*last, *np.atleast_1d(entry))] = value
        with np.errstate(invalid="ignore", divide="ignore"):
            wanted, psi = np.asarray(healthy(moved(theta))), to_psi(theta)
            assert are_mixtures(psi) == are_mixtures(strict.asarray(psi))
        np.testing.assert_array_equal(healthy(theta), wanted)


@pytest.mark.parametrize(("leading", "K", "p"), [((4,), 2, 3), ((2, 5), 3, 4), ((1,), 1, 1)])
def test_measure(leading, K, p):
    start, now = random_theta(leading, K, p), random_theta(leading, K, p, seed=1)
    unit, other = unit_of_start(start), unit_of_start(moved(start))
    last = unit.standard(to_psi(start))
    result = measure(now, unit, last)
    wanted = measure(moved(now), other, strict.asarray(last))
    for mine, theirs in zip(result, wanted, strict=True):
        np.testing.assert_allclose(mine, np.asarray(theirs), rtol=1e-13, atol=1e-15)
    now.means[(*(0 for _ in leading), 0, 0)] = np.nan
    _, change, apart = measure(now, unit, last)
    lost = np.zeros(leading[:-1], dtype=bool)
    lost[(0,) * lost.ndim] = True
    np.testing.assert_array_equal(np.isnan(change), lost)
    np.testing.assert_array_equal(np.isnan(apart), lost)


@pytest.mark.parametrize("axis", [0, 1])
def test_average(axis):
    W = mixing_weights("erdos-renyi(0.4)", range(9), "metropolis", seed=1)
    values = np.random.default_rng(0).standard_normal((3, 9, 2, 5)[1 - axis :])
    result, wanted = (Stacked(W, axis)({"mean": array})["mean"] for array in (values, strict.asarray(values)))
    np.testing.assert_array_equal(result, np.asarray(wanted))
