import numpy as np
import pytest

from gaussip.algorithms import make
from gaussip.mixture.theta import Theta, at, to_psi
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate
from gaussip.studies.simulation_model import Setting, draw
from gaussip.studies.theory import contraction, heterogeneity, site_maps


def rows_of(data, semi=False):
    return Rows.of_sites(data.by_site(data.X), data.by_site(data.labels) if semi else None, None, 3)


def test_pooled_estimate_is_the_mean_map_s_fixed_point():
    data = draw(Setting(n_rows=2000, n_sites=5, n_features=2, delta=3), 0)
    theta = simulate(make("em", 1), data.truth, rows_of(data), np.eye(5), max_rounds=3000, tol=1e-13).theta
    pooled = at(theta, 0)
    maps = site_maps(rows_of(data), to_psi(pooled))
    np.testing.assert_allclose(maps.mean(axis=0), to_psi(pooled), atol=1e-11)


def test_heterogeneity_separates_sorted_from_dealt_rows():
    small, large = (draw(Setting(n_rows=n, n_sites=10, spread="homogeneous"), 1) for n in (4000, 36000))
    sorted_ = draw(Setting(n_rows=4000, n_sites=10), 1)
    dealt = [heterogeneity(rows_of(data), data.truth) for data in (small, large)]
    assert heterogeneity(rows_of(sorted_), sorted_.truth) > 5 * dealt[0]
    assert dealt[0] / dealt[1] == pytest.approx(3, rel=0.25)  # O(n^(-1/2))


def drawn(delta, labelled=0.0, n=4000):
    return draw(Setting(n_rows=n, n_sites=2, n_features=2, delta=delta, spread="homogeneous", labelled=labelled), 3)


def pooled(data, semi=False):
    plain = make("em", 1, accelerate=False)
    run = simulate(plain, data.truth, rows_of(data, semi), np.eye(2), max_rounds=5000, tol=1e-12)
    return at(run.theta, 0), run.history


@pytest.mark.parametrize("delta", [2, 4])
def test_the_rate_is_em_s_own(delta):
    data = drawn(delta)
    theta, history = pooled(data)
    change = history.change[history.change > 1e-9]
    assert contraction(rows_of(data), theta).rate == pytest.approx(change[-1] / change[-2], rel=1e-3)


def test_the_rate_does_not_depend_on_units():
    data = drawn(2)
    found = contraction(rows_of(data), data.truth)
    scale, shift = np.array([1e5, 1e-3]), np.array([1e6, 3.0])
    moved = data._replace(X=data.X * scale + shift)
    truth = Theta(
        data.truth.weights, data.truth.means * scale + shift, data.truth.covariances * scale[:, None] * scale
    )  # fmt: skip
    assert contraction(rows_of(moved), truth).rate == pytest.approx(found.rate, rel=1e-4)


def test_labels_shrink_the_contraction_by_one_minus_r():
    r = 0.5
    data = drawn(2, labelled=r, n=40_000)
    free, semi = contraction(rows_of(data), data.truth), contraction(rows_of(data, semi=True), data.truth)
    assert semi.norm / free.norm == pytest.approx(1 - r, rel=0.03)
    assert semi.rate / free.rate == pytest.approx(1 - r, rel=0.03)


def test_separation_speeds_em_up_and_all_labels_leave_nothing_to_do():
    rates = [contraction(rows_of(drawn(delta)), drawn(delta).truth).rate for delta in (1, 2, 4)]
    assert rates[0] > rates[1] > rates[2]
    data = drawn(1, labelled=1.0)
    theta, _ = pooled(data, semi=True)
    assert contraction(rows_of(data, semi=True), theta).norm < 1e-4
