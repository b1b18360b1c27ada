"""Exact network EM: pooled EM's estimate at every site, found and known to be found by exchanges alone."""

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path
from sklearn.mixture import GaussianMixture

from gaussip.algorithms import exact, make
from gaussip.errors import CollapseError, NetworkError, SettingError
from gaussip.mixture.theta import Theta, distance, to_psi
from gaussip.networks import listening, mixing_weights, two_way_weights
from gaussip.rows.problem import prepare
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate
from gaussip.starts.given import Regularised, found
from gaussip.studies import split
from gaussip.studies.simulation_model import Setting, draw, paper_start

NETWORKS = ("complete", "random-regular(4)", "ring", "star", "chain", "grid")


def problem(seed=0, noise=0.3, **changes):
    data = draw(Setting(**{"n_rows": 3000, "n_sites": 12, "n_features": 3, **changes}), seed)
    labels = data.by_site(data.labels) if np.any(data.labels >= 0) else None
    rows = Rows.of_sites(data.by_site(data.X), labels, None, 3)
    return data, rows, paper_start(data.truth, noise, np.random.default_rng(seed))


def fit(rows, start, network, tol=1e-10, rounds=6000, weighting="rows", name="exact"):
    M = rows.shape[-1]
    W = mixing_weights(network, range(M), seed=0)
    return simulate(make(name, 0.01), start, rows, W, max_rounds=rounds, tol=tol, weighting=weighting)


def pooled_by(rows, start):
    theta = fit(rows, start, "circle", 1e-13, 20_000, name="em").theta
    return Theta(*(part[0] for part in theta))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("changes", [{}, {"size_ratio": 50.0}, {"labelled": 0.1, "delta": 1.0}], ids=str)
def test_every_site_gets_the_pooled_estimate(network, changes):
    _, rows, start = problem(**changes)
    run = fit(rows, start, network)
    assert run.converged
    assert distance(run.theta, pooled_by(rows, start)) < 1e-7


def test_it_is_scikit_learn_s():
    data, rows, start = problem(size_ratio=10.0)
    theirs = GaussianMixture(
        3, tol=1e-14, max_iter=5000, reg_covar=0, weights_init=start.weights, means_init=start.means,
        precisions_init=np.linalg.inv(start.covariances),
    ).fit(data.X)  # fmt: skip
    run = fit(rows, start, "ring")
    for m in range(12):
        np.testing.assert_allclose(run.theta.means[m], theirs.means_, atol=1e-5)
        np.testing.assert_allclose(run.theta.covariances[m], theirs.covariances_, atol=1e-5)


def test_mnem_stays_behind():
    _, rows, start = problem()
    pooled = pooled_by(rows, start)
    run = fit(rows, start, "ring")
    mnem = fit(rows, start, "ring", 0.0, run.n_rounds, name="mnem")
    assert distance(mnem.theta, pooled) > 1e5 * distance(run.theta, pooled)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_plan_that_sites_make_of_what_they_hear_is_the_network_s(network):
    M = 30  # more than one number holds
    W = two_way_weights(mixing_weights(network, range(M), seed=0), range(M), "exact")
    _, rows, start = problem(n_rows=600, n_sites=M, n_features=1)
    seen = []

    class Watched(exact.Exact):
        def absorb(self, state, heard):
            state, theta = super().absorb(state, heard)
            seen.append((state.plan, theta is not None))
            return state, theta

    simulate(Watched(), start, rows, W, max_rounds=60)
    wide = int(shortest_path(listening(W).toarray()).max())
    plan = seen[wide - 1][0]
    assert [asked for _, asked in seen[:wide]] == [False] * (wide - 1) + [True]
    assert plan.diameter == wide
    values = np.linalg.eigvalsh(W.toarray())
    assert (plan.low, plan.high) == pytest.approx((values[0], values[-2]))
    # V, as the exchanges make it: symmetric, rows sum to one, no negative eigenvalue, and sites come together
    identity = np.eye(M)[..., None]
    state = exact.Exact().init(start, _facts(rows, W))._replace(plan=plan, round=wide)
    for total, exchanges, allowed in (
        (0, plan.first, exact.START * exact.APART),
        (exact.FIRST, plan.exchanges, exact.APART),
    ):
        now = state._replace(v=identity, y=identity, before=identity, total=total)
        for _ in range(exchanges):
            now = exact.Exact()._mixed(now, np.tensordot(W.toarray(), now.y, axes=1))
        V = now.x[..., 0]
        np.testing.assert_allclose(V, V.T, atol=1e-9)
        np.testing.assert_allclose(V.sum(axis=1), 1.0, atol=1e-9)
        apart = np.sort(np.linalg.eigvalsh(V))
        assert apart[0] > -1e-9
        assert apart[-2] < allowed


def _facts(rows, W):
    from gaussip.algorithms.site import site_facts

    return site_facts(rows.mass, W, "rows")


@pytest.mark.parametrize("network", ["ring", "star"])
def test_it_stays_with_pooled_em_where_em_has_several_fixed_points(network):
    """Small real data with overlapping groups, sorted by class, from k-means starts."""
    from sklearn.datasets import load_breast_cancer, load_wine

    same = []
    for source, width in ((load_wine, 5), (load_breast_cancer, 6)):
        held = source()
        X = (held.data[:, :width] - held.data[:, :width].mean(axis=0)) / held.data[:, :width].std(axis=0)
        for seed in range(3):
            codes = split.heterogeneous(held.target, split.sizes(len(X), 6), np.random.default_rng(seed))
            problem = prepare(X, None, codes, n_components=3, network=network)
            (begin,) = found(problem.held, 3, "kmeans", [seed], Regularised(1e-2, 0.0, 5))
            settings = {"max_rounds": 20_000, "tol": 1e-9, "reg_covar": 1e-2}
            pooled, ours = (
                simulate(make(name, 1.0), begin, problem.rows, problem.W, **settings) for name in ("em", "exact")
            )
            same.append(distance(ours.theta, Theta(*(part[0] for part in pooled.theta))) < 1e-4)
    assert sum(same) >= 5


def test_sites_go_back_together_when_one_cannot_go_on(monkeypatch):
    """With one exchange a step a star's sites are so far apart that weights turn negative."""
    monkeypatch.setattr(exact, "APART", 0.99)
    monkeypatch.setattr(exact, "FIRST", 0)
    _, rows, start = problem(n_sites=20, n_rows=6000, n_features=6)
    restarts = []

    class Watched(exact.Exact):
        def update(self, state, moments):
            restarts.append(state.restarts.copy())
            return super().update(state, moments)

    W = two_way_weights(mixing_weights("star", range(20)), range(20), "exact")
    run = simulate(Watched(), start, rows, W, max_rounds=6000, tol=1e-10)
    assert restarts[-1].min() >= 1
    for now in restarts:
        assert now.min() == now.max()  # all sites, in the same round
    assert run.converged
    assert distance(run.theta, pooled_by(rows, start)) < 1e-7


def test_a_component_without_rows_is_a_collapse_all_the_same():
    _, rows, start = problem()
    far = start._replace(means=start.means + np.array([[0.0], [0.0], [60.0]]))
    with pytest.raises(CollapseError, match="component 2 collapsed"):
        fit(rows, far, "ring")


def test_all_sites_know_in_the_same_round_that_all_have_settled():
    _, rows, start = problem()
    known = []

    class Watched(exact.Exact):
        def info(self, state):
            known.append(state.settled)
            return super().info(state)

    W = two_way_weights(mixing_weights("chain", range(12)), range(12), "exact")
    run = simulate(Watched(), start, rows, W, max_rounds=3000, tol=1e-8)
    assert run.converged
    for now in known:
        assert now.min() == now.max()
    assert run.history.change[-1] < 1e-8  # the simulation, which sees all sites, agrees
    assert known[-1].max() <= 1e-8 < known[-2].max()


def test_data_far_from_zero_do_not_drift():
    """Rounding of V's rows must not add up over thousands of rounds."""
    _, rows, start = problem(n_rows=1200, n_sites=8, n_features=2)
    far = 1e7
    moved = Rows.of_sites([site.values + far for site in rows.sites])
    begin = start._replace(means=start.means + far)
    near = fit(rows, start, "chain", 0.0, 3000).theta
    found = fit(moved, begin, "chain", 0.0, 3000).theta
    np.testing.assert_allclose(found.means - far, near.means, atol=2e-7)
    np.testing.assert_allclose(found.covariances, near.covariances, atol=2e-7)


def test_sites_decide_alike_whatever_the_last_digit():
    """Three sites in a row: V leaves exactly a quarter after two exchanges, to rounding."""
    plans = []
    for name in ("chain", "star"):
        W = two_way_weights(mixing_weights(name, range(3)), range(3), "exact")
        links = listening(W)
        table = np.concatenate([links @ exact._packing(3), np.ones((3, 1))], axis=1)
        plans.append(exact.plan_of(table))
    assert plans[0].exchanges == plans[1].exchanges == 2


def test_a_replicate_that_has_stopped_stays_as_it_is():
    """Beside another that goes on, also where its own moves would grow again."""
    starts, parts = [], []
    for seed in range(2):
        _, rows, start = problem(seed=seed, n_rows=600, n_sites=6, n_features=2)
        starts.append(start)
        parts.append(rows)
    both = Theta(*(np.stack(part)[:, None] for part in zip(*starts, strict=True)))
    W = two_way_weights(mixing_weights("ring", range(6)), range(6), "exact")
    for tol in (1e-1, 3e-2, 1e-2):
        alone = [
            simulate(exact.Exact(), s, r, W, max_rounds=400, tol=tol) for s, r in zip(starts, parts, strict=True)
        ]
        together = simulate(exact.Exact(), both, Rows.stack(parts), W, max_rounds=400, tol=tol)
        for r in range(2):
            np.testing.assert_array_equal(together.theta.means[r], alone[r].theta.means)


def test_replicates_that_need_other_plans_are_refused():
    _, equal, start = problem(n_rows=600, n_sites=6, n_features=2)
    _, unequal, _ = problem(n_rows=600, n_sites=6, n_features=2, size_ratio=50.0)
    W = two_way_weights(mixing_weights("chain", range(6)), range(6), "exact")
    with pytest.raises(SettingError, match="run them apart"):
        simulate(exact.Exact(), start, Rows.stack([equal, unequal]), W, max_rounds=20)


def test_one_way_networks_are_refused_with_what_would_do():
    _, rows, start = problem()
    with pytest.raises(
        NetworkError,
        match=r"exact needs a two-way network: site 0 receives from 1, which does not .*algorithm='masked'.*ring",
    ):
        fit(rows, start, "circle")


def test_a_message_is_as_large_as_mnem_s_but_for_the_survey_and_two_numbers():
    _, rows, start = problem()
    run, mnem = fit(rows, start, "ring", rounds=200, tol=0), fit(rows, start, "ring", rounds=200, tol=0, name="mnem")
    links, wide, psi = 24, 6, to_psi(start).size
    survey = wide * links * (12 * 2 + 2 * 10) * 8  # a line of two numbers for each site, and the unit
    assert run.history.bytes[-1] == survey + (200 - wide) * links * (psi + 2) * 8 - _unseen(run, links, psi)
    assert mnem.history.bytes[-1] == 200 * links * psi * 8


def _unseen(run, links, psi):
    """Bytes of the exchanges after the last pass."""
    return (200 - run.history.round[-1]) * links * (psi + 2) * 8


def test_one_site_alone_and_two():
    for n_sites in (1, 2):
        _, rows, start = problem(n_rows=600, n_sites=n_sites)
        run = fit(rows, start, "complete")
        assert run.converged
        assert distance(run.theta, pooled_by(rows, start)) < 1e-7
