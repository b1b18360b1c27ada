"""Algebra that must hold, whatever the code."""

import numpy as np
import pytest

from gaussip.algorithms import make
from gaussip.algorithms.ngd import gradient, onto_simplex
from gaussip.errors import PooledTargetWarning
from gaussip.mixture.theta import at, broadcast, distance, pack, to_psi, to_theta, unpack
from gaussip.networks import mixing_weights
from gaussip.rows.moments import moments, summary
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate
from gaussip.studies.simulation_model import Setting, draw, paper_start


def of(data, semi=False, weights=None):
    return Rows.of_sites(data.by_site(data.X), data.by_site(data.labels) if semi else None, weights, 3)


def pooled(data, start, semi=False):
    theta = simulate(
        make("em", 1), start, of(data, semi), np.eye(len(set(data.sites))), max_rounds=5000, tol=1e-13
    ).theta
    return at(theta, 0)


def test_same_rows_everywhere_make_mnem_the_damped_iteration_of_f(dataset, start):
    X, labels = dataset.X[:700], dataset.labels[:700]
    eta = 0.1
    rows = Rows.of_sites([X] * 5, [labels] * 5, None, 3)
    found = simulate(make("mnem", eta), start, rows, mixing_weights("circle", range(5)), max_rounds=100)
    alone = rows.site(0)
    psi = to_psi(start)
    for _ in range(100):
        psi = (1 - eta) * psi + eta * summary(moments(alone, to_theta(psi)))
    for m in range(5):
        mine = to_psi(at(found.theta, m))
        np.testing.assert_allclose(mine, psi, rtol=0, atol=1e-10)


def test_whole_sample_em_is_pooled_whatever_the_weighting():
    data = draw(Setting(n_rows=2000, n_sites=4, n_features=3, size_ratio=10), 1)
    pooled = simulate(make("em", 1), data.truth, Rows.of_sites([data.X]), np.eye(1), max_rounds=20).theta
    for weighting in ("rows", "equal"):
        found = simulate(make("em", 1), data.truth, of(data), np.eye(4), max_rounds=20, weighting=weighting).theta
        np.testing.assert_allclose(pack(found)[2], pack(pooled)[0], rtol=1e-10)


def test_all_labelled_em_is_the_closed_form():
    data = draw(Setting(n_rows=2000, n_sites=4, n_features=3, labelled=1.0, size_ratio=3), 1)
    found = simulate(make("em", 1), data.truth, of(data, semi=True), np.eye(4), max_rounds=1).theta
    for k in range(3):
        mine = data.X[data.classes == k]
        np.testing.assert_allclose(found.weights[0, k], len(mine) / 2000, rtol=1e-12)
        np.testing.assert_allclose(found.means[0, k], mine.mean(axis=0), rtol=1e-10)
        np.testing.assert_allclose(found.covariances[0, k], np.cov(mine.T, bias=True), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["circle", "fixed-degree(2)", "star"])
def test_all_labelled_mnem_s_steady_state(name):
    """(alpha, beta) = eta (I - (1-eta) W)^(-1) (A_m, B_m), by the paper's equal weighting."""
    data = draw(Setting(n_rows=2000, n_sites=8, n_features=3, labelled=1.0), 2)
    eta, W = 0.2, mixing_weights(name, range(8), seed=3)
    rows = of(data, semi=True)
    found = simulate(make("mnem", eta), data.truth, rows, W, max_rounds=400, weighting="equal").theta
    everywhere = broadcast(data.truth, (8,))
    mapped = summary(moments(rows, everywhere))[..., :4]  # A and B
    solve = eta * np.linalg.inv(np.eye(8) - (1 - eta) * W.toarray())
    psi = to_psi(found)
    np.testing.assert_allclose(psi[..., :4], np.tensordot(solve, mapped, axes=1), rtol=1e-10)


@pytest.mark.parametrize("mixing", ["row", "metropolis"])
def test_all_labelled_dem_s_steady_state(mixing):
    """x = (I + L)^(-1) u with L the Laplacian of who hears whom (weighted as W is), whatever eta."""
    data = draw(Setting(n_rows=2000, n_sites=6, n_features=2, labelled=1.0), 3)
    W = mixing_weights("grid", range(6), mixing)
    rows = of(data, semi=True)
    found = simulate(make("dem", 0.2), data.truth, rows, W, max_rounds=400, weighting="equal").theta
    everywhere = broadcast(data.truth, (6,))
    A = summary(moments(rows, everywhere))[..., 0]
    hears = (W.toarray() > 0) & ~np.eye(6, dtype=bool)
    degree = hears.sum(axis=1)
    laplacian = np.diag(degree) - hears if mixing == "row" else degree[:, None] * (np.eye(6) - W.toarray())
    np.testing.assert_allclose(found.weights, np.linalg.solve(np.eye(6) + laplacian, A), rtol=1e-10)


@pytest.mark.parametrize("semi", [False, True])
def test_ngd_s_gradient_is_the_likelihood_s(dataset, start, semi):
    """Central differences of -log-likelihood / n in (alpha, mu, vech Sigma)."""
    rows = of(dataset, semi).site(2)
    at, step = np.ravel(pack(start)), 1e-6

    def loss(vector):
        found = moments(rows, unpack(vector.reshape(pack(start).shape)))
        return -found.log_likelihood / found.mass

    numeric = np.array(
        [(loss(at + step * e) - loss(at - step * e)) / (2 * step) for e in np.eye(at.size)]
    )  # fmt: skip
    # the likelihood of unnormalised weights: labelled rows have log alpha_k, unlabelled log sum alpha_k phi_k
    np.testing.assert_allclose(np.ravel(gradient(start, moments(rows, start))), numeric, rtol=1e-5, atol=1e-7)


def test_projection_onto_the_simplex():
    rng = np.random.default_rng(0)
    points = rng.normal(0, 1, (200, 4))
    found = onto_simplex(points)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (found >= 0).all()
    corners = rng.dirichlet(np.ones(4), 200)  # nearest point: the angle to any other point of the simplex is obtuse
    assert (np.einsum("ij,ikj->ik", points - found, corners[None] - found[:, None]) <= 1e-9).all()
    inside = rng.dirichlet(np.ones(4) * 5, 10)
    np.testing.assert_allclose(onto_simplex(inside), inside, rtol=1e-12)


@pytest.fixture(scope="module")
def unequal():
    data = draw(Setting(n_rows=4000, n_sites=8, n_features=3, delta=3, size_ratio=20), 4)
    start = paper_start(data.truth, 0.1, np.random.default_rng(0))
    return data, start, pooled(data, start)


def gaps(unequal, name, weighting, etas=(0.04, 0.02, 0.01), mixing="row"):
    data, start, target = unequal
    W = mixing_weights(name, range(8), mixing)
    found = []
    for eta in etas:
        run = simulate(make("mnem", eta), start, of(data), W, max_rounds=int(30 / eta), weighting=weighting)
        found.append(distance(run.theta, target))
    return np.array(found)


@pytest.mark.parametrize(("name", "mixing"), [("circle", "row"), ("ring", "metropolis"), ("complete", "row")])
def test_on_doubly_stochastic_w_rows_aims_at_the_pooled_estimate_and_equal_does_not(unequal, name, mixing):
    rows, equal = gaps(unequal, name, "rows", mixing=mixing), gaps(unequal, name, "equal", mixing=mixing)
    assert (rows[1:] < 0.6 * rows[:-1]).all()  # the bias is of order eta
    assert (equal > 0.5).all()
    assert equal[-1] > 0.8 * equal[0]


def test_dividing_by_the_degree_repairs_two_way_networks(unequal):
    star = gaps(unequal, "star", "rows", etas=(0.02, 0.01, 0.005))
    assert (star[1:] < 0.6 * star[:-1]).all()
    assert gaps(unequal, "star", "equal", etas=(0.005,))[0] > 1


def test_a_warning_where_the_network_makes_rows_miss_the_pooled_target(unequal):
    data, start, target = unequal
    W = mixing_weights("fixed-degree(2)", range(8), seed=1)
    with pytest.warns(PooledTargetWarning, match="does not aim at the pooled estimate"):
        run = simulate(make("mnem", 0.005), start, of(data), W, max_rounds=6000)
    assert distance(run.theta, target) > 0.2  # and it is true
    simulate(make("mnem", 0.005), start, of(data), W, max_rounds=1, weighting="equal")  # the paper's: no warning
    simulate(make("dem", 0.005), start, of(data), W, max_rounds=1)  # no network would help it


def test_unequal_row_weights_count_as_mass(unequal):
    """Sites made equal in rows but not in weight behave as sites of unequal size."""
    data, start, _ = unequal
    weights = [np.full(len(x), 1 / len(x)) for x in data.by_site(data.X)]
    W = mixing_weights("circle", range(8))
    one = simulate(make("mnem", 0.02), start, of(data, weights=weights), W, max_rounds=50)
    other = simulate(make("mnem", 0.02), start, of(data), W, max_rounds=50, weighting="equal")
    np.testing.assert_allclose(pack(one.theta), pack(other.theta), rtol=1e-9)


def test_eta_one_has_no_memory():
    data = draw(Setting(n_rows=1000, n_sites=4, n_features=2, spread="homogeneous"), 6)
    rows = of(data)
    found = simulate(make("mnem", 1.0), data.truth, rows, mixing_weights("circle", range(4)), max_rounds=1).theta
    everywhere = broadcast(data.truth, (4,))
    np.testing.assert_allclose(to_psi(found), summary(moments(rows, everywhere)), rtol=1e-12)


def test_local_is_em_at_each_site():
    data = draw(Setting(n_rows=2000, n_sites=4, n_features=2, delta=4, spread="homogeneous"), 7)
    together = simulate(make("local", 1), data.truth, of(data), np.eye(4), max_rounds=30).theta
    for m, X in enumerate(data.by_site(data.X)):
        plain = make("em", 1, accelerate=False)
        alone = simulate(plain, data.truth, Rows.of_sites([X]), np.eye(1), max_rounds=30).theta
        for part, mine in zip(together, alone, strict=True):
            np.testing.assert_allclose(part[m], mine[0], rtol=1e-12)
