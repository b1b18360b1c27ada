"""What every algorithm of the registry must do, one by one."""

from __future__ import annotations

import io

import numpy as np
import pytest

from gaussip.algorithms import REGISTRY, Algorithm, Site, has_step, make, one_round
from gaussip.algorithms.base import ALONE, NEIGHBOURS
from gaussip.algorithms.site import site_facts
from gaussip.errors import CollapseError, SettingError
from gaussip.mixture.theta import Theta, consensus, pack, reorder
from gaussip.networks import mixing_weights, two_way_weights
from gaussip.rows.moments import moments
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate
from gaussip.studies.simulation_model import Setting, draw, paper_start

ALL = sorted(REGISTRY)
ETA = 0.05
pytestmark = pytest.mark.filterwarnings("ignore::gaussip.errors.PooledTargetWarning")


def weights(name, network, n_sites, seed=None):
    """The network's, or a two-way one's for an algorithm that needs it."""
    if REGISTRY[name].two_way:
        return two_way_weights(mixing_weights("ring", range(n_sites)), range(n_sites), name)
    return mixing_weights(network, range(n_sites), seed=seed)


def run(name, start, rows, W, n=15, **settings):
    settings = {"reg_covar": 1e-3, **settings}
    return simulate(make(name, ETA), start, rows, W, max_rounds=n, **settings)


def test_the_registry():
    assert {"em", "local", "nnem", "mnem", "dem", "ngd", "exact"} <= set(ALL)
    with pytest.raises(SettingError, match="there is no algorithm 'nem'; there are: "):
        make("nem", 0.1)
    for eta in (0, -1, 1.5, float("nan"), "x"):
        with pytest.raises(SettingError, match="eta"):
            make("mnem", eta)


@pytest.mark.parametrize("name", ALL)
def test_state_holds_arrays_and_survives_a_file_without_pickle(name, rows, start):
    algorithm = make(name, ETA)
    W = weights(name, "circle(2)", 5)
    begin = Theta(*(np.broadcast_to(part, (5, *part.shape)) for part in start))
    state = algorithm.init(begin, site_facts(rows.mass, W, "rows"))

    def leaves(tree):
        return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, tuple) else [tree]

    stored = io.BytesIO()
    np.savez(stored, *leaves(state), allow_pickle=False)
    stored.seek(0)
    with np.load(stored, allow_pickle=False) as back:
        for leaf, again in zip(leaves(state), back.values(), strict=True):
            np.testing.assert_array_equal(leaf, again)


@pytest.mark.parametrize("name", ALL)
def test_the_pooled_estimate_is_a_fixed_point_where_all_sites_hold_the_same_rows(name, dataset, start):
    X, labels = dataset.X[:600], dataset.labels[:600]
    pooled = run("em", start, Rows.of_sites([X], [labels], None, 3), np.ones((1, 1)), 3000, tol=1e-14).theta
    pooled = Theta(*(part[0] for part in pooled))
    rows = Rows.of_sites([X] * 4, [labels] * 4, None, 3)
    found = run(name, pooled, rows, weights(name, "circle(2)", 4), 5).theta
    np.testing.assert_allclose(pack(found), np.broadcast_to(pack(pooled), pack(found).shape), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("weighting", ["rows", "equal"])
def test_permuting_components_permutes_the_answer(name, weighting, dataset, start):
    order = np.array([2, 0, 1])
    new_number = np.argsort(order)
    labels = np.where(dataset.labels >= 0, new_number[dataset.labels], -1)
    W = weights(name, "fixed-degree(2)", 5, seed=1)
    values = dataset.by_site(dataset.X)
    one = run(name, start, Rows.of_sites(values, dataset.by_site(dataset.labels), None, 3), W, weighting=weighting)
    other = run(name, reorder(start, order), Rows.of_sites(values, dataset.by_site(labels), None, 3), W,
                weighting=weighting)  # fmt: skip
    for m in range(5):
        mine = reorder(Theta(*(part[m] for part in one.theta)), order)
        np.testing.assert_allclose(pack(mine), pack(Theta(*(part[m] for part in other.theta))), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("weighting", ["rows", "equal"])
def test_permuting_sites_permutes_the_answer(name, weighting, dataset, start):
    order = np.array([3, 1, 4, 0, 2])
    W = weights(name, "fixed-degree(2)", 5, seed=1).toarray()
    values, labels = dataset.by_site(dataset.X), dataset.by_site(dataset.labels)
    one = run(name, start, Rows.of_sites(values, labels, None, 3), W, weighting=weighting)
    moved = Rows.of_sites([values[m] for m in order], [labels[m] for m in order], None, 3)
    other = run(name, start, moved, W[np.ix_(order, order)], weighting=weighting)
    np.testing.assert_allclose(pack(one.theta)[order], pack(other.theta), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in ALL if REGISTRY[name].source in (NEIGHBOURS, ALONE)])
def test_sites_one_by_one_give_the_same_bits_as_stacked(name, dataset, rows, start):
    """Each site alone, with no leading axes, hearing its neighbours' messages in sorted order."""
    W = weights(name, "fixed-degree(2)", 5, seed=1)
    algorithm = make(name, ETA)
    stacked = run(name, start, rows, W)
    facts = site_facts(rows.mass, W, "rows")
    states = [algorithm.init(start, Site(*(part[m] for part in facts))) for m in range(5)]
    dense = W.toarray()
    for _ in range(15):
        sent = [algorithm.message(state) for state in states]

        def exchange(message, m, sent=sent):
            heard = {}
            for channel in message:
                theirs = [(dense[m, q], sent[q][channel]) for q in range(5) if dense[m, q] > 0]
                if channel == "max":
                    heard[channel] = np.maximum.reduce([values for _, values in theirs])
                else:
                    heard[channel] = sum((weight * values for weight, values in theirs), 0.0)
            return heard

        states = [
            one_round(
                algorithm, states[m], lambda message, m=m: exchange(message, m),
                lambda theta, m=m: moments(rows.site(m), theta, 1e-3),
            )[0]
            for m in range(5)
        ]  # fmt: skip
    for m in range(5):
        for part, mine in zip(stacked.theta, algorithm.estimate(states[m]), strict=True):
            np.testing.assert_array_equal(part[m], mine)


@pytest.mark.parametrize("name", ALL)
def test_replicates_side_by_side_give_the_same_bits_as_alone(name):
    W = weights(name, "circle", 4)
    setting = Setting(n_rows=400, n_sites=4, n_features=2, labelled=0.3)
    alone, rows, starts = [], [], []
    for seed in range(3):
        data = draw(setting, seed)
        rows.append(Rows.of_sites(data.by_site(data.X), data.by_site(data.labels), None, 3))
        starts.append(paper_start(data.truth, 0.1, np.random.default_rng(seed)))
        alone.append(run(name, starts[-1], rows[-1], W).theta)
    start = Theta(*(np.stack(parts)[:, None] for parts in zip(*starts, strict=True)))
    together = run(name, start, Rows.stack(rows), W).theta
    for r in range(3):
        for part, mine in zip(together, alone[r], strict=True):
            np.testing.assert_array_equal(part[r], mine)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("labelled", [(0.0,) * 5, (0.0, 0.5, 0.1, 0.0, 1.0), (1.0,) * 5])
def test_any_labelled_fraction_at_any_site(name, labelled):
    setting = Setting(n_rows=1500, n_sites=5, n_features=2, labelled=labelled, spread="homogeneous")
    data = draw(setting, 2)
    rows = Rows.of_sites(data.by_site(data.X), data.by_site(data.labels), None, 3)
    found = run(name, data.truth, rows, weights(name, "circle", 5))
    assert np.isfinite(pack(found.theta)).all()
    np.testing.assert_allclose(found.theta.weights.sum(axis=-1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_labels_matter_and_weights_of_two_are_rows_twice(name, dataset, start):
    W = weights(name, "circle", 5)
    values, labels = dataset.by_site(dataset.X), dataset.by_site(dataset.labels)
    rng = np.random.default_rng(0)
    counts = [rng.integers(0, 3, len(x)) for x in values]
    weighted = Rows.of_sites(values, labels, [c.astype(float) for c in counts], 3)
    repeated = Rows.of_sites(
        [np.repeat(x, c, axis=0) for x, c in zip(values, counts, strict=True)],
        [np.repeat(y, c) for y, c in zip(labels, counts, strict=True)], None, 3,
    )  # fmt: skip
    one, other = run(name, start, weighted, W), run(name, start, repeated, W)
    np.testing.assert_allclose(pack(one.theta), pack(other.theta), rtol=1e-8, atol=1e-10)
    without = run(name, start, Rows.of_sites(values, None, None, 3), W)
    assert np.abs(pack(without.theta) - pack(one.theta)).max() > 1e-3


@pytest.mark.parametrize("name", ALL)
def test_an_algorithm_improves_on_its_start(name):
    data = draw(Setting(n_rows=4000, n_sites=4, spread="homogeneous"), 5)
    rows = Rows.of_sites(data.by_site(data.X))
    begin = paper_start(data.truth, 0.3, np.random.default_rng(1))
    found = run(name, begin, rows, weights(name, "circle", 4), 400)
    middle = consensus(found.theta, rows.mass)

    def error(theta):
        return ((pack(theta) - pack(data.truth)) ** 2).sum()

    assert error(middle) < 0.2 * error(begin)


def test_every_algorithm_from_the_command_line_and_in_diagnosis(dataset, tmp_path):
    """Each is fitted by name, its file is diagnosed with the step that was in force, and all are compared at once."""
    from command import gaussip
    from gaussip import NetworkGaussianMixture
    from gaussip.diagnosis import evidence_of

    compared = gaussip("simulate", "--algorithms", ",".join(ALL), "--network", "ring", "--rows", "400",
                       "--sites", "4", "--rounds", "12", "--replicates", "1", "--json")  # fmt: skip
    assert compared.returncode == 0, compared.stderr
    for name in ALL:
        assert REGISTRY[name].title in compared.stdout
        mixture = NetworkGaussianMixture(3, algorithm=name, eta=ETA, max_rounds=12, init_params="labels", tol=1e-9)
        with pytest.warns(UserWarning, match="not converged"):
            mixture.fit(dataset.X, dataset.labels, sites=dataset.sites)
        mixture.save(tmp_path / f"{name}.npz")
        run = evidence_of(tmp_path / f"{name}.npz")
        assert (run.algorithm, run.eta) == (name, float(mixture.history_["step"][-1]))
        assert run.eta == {"exact": 0.9}.get(name, REGISTRY[name](ETA).eta if has_step(name) else 1.0)


def test_one_round_may_end_without_a_pass_over_the_rows(rows, start):
    """An algorithm that mixes twice per step: the phase is in its state, and each exchange is a round."""
    from typing import NamedTuple

    from gaussip.algorithms.mnem import MNEM, State

    class Phase(NamedTuple):
        inner: State
        mixed: int

    class Twice(Algorithm):
        name, eta = "twice", ETA
        inner = MNEM(ETA)

        def init(self, start, site):
            return Phase(self.inner.init(start, site), 0)

        def message(self, state):
            return self.inner.message(state.inner)

        def absorb(self, state, heard):
            inner, theta = self.inner.absorb(state.inner, heard)
            return (Phase(inner, 1), None) if state.mixed == 0 else (Phase(inner, 0), theta)

        def update(self, state, moments):
            return Phase(self.inner.update(state.inner, moments), 0)

        def estimate(self, state):
            return self.inner.estimate(state.inner)

    W = mixing_weights("circle(2)", range(5)).toarray()
    twice = simulate(Twice(), start, rows, W, max_rounds=20)
    once = run("mnem", start, rows, W @ W, 10, reg_covar=0.0)
    np.testing.assert_allclose(pack(twice.theta), pack(once.theta), rtol=1e-10, atol=1e-12)
    assert twice.n_rounds == 20
    assert simulate(Twice(), start, rows, W, max_rounds=1).history.round.size == 0
    assert twice.history.round.tolist() == list(range(2, 21, 2))
    assert twice.history.bytes[-1] == 20 * 10 * pack(start).size * 8
    bad = start._replace(covariances=-start.covariances)
    with pytest.raises(CollapseError, match="in round 2"):
        simulate(Twice(), bad, rows, W, max_rounds=4)
