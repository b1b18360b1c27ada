"""A site's run as a machine, all sites in one process: what it computes, whatever carries its messages."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import REGISTRY, between_sites
from gaussip.algorithms.stopping import StoppingTogether, stopping_together
from gaussip.errors import CollapseError, DataError, LabelError, SettingError, StartError
from gaussip.mixture.theta import Theta, pack
from gaussip.node.run_store import RunStore
from gaussip.phases.base import Resumed
from gaussip.phases.fit import Fit
from gaussip.phases.program import Program
from gaussip.phases.task import LocalData, Reduction, make_task, refuse_few
from gaussip.preprocessing import NetworkPCA
from gaussip.rows.moments import Shrinkage
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate
from gaussip.studies.simulation_model import Setting, draw
from programs import NAMES, local_data, run_all, run_together, settings

DECENTRALISED = between_sites()
pytestmark = pytest.mark.filterwarnings("ignore::gaussip.errors.PooledTargetWarning")


@pytest.mark.parametrize("start", ["kmeans", "labels", "search"])
@pytest.mark.parametrize("name", DECENTRALISED)
def test_sites_compute_what_the_simulation_computes_bit_for_bit(name, start, dataset):
    network = "ring" if REGISTRY[name].two_way else "circle(2)"
    task = make_task(NAMES, **settings(name, network=network, start=start, max_rounds=80, tol=0.0))
    programs = run_all(task, local_data(dataset))
    mixture = NetworkGaussianMixture(
        3, algorithm=name, network=network, eta=0.05, max_rounds=80, tol=0.0, init_params=start, random_state=3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(dataset.X, dataset.labels, sites=np.array(NAMES)[dataset.sites])
    found = [program.estimate() for program in programs]
    for m, theta in enumerate(found):
        for mine, simulated in zip(theta, (mixture.site_weights_, mixture.site_means_, mixture.site_covariances_),
                                   strict=True):  # fmt: skip
            np.testing.assert_array_equal(mine, simulated[m])
    assert programs[0].round == mixture.n_rounds_
    assert name == "masked" or mixture.n_rounds_ == 80  # whole numbers may no longer move at all


@pytest.mark.parametrize(
    ("name", "kind", "start"),
    [
        ("masked", "VEV", "search"),
        ("masked", "tied", "kmeans"),
        ("exact", "EEV", "kmeans"),
        ("mnem", "diag", "search"),
    ],
)
def test_covariance_types_have_the_simulation_s_bits(name, kind, start, dataset):
    given = {"start": start, "max_rounds": 60, "tol": 0.0, "covariance_type": kind}
    programs = run_all(make_task(NAMES, **settings(name, **given)), local_data(dataset))
    mixture = NetworkGaussianMixture(
        3, algorithm=name, eta=0.05, max_rounds=60, tol=0.0, init_params=start, random_state=3, covariance_type=kind
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(dataset.X, dataset.labels, sites=np.array(NAMES)[dataset.sites])
    for m, program in enumerate(programs):
        np.testing.assert_array_equal(program.estimate().covariances, mixture.site_covariances_[m])


@pytest.mark.parametrize("name", DECENTRALISED)
def test_sites_stop_in_the_same_round_as_the_simulation_of_them(name, dataset, rows, start):
    changed = {"start": start, "tol": 1e-3, "max_rounds": 3000}
    task = make_task(NAMES, **settings(name, **changed))
    programs = run_all(task, local_data(dataset))
    whole = simulate(task.algorithm, start, rows, task.W, max_rounds=3000, tol=1e-3, reg_covar=1e-6)
    assert programs[0].results["fit"].converged
    assert whole.converged
    assert {program.round for program in programs} == {whole.n_rounds}
    for m, program in enumerate(programs):
        np.testing.assert_array_equal(pack(program.estimate()), pack(Theta(*(part[m] for part in whole.theta))))
        assert program.results["fit"].change <= 1e-3
        assert program.results["fit"].disagreement >= 0


def test_stopping_together_waits_until_all_have_settled(dataset, rows, start):
    alone = make_task(NAMES, **settings("mnem", start=start, max_rounds=2000, tol=1e-3))
    assert isinstance(alone.algorithm, StoppingTogether)
    seen = simulate(alone.algorithm.algorithm, start, rows, alone.W, max_rounds=2000, tol=1e-3, reg_covar=1e-6)
    known = simulate(alone.algorithm, start, rows, alone.W, max_rounds=2000, tol=1e-3, reg_covar=1e-6)
    assert seen.n_rounds < known.n_rounds <= seen.n_rounds + 3 * alone.network.diameter
    exact = make_task(NAMES, **settings("exact"))
    assert stopping_together(exact.algorithm, 2, len(NAMES)) is exact.algorithm


def test_unlabelled_sites_and_given_starts(dataset, start):
    free = run_all(make_task(NAMES, **settings("exact", owners=None)), local_data(dataset, labelled=False))
    mixture = NetworkGaussianMixture(3, algorithm="exact", max_rounds=60, random_state=3)
    with pytest.warns(UserWarning, match="not converged"):
        mixture.fit(dataset.X, sites=np.array(NAMES)[dataset.sites])
    np.testing.assert_array_equal(free[2].estimate().means, mixture.site_means_[2])
    given = run_all(make_task(NAMES, **settings("exact", start=start)), local_data(dataset))
    assert given[0].exchanges == 60 + 2  # the number of all rows is summed first
    apart = [Resumed(Theta(start.weights, start.means + m, start.covariances), np.eye(3), None) for m in range(5)]
    moved = run_all(make_task(NAMES, **settings("exact", max_rounds=2000)), local_data(dataset), apart)
    again = run_all(make_task(NAMES, **settings("exact", max_rounds=2000, start=start)), local_data(dataset))
    assert moved[0].results["fit"].converged
    np.testing.assert_allclose(moved[0].estimate().means, again[0].estimate().means, rtol=1e-4)


def test_scaled_features_give_the_same_mixture_in_the_table_s_units(dataset):
    units = np.array([1.0, 1e3, 1e-3])
    rows = [own._replace(X=own.X * units + 10 * units) for own in local_data(dataset)]
    changed = {"max_rounds": 3000, "reg_covar": 0.0, "tol": 1e-8}
    scaled = run_all(make_task(NAMES, **settings("exact", scale=True, **changed)), rows)[0].estimate()
    plain = run_all(make_task(NAMES, **settings("exact", **changed)), local_data(dataset))[0].estimate()
    np.testing.assert_allclose(scaled.means, plain.means * units + 10 * units, rtol=1e-5)
    np.testing.assert_allclose(scaled.covariances, plain.covariances * units[:, None] * units, rtol=1e-4)


@pytest.mark.parametrize("name", ["mnem", "exact"])
def test_reduced_shrunk_and_tempered_sites_compute_what_the_estimator_computes(name, dataset):
    """Principal components agreed on first, then a fit with shrinkage in which unlabelled rows count less."""
    changed = {"shrinkage": 0.2, "unlabelled_weight": 0.3, "start": "labels", "max_rounds": 40, "tol": 0.0}
    task = make_task(NAMES, reduction=Reduction(2, True, 2), **settings(name, **changed))
    programs = run_all(task, local_data(dataset))
    named = np.array(NAMES)[dataset.sites]
    pca = NetworkPCA(2, standardise=True).fit(dataset.X, sites=named)
    assert {program.results["basis"].digest() for program in programs} == {pca.digest_}
    assert [program.round for program in programs] == [40] * 5
    mixture = NetworkGaussianMixture(
        3, algorithm=name, eta=0.05, max_rounds=40, tol=0.0, init_params="labels", random_state=3, shrinkage=0.2,
        unlabelled_weight=0.3,
    )  # fmt: skip
    reduced = np.empty((len(dataset.X), 2))
    for site in NAMES:
        reduced[named == site] = pca.transform(dataset.X[named == site])
    with pytest.warns(UserWarning, match="not converged"):
        mixture.fit(reduced, dataset.labels, sites=named)
    for m, program in enumerate(programs):
        np.testing.assert_array_equal(program.estimate().covariances, mixture.site_covariances_[m])
        np.testing.assert_array_equal(program.results["start"].target, mixture.shrinkage_target_)


def test_a_run_that_goes_on_keeps_the_first_run_s_target(dataset, start):
    """In scaled features too, and through the file in which a site keeps it."""
    units = np.array([1.0, 1e3, 1e-3])
    rows = [own._replace(X=own.X * units) for own in local_data(dataset)]
    target = np.diag([2.0, 3.0, 4.0])
    changed = {"shrinkage": 0.4, "max_rounds": 3000, "reg_covar": 0.0, "tol": 1e-9}
    plain = run_all(
        make_task(NAMES, **settings("exact", **changed)), local_data(dataset), [Resumed(start, target, None)] * 5
    )
    squares = units[:, None] * units
    there = Resumed(Theta(start.weights, start.means * units, start.covariances * squares), target * squares, None)
    scaled = run_all(make_task(NAMES, **settings("exact", scale=True, **changed)), rows, [there] * 5)
    np.testing.assert_array_equal(plain[0].results["start"].target, target)
    own = simulate(
        plain[0].task.algorithm, start, Rows.of_sites([one.X for one in local_data(dataset)],
        [one.labels for one in local_data(dataset)], None, 3), plain[0].task.W, max_rounds=3000, tol=1e-9,
        shrinkage=Shrinkage(0.4, target),
    )  # fmt: skip
    np.testing.assert_array_equal(plain[2].estimate().covariances, own.theta.covariances[2])
    np.testing.assert_allclose(scaled[0].estimate().covariances, plain[0].estimate().covariances * squares, rtol=1e-5)


def test_what_was_agreed_is_kept_as_it_is(dataset, tmp_path):
    program = run_all(make_task(NAMES, **settings("mnem", max_rounds=2)), local_data(dataset))[0]
    store, agreed, fitted = RunStore(tmp_path), program.results["start"], program.results["fit"]
    for name in ("start", "fit"):
        store.write_result(name, program.results[name])
    for mine, theirs in zip((*store.result("start"), *store.result("fit")), (*agreed, *fitted), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert isinstance(store.result("fit").converged, bool)


def test_labelled_rows_alone_must_know_every_component(dataset):
    free = [own._replace(labels=np.full(len(own.X), -1)) for own in local_data(dataset)]
    for name in ("mnem", "exact", "ngd", "masked"):
        for program in run_all(make_task(NAMES, **settings(name, unlabelled_weight=0.0)), free):
            assert isinstance(program.failure, StartError)
            assert "with unlabelled_weight = 0 only labelled rows count" in str(program.failure)


def test_a_site_without_labelled_rows_may_count_nothing(dataset):
    """With weight zero for unlabelled rows the fit is that of the labelled rows, a site without any included."""
    rows = local_data(dataset)
    rows[2] = rows[2]._replace(labels=np.full(len(rows[2].X), -1))
    changed = {"unlabelled_weight": 0.0, "start": "labels", "max_rounds": 400, "reg_covar": 0.0, "tol": 1e-12}
    programs = run_all(make_task(NAMES, **settings("exact", **changed)), rows)
    X = np.concatenate([own.X[own.labels == 1] for own in rows])
    for program in (programs[0], programs[2]):
        np.testing.assert_allclose(program.estimate().means[1], X.mean(axis=0), rtol=1e-8)
        np.testing.assert_allclose(program.estimate().covariances[1], np.cov(X.T, bias=True), rtol=1e-7)


@pytest.mark.parametrize("name", ["mnem", "exact"])
def test_a_collapse_ends_all_sites_in_the_same_round(name):
    data = draw(Setting(n_rows=300, n_sites=5, n_features=3, labelled=0.0), 1)
    far = Theta(np.full(3, 1 / 3), np.array([[0.0, 0, 0], [1, 1, 1], [1e3, 1e3, 1e3]]), np.stack([np.eye(3)] * 3))
    task = make_task(NAMES, **settings(name, owners=None, start=far, max_rounds=6000, eta=0.5, tol=0.0))
    programs = run_all(task, local_data(data, labelled=False))
    assert len({program.exchanges for program in programs}) == 1
    for program in programs:
        assert isinstance(program.failure, CollapseError)
        assert np.isfinite(pack(program.estimate())).all() or name == "exact"
    culprit = NAMES.index(programs[0].failure.site)
    assert f"component 2 collapsed at site {NAMES[culprit]!r}" in str(programs[culprit].failure)
    other = programs[culprit - 1].failure
    assert f"a component collapsed at site {NAMES[culprit]!r}" in str(other)
    assert all(program.failure.site == NAMES[culprit] for program in programs)


def test_refusals(dataset):
    few = LocalData(dataset.X[:4], None, None)
    with pytest.raises(DataError, match=r"the table has 4 rows that count, fewer than min_count=5"):
        refuse_few(few, make_task(NAMES, **settings(owners=None, min_count=5)))
    refuse_few(few, make_task(NAMES, **settings("masked", owners=None, min_count=5)))  # sums hide them
    lone = [own._replace(labels=np.where(np.arange(len(own.X)) < 30, 0, -1)) for own in local_data(dataset)]
    lone[3].labels[31] = 1
    for program in run_all(make_task(NAMES, **settings("masked", classes=("well", "ill", "x"))), lone):
        assert isinstance(program.failure, LabelError)
        assert "class 'ill' has 1 labelled row at all sites together, fewer than min_count=2" in str(program.failure)
        assert program.failure.label == "ill"
    with pytest.raises(SettingError, match="masked counts every row alike"):
        make_task(NAMES, **settings("masked", weighting="equal"))
    for name in ("em", "local"):
        with pytest.raises(
            SettingError, match=f"algorithm '{name}' does not run between sites; use one of dem, exact"
        ):
            make_task(NAMES, **settings(name))
    with pytest.raises(SettingError, match="at least two"):
        make_task(("Bern",), **settings())


def test_what_a_neighbour_cannot_have_sent(dataset):
    """Faults that are no site's, and lists of links that are not whole, or other than known: all rejected."""
    for name in ("mnem", "exact"):
        task = make_task(NAMES, **settings(name, max_rounds=30))
        fit = run_all(task, local_data(dataset))[0].phase
        message = fit.outgoing().message
        assert not fit.fault(1, message)
        for fault in (99.0, np.inf, 2.5, -1.0):
            assert "cannot have sent such numbers" in fit.fault(1, {**message, "max": np.array([fault, 0.0])})
        assert not fit.fault(1, {**message, "max": np.array([5.0, np.inf])})
    ended = run_all(make_task(NAMES, **settings("exact", start="labels")), local_data(dataset))[0]
    fit = Fit.begin(ended._context, ended.results)
    table = fit.outgoing().message["max"].copy()
    assert not fit.fault(1, {"max": table})
    table[0] += 1
    assert fit.fault(1, {"max": table})


def test_a_collapse_in_the_last_round_is_no_success():
    data = draw(Setting(n_rows=300, n_sites=5, n_features=3, labelled=0.0), 1)
    far = Theta(np.full(3, 1 / 3), np.array([[0.0, 0, 0], [1, 1, 1], [1e3, 1e3, 1e3]]), np.stack([np.eye(3)] * 3))
    rows, change = local_data(data, labelled=False), {"owners": None, "start": far, "eta": 0.5, "tol": 0.0}
    whole = run_all(make_task(NAMES, **settings("mnem", max_rounds=6000, **change)), rows)
    collapses = (program.phase._collapse for program in whole)
    first = min(collapse.round for collapse in collapses if collapse is not None)
    ended = run_all(make_task(NAMES, **settings("mnem", max_rounds=first, **change)), rows)
    assert any(isinstance(program.failure, CollapseError) for program in ended)


@pytest.mark.parametrize(("network", "last"), [("ring", 40), ("complete", 40), ("ring", 8), ("complete", 8)])
def test_a_collapse_is_named_in_whatever_round_of_a_block(network, last, dataset):
    """Also in the last of a block, after which the others learn of it, and in the last round of all."""
    task = make_task(NAMES, **settings("mnem", network=network, max_rounds=last, tol=0.0))
    programs = [Program(task, m, local) for m, local in enumerate(local_data(dataset))]
    spoilt = []

    def spoil(program):
        if program.round == 7 and not spoilt:
            spoilt.append(True)
            measure = programs[2].phase._measure
            programs[2].phase._measure = lambda theta: measure(theta)._replace(sums=np.nan * measure(theta).sums)

    for program in programs:
        program.start()
    run_together(programs, spoil)
    failure = programs[2].failure
    assert failure.component is not None
    assert (failure.site, failure.round) == (NAMES[2], 8)
    if last > 8:
        assert {program.failure.site for program in programs} == {NAMES[2]}
