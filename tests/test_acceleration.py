"""Accelerated EM: it ends where EM ends, in fewer evaluations, and never goes on from a loss."""

from __future__ import annotations

import importlib.util
import math
import sys
import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal, special_ortho_group
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.mixture import GaussianMixture

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import acceleration, make
from gaussip.algorithms.em import EM
from gaussip.algorithms.site import site_facts
from gaussip.kernels.cpu import anderson, exact
from gaussip.mixture.theta import Theta, to_psi, width
from gaussip.rows.moments import Shrinkage
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate
from gaussip.studies.simulation_model import Setting, draw, paper_start

ALONE = np.ones((1, 1))


def paper(delta, labelled, seed, n=10_000):
    data = draw(Setting(delta=delta, labelled=labelled, n_rows=n), seed)
    rows = Rows.of_sites([data.X], [data.labels] if labelled else None, None, 3)
    return rows, paper_start(data.truth, 0.3, np.random.default_rng(seed))


def evaluations(rows, start, within=1e-6, **settings):
    """How many evaluations lead to within a distance of the end, in psi."""
    end = to_psi(simulate(EM(), start, rows, ALONE, max_rounds=3000, tol=1e-12, **settings).theta)
    distances = []
    simulate(
        EM(), start, rows, ALONE, max_rounds=3000, tol=1e-12,
        watch=lambda now: distances.append(np.linalg.norm(to_psi(now.theta) - end)), **settings,
    )  # fmt: skip
    return 1 + int(np.argmax(np.array(distances) < within)), end


@pytest.mark.parametrize(("delta", "labelled", "most"), [(2.0, 0.0, 14), (1.0, 0.1, 26), (1.0, 0.0, 60)])
def test_the_paper_s_model_takes_few_evaluations(delta, labelled, most):
    taken = []
    for seed in range(3):
        rows, start = paper(delta, labelled, seed)
        n, end = evaluations(rows, start)
        taken.append(n)
        plain = simulate(EM(accelerate=False), start, rows, ALONE, max_rounds=20_000, tol=1e-12)
        np.testing.assert_allclose(end, to_psi(plain.theta), atol=1e-8)
        assert plain.n_rounds > 2 * n
    assert np.median(taken) <= most


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("reg_covar", [0.0, 1e-3, 1e-1])
def test_the_end_is_em_s_own_fixed_point(reg_covar, share):
    X = load_wine().data[:, :6]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = load_wine().target
    labels = np.where(np.arange(len(X)) % 9 == 0, y, -1)
    weights = 0.5 + (np.arange(len(X)) % 3)
    rows = Rows.of_sites([X], [labels], [weights], 3, unlabelled_weight=0.4)
    start = Theta(
        np.full(3, 1 / 3), np.stack([X[y == k].mean(axis=0) for k in range(3)]), np.stack([np.cov(X.T)] * 3)
    )
    settings = {"reg_covar": reg_covar, "shrinkage": Shrinkage(share, np.cov(X.T)) if share else None}
    quick = simulate(EM(), start, rows, ALONE, max_rounds=2000, tol=1e-11, **settings)
    plain = simulate(EM(accelerate=False), start, rows, ALONE, max_rounds=20_000, tol=1e-11, **settings)
    assert quick.converged
    assert quick.n_rounds < plain.n_rounds
    np.testing.assert_allclose(to_psi(quick.theta), to_psi(plain.theta), atol=1e-8)


def test_the_end_is_scikit_learn_s():
    X = load_iris().data
    start = paper_like(X, 3, 0)
    ours = NetworkGaussianMixture(
        3, tol=1e-10, weights_init=start.weights, means_init=start.means, covariances_init=start.covariances
    ).fit(X)
    theirs = GaussianMixture(
        3, tol=0, max_iter=600, weights_init=start.weights, means_init=start.means,
        precisions_init=np.linalg.inv(start.covariances),
    )  # fmt: skip
    with pytest.warns(match="did not converge"):
        theirs.fit(X)
    np.testing.assert_allclose(ours.means_, theirs.means_, atol=1e-7)
    np.testing.assert_allclose(ours.covariances_, theirs.covariances_, atol=1e-7)


def paper_like(X, K, seed):
    """A start at random rows."""
    rng = np.random.default_rng(seed)
    return Theta(np.full(K, 1 / K), X[rng.choice(len(X), K, replace=False)], np.stack([np.cov(X.T)] * K))


@pytest.mark.parametrize("reg_covar", [1e-6, 1e-3])
def test_an_end_worse_than_em_s_is_rare_and_it_takes_no_longer(reg_covar):
    ratios, worse, refused = [], 0, 0
    for data, K in ((load_iris().data, 3), (load_wine().data, 3), (load_breast_cancer().data[:, :10], 4)):
        X = (data - data.mean(axis=0)) / data.std(axis=0)
        rows = Rows.of_sites([X])
        for seed in range(6):
            start = paper_like(X, K, seed)
            settings = {"max_rounds": 5000, "tol": 1e-8, "reg_covar": reg_covar, "record_collapse": True}
            quick = simulate(EM(), start, rows, ALONE, **settings)
            plain = simulate(EM(accelerate=False), start, rows, ALONE, **settings)
            ratios.append(quick.n_rounds / plain.n_rounds)
            refused += int(quick.history.restarts[-1])
            worse += quick.history.log_likelihood[-1] < plain.history.log_likelihood[-1] - 1e-6
    assert worse == 0
    assert np.median(ratios) < 0.9
    assert refused > 0  # the safeguard was needed


def test_a_refused_evaluation_leaves_the_estimate_and_the_change():
    X = load_breast_cancer().data[:, :10]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    seen = []
    run = simulate(
        EM(), paper_like(X, 6, 1), Rows.of_sites([X]), ALONE, max_rounds=3000, tol=1e-8, reg_covar=1e-6,
        watch=seen.append,
    )  # fmt: skip
    assert run.converged
    back = [n for n in range(1, len(seen)) if seen[n].restarts > seen[n - 1].restarts]
    assert back
    for n in back:
        assert seen[n].change == seen[n - 1].change
        for before, now in zip(seen[n - 1].theta, seen[n].theta, strict=True):
            np.testing.assert_array_equal(before, now)
    assert run.n_rounds - len(back) > len(back)


def random_mixture(rng, K, p):
    weights = rng.dirichlet(np.full(K, 5.0))
    rotations = special_ortho_group.rvs(p, size=K, random_state=rng).reshape(K, p, p)
    covariances = np.einsum("kij,kj,klj->kil", rotations, rng.uniform(0.1, 3, (K, p)), rotations)
    return Theta(weights, rng.normal(size=(K, p)), covariances)


def test_the_penalty_makes_em_s_step_an_ascent():
    """For the rows of each component at a point, the log-likelihood less the penalty rises in EM's step from it."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (60, 3)), rng.normal(2, 0.3, (40, 3))])
    rows = Rows.of_sites([X])
    falls = 0
    for seed in range(20):
        reg, share = rng.choice([0.0, 0.01, 0.3]), rng.choice([0.0, 0.2, 0.7])
        T = random_mixture(rng, 1, 3).covariances[0]
        start = paper_like(X, 2, seed)
        settings = {"reg_covar": reg, "shrinkage": Shrinkage(share, T) if share else None}
        plain = EM(accelerate=False)
        for n in (1, 2, 3, 5, 8):
            before, after = (
                Theta(*(part[0] for part in simulate(plain, start, rows, ALONE, max_rounds=m, **settings).theta))
                for m in (n, n + 1)
            )
            a = share / (1 - share)
            C = reg * np.eye(3) + a * T

            def by_formula(theta, mass, a=a, C=C):  # scipy's densities
                density = sum(
                    w * multivariate_normal(m, S).pdf(X) for w, m, S in zip(*theta, strict=True)
                )  # fmt: skip
                parts = [a * np.linalg.slogdet(S)[1] + np.trace(np.linalg.solve(S, C)) for S in theta.covariances]
                return np.log(density).mean(), 0.5 * mass @ parts

            heights = [by_formula(theta, after.weights) for theta in (before, after)]
            assert heights[1][0] - heights[1][1] >= heights[0][0] - heights[0][1] - 1e-12
            falls += heights[1][0] < heights[0][0] - 1e-12
            for theta, (_, wanted) in zip((before, after), heights, strict=True):
                at = np.empty((2, width(3)))
                assert anderson.coordinates(*map(np.ascontiguousarray, theta), at)
                assert anderson._penalty(at, after.weights, C, a) == pytest.approx(wanted, rel=1e-12, abs=1e-14)
    assert falls > 0  # the log-likelihood alone does not


def plain_modules():
    """The same loops, not compiled."""
    names = ("gaussip.kernels.cpu.compiling", "gaussip.kernels.cpu.exact")
    hidden, found = {name: sys.modules.get(name) for name in names}, []
    sys.modules["gaussip.kernels.cpu.compiling"] = None
    try:
        for name in ("gaussip.kernels.cpu.exact", "gaussip.kernels.cpu.anderson"):
            spec = importlib.util.find_spec(name)
            found.append(importlib.util.module_from_spec(spec))
            if name in names:
                sys.modules[name] = found[-1]
            spec.loader.exec_module(found[-1])
    finally:
        for name in names:
            sys.modules.pop(name)
        sys.modules.update({name: known for name, known in hidden.items() if known is not None})
    return found


def test_compiled_and_plain_loops_give_the_same_bits(monkeypatch):
    rows, start = paper(1.0, 0.0, 5, n=2000)
    plain_exact, plain = plain_modules()
    assert not hasattr(plain.advance, "py_func")
    assert hasattr(anderson.advance, "py_func")
    runs = []
    for module in (anderson, plain):
        monkeypatch.setattr(acceleration, "anderson", module)
        runs.append(simulate(EM(), start, rows, ALONE, max_rounds=40, reg_covar=1e-3))
    for one, other in zip(runs[0].theta, runs[1].theta, strict=True):
        assert one.tobytes() == other.tobytes()
    assert runs[0].history.restarts[-1] == runs[1].history.restarts[-1]
    for p in (1, 2, 7):
        root = np.random.default_rng(p).normal(size=(p, p))
        axes = np.empty((2, p))
        exact.longest_axis(root @ root.T, axes[0])
        plain_exact.longest_axis(root @ root.T, axes[1])
        assert axes[0].tobytes() == axes[1].tobytes()


@pytest.mark.parametrize("p", [1, 2, 3, 6, 30])
def test_the_longest_axis_is_the_first_eigenvector(p):
    rng = np.random.default_rng(p)
    for _ in range(20):
        root, axis = rng.normal(size=(p, p)), np.empty(p)
        covariance = root @ root.T * 10.0 ** rng.integers(-9, 9)
        exact.longest_axis(covariance, axis)
        lengths, axes = np.linalg.eigh(covariance)
        wanted = np.sqrt(lengths[-1]) * axes[:, -1] * np.sign(axes[:, -1] @ axis)
        np.testing.assert_allclose(axis, wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())
    exact.longest_axis(np.eye(p), axis)
    assert axis.tolist() == [1.0] + [0.0] * (p - 1)


def test_its_logarithm_is_right():
    x = np.concatenate([np.geomspace(1e-300, 1e300, 2001), 1 + np.linspace(-1e-3, 1e-3, 101)])
    found = np.array([exact.log(value) for value in x])
    np.testing.assert_allclose(found, np.log(x), rtol=4e-15, atol=1e-16)


def test_replicates_side_by_side_are_what_each_is_alone():
    sites, starts = [], []
    for seed, delta in enumerate((1.0, 2.0, 4.0)):
        data = draw(Setting(delta=delta, n_rows=900, n_sites=3), seed)
        sites.append(Rows.of_sites(data.by_site(data.X)))
        starts.append(paper_start(data.truth, 0.2, np.random.default_rng(seed)))
    W = np.full((3, 3), 1 / 3)
    settings = {"max_rounds": 400, "tol": 1e-9}
    alone = [simulate(EM(), start, rows, W, **settings) for start, rows in zip(starts, sites, strict=True)]
    begin = Theta(*(np.stack(parts)[:, None] for parts in zip(*starts, strict=True)))
    together = simulate(EM(), begin, Rows.stack(sites), W, **settings)
    assert len({run.n_rounds for run in alone}) > 1
    for r, run in enumerate(alone):
        for one, other in zip(run.theta, together.theta, strict=True):
            assert one.tobytes() == other[r].tobytes()


def test_a_replicate_whose_sites_start_apart_does_not_change_another():
    sets = [draw(Setting(delta=2, n_rows=900, n_sites=3), seed) for seed in (4, 5)]
    rows = [Rows.of_sites(data.by_site(data.X)) for data in sets]
    W = np.full((3, 3), 1 / 3)
    begin = [Theta(*(np.stack([part] * 3) for part in data.truth)) for data in sets]
    scale = np.array([1.0, 2.0, 0.5])[:, None, None, None]
    begin[1] = begin[1]._replace(covariances=begin[1].covariances * scale)  # the means are the same
    alone = simulate(EM(), begin[0], rows[0], W, max_rounds=25)
    both = Theta(*(np.stack(parts) for parts in zip(*begin, strict=True)))
    together = simulate(EM(), both, Rows.stack(rows), W, max_rounds=25)
    for one, other in zip(alone.theta, together.theta, strict=True):
        assert one.tobytes() == other[0].tobytes()


@pytest.mark.parametrize("shape", [(3, 3), (1, 3, 3), (3, 3, 3)])
def test_shrinkage_targets_of_any_shape_that_fits(shape):
    data = draw(Setting(delta=2, n_rows=900, n_sites=3, n_features=3), 4)
    rows, W = Rows.of_sites(data.by_site(data.X)), np.full((3, 3), 1 / 3)
    target = np.broadcast_to(np.cov(data.X.T), shape)
    runs = [
        simulate(EM(quick), data.truth, rows, W, max_rounds=3000, tol=1e-10, shrinkage=Shrinkage(0.2, target))
        for quick in (True, False)
    ]
    np.testing.assert_allclose(to_psi(runs[0].theta), to_psi(runs[1].theta), atol=1e-7)


def test_the_likelihood_in_the_history_is_that_of_the_estimate():
    """Also where the last evaluation was refused, so that n_init compares estimates."""
    X = load_wine().data[:, :6]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    run = simulate(EM(), paper_like(X, 3, 0), Rows.of_sites([X]), ALONE, max_rounds=300, tol=1e-9, reg_covar=1e-6)
    back = np.flatnonzero(np.diff(run.history.restarts)) + 1
    assert back.size
    np.testing.assert_array_equal(run.history.log_likelihood[back], run.history.log_likelihood[back - 1])
    for last in (int(back[0]) + 1, run.n_rounds):
        mixture = NetworkGaussianMixture(3, max_rounds=last, tol=1e-9, means_init=paper_like(X, 3, 0).means)
        mixture.set_params(weights_init=np.full(3, 1 / 3), covariances_init=np.stack([np.cov(X.T)] * 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mixture.fit(X)
        assert mixture.history_["log_likelihood"][-1] == pytest.approx(mixture.score(X), abs=1e-3)


def test_sites_that_start_apart_are_brought_together():
    data = draw(Setting(delta=2, n_rows=900, n_sites=3), 4)
    rows = Rows.of_sites(data.by_site(data.X))
    rng = np.random.default_rng(1)
    each = [paper_start(data.truth, 0.1, rng) for _ in range(3)]
    begin = Theta(*(np.stack(parts) for parts in zip(*each, strict=True)))
    W = np.full((3, 3), 1 / 3)
    runs = [simulate(EM(accelerate=quick), begin, rows, W, max_rounds=3000, tol=1e-11) for quick in (True, False)]
    np.testing.assert_allclose(to_psi(runs[0].theta), to_psi(runs[1].theta), atol=1e-8)


def test_a_component_that_collapses_is_named_as_in_plain_em():
    X = np.concatenate([np.random.default_rng(0).normal(size=(50, 2)), np.full((4, 2), 30.0)])
    start = Theta(np.array([0.9, 0.1]), np.array([[0.0, 0.0], [30.0, 30.0]]), np.stack([np.eye(2)] * 2))
    runs = [
        simulate(EM(accelerate=quick), start, Rows.of_sites([X]), ALONE, max_rounds=50, record_collapse=True)
        for quick in (True, False)
    ]
    assert str(runs[0].collapse) == str(runs[1].collapse)
    assert runs[0].collapse is not None


def test_the_setting_reaches_em_and_is_checked():
    assert make("em", 0.1).accelerate
    assert not make("em", 0.1, accelerate=False).accelerate
    assert not make("local", 0.1).accelerate
    with pytest.raises(ValueError, match="accelerate='yes' must be True or False"):
        make("em", 0.1, accelerate="yes")
    place = site_facts(np.ones(1), np.ones((1, 1)), "equal")
    assert math.isinf(make("em", 1.0).init(random_mixture_at_sites(), place).course.change)
    assert make("masked", 0.1).accelerate
    assert not make("masked", 0.1, accelerate=False).accelerate


def random_mixture_at_sites():
    theta = random_mixture(np.random.default_rng(2), 2, 2)
    return Theta(*(part[None] for part in theta))
