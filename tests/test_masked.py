"""Masked sums lead to pooled EM's estimate: on every network, for sites of any size, with labels or without."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import make
from gaussip.errors import CollapseError
from gaussip.mixture.theta import Theta, to_psi
from gaussip.networks import mixing_weights
from gaussip.phases.program import Program
from gaussip.phases.task import LocalData, make_task
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate
from gaussip.studies.simulation_model import Setting, draw, paper_start
from programs import run_all, run_together, settings

NETWORKS = ["ring", "star", "grid", "complete", "circle", "fixed-degree(3)"]


def rows_by_site(data, labelled):
    return Rows.of_sites(data.by_site(data.X), data.by_site(data.labels) if labelled else None, None, 3)


def pooled_psi(data, labelled, start, reg_covar=0.0):
    """psi of plain EM on all rows in one place, iterated until nothing moves; held against scikit-learn below."""
    rows = Rows.of_sites([data.X], [data.labels] if labelled else None, None, 3)
    algorithm = make("em", 1.0, accelerate=False)
    run = simulate(algorithm, start, rows, np.ones((1, 1)), max_rounds=30_000, tol=1e-14, reg_covar=reg_covar)
    return to_psi(run.theta)[0]


def masked_psi(rows, start, W, reg_covar=0.0, **options):
    run = simulate(make("masked", 1.0, **options), start, rows, W, max_rounds=3000, tol=1e-12, reg_covar=reg_covar)
    assert run.converged
    psi = to_psi(run.theta)
    assert (psi == psi[:1]).all()  # the same at all sites, to the last bit
    return psi[0]


@pytest.mark.parametrize("network", NETWORKS)
def test_on_every_network_all_sites_end_at_the_pooled_estimate(network):
    """Whatever way the words take: the programs of twelve sites, message by message."""
    data = draw(Setting(n_rows=1200, n_sites=12, n_features=3, labelled=0.1), 2)
    start = paper_start(data.truth, 0.3, np.random.default_rng(1))
    names = tuple(f"s{m:02d}" for m in range(12))
    changed = {"network": network, "start": start, "max_rounds": 500, "tol": 1e-12, "reg_covar": 0.0}
    labels = data.by_site(data.labels)
    rows = [LocalData(X, labels[m], None) for m, X in enumerate(data.by_site(data.X))]
    programs = run_all(make_task(names, **settings("masked", **changed)), rows)
    assert all(program.results["fit"].converged for program in programs)
    psi = np.stack([to_psi(program.estimate()) for program in programs])
    assert (psi == psi[:1]).all()
    assert np.linalg.norm(psi[0] - pooled_psi(data, True, start)) < 1e-10
    np.testing.assert_array_equal(psi[0], masked_psi(rows_by_site(data, True), start, np.full((12, 12), 1 / 12)))


@pytest.mark.parametrize("reg_covar", [0.0, 1e-3])
@pytest.mark.parametrize("labelled", [0.0, 0.1, 1.0])
def test_with_labels_or_without_and_regularised(labelled, reg_covar):
    data = draw(Setting(n_rows=6000, n_sites=20, labelled=labelled, size_ratio=100.0), 4)
    start = paper_start(data.truth, 0.3, np.random.default_rng(1))
    found = masked_psi(rows_by_site(data, labelled > 0), start, mixing_weights("ring", range(20)), reg_covar)
    assert np.linalg.norm(found - pooled_psi(data, labelled > 0, start, reg_covar)) < 1e-10


def test_a_thousand_sites_of_thirty_rows():
    """Where exact wanders for 1500 rounds."""
    data = draw(Setting(n_rows=30_000, n_sites=1000), 3)
    start = paper_start(data.truth, 0.3, np.random.default_rng(1))
    found = masked_psi(rows_by_site(data, False), start, mixing_weights("random-regular(4)", range(1000), seed=0))
    assert np.linalg.norm(found - pooled_psi(data, False, start)) < 1e-10


def test_the_pooled_estimate_is_scikit_learn_s():
    data = draw(Setting(n_rows=3000, n_sites=10), 5)
    start = paper_start(data.truth, 0.3, np.random.default_rng(1))
    found = masked_psi(rows_by_site(data, False), start, mixing_weights("ring", range(10)), 1e-6)
    theirs = GaussianMixture(
        3, tol=1e-15, max_iter=400, reg_covar=1e-6, weights_init=start.weights, means_init=start.means,
        precisions_init=np.linalg.inv(start.covariances),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(data.X)
    psi = to_psi(Theta(theirs.weights_, theirs.means_, theirs.covariances_))
    np.testing.assert_allclose(found, psi, rtol=0, atol=1e-8)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e9])
def test_in_any_unit_and_far_from_zero(unit):
    """Words have 45 bits of fraction in the units of the mixture, so that neither scale nor place costs any."""
    data = draw(Setting(n_rows=2000, n_sites=8), 6)
    start = paper_start(data.truth, 0.3, np.random.default_rng(1))
    W = mixing_weights("ring", range(8))
    here = masked_psi(rows_by_site(data, False), start, W)
    moved = data._replace(X=(data.X + 100.0) * unit)
    begin = Theta(start.weights, (start.means + 100.0) * unit, start.covariances * unit**2)
    there = masked_psi(rows_by_site(moved, False), begin, W)
    means, expected = there[:, 1:7] / there[:, :1], (here[:, 1:7] / here[:, :1] + 100.0) * unit
    np.testing.assert_allclose(means, expected, rtol=1e-10)


def test_plain_em_by_sums_takes_em_s_steps():
    data = draw(Setting(n_rows=2000, n_sites=8), 6)
    start = paper_start(data.truth, 0.3, np.random.default_rng(1))
    rows, W = rows_by_site(data, False), mixing_weights("ring", range(8))
    runs = [
        simulate(make(name, 1.0, accelerate=False), start, rows, W, max_rounds=25, tol=0.0)
        for name in ("masked", "em")
    ]
    np.testing.assert_allclose(to_psi(runs[0].theta), to_psi(runs[1].theta), rtol=0, atol=1e-11)
    np.testing.assert_allclose(runs[0].history.log_likelihood, runs[1].history.log_likelihood, rtol=1e-11)


def test_a_component_that_few_rows_support_ends_the_run_with_its_name():
    """Of all sites together: a component at three outliers, where five rows are the fewest."""
    data = draw(Setting(n_rows=600, n_sites=6, delta=4), 1)
    far = np.concatenate([data.X, np.full((3, 6), 60.0) + np.random.default_rng(0).normal(size=(3, 6))])
    sites = np.append(data.sites, [0, 2, 4])
    start = Theta(
        np.array([0.3, 0.3, 0.3, 0.1]), np.stack([*data.truth.means, np.full(6, 60.0)]), np.stack([np.eye(6)] * 4)
    )
    rows = Rows.of_sites([far[sites == m] for m in range(6)])
    with pytest.raises(
        CollapseError, match=r"component 3 collapsed .*3 rows of all sites together support it, fewer than"
    ) as at:
        simulate(
            make("masked", 1.0), start, rows, mixing_weights("ring", range(6)), max_rounds=50, reg_covar=1e-3,
            classes=["well", "ill"],
        )  # fmt: skip
    assert at.value.component == 3
    found = simulate(
        make("masked", 1.0, min_count=2), start, rows, mixing_weights("ring", range(6)), max_rounds=500, tol=1e-9,
        reg_covar=1e-3,
    )  # fmt: skip
    assert found.converged


def test_numbers_too_large_for_one_word_are_summed_again_in_more():
    """A start far too narrow: squares are beyond 2^18 / M in its units. Each site's first answer is then chance."""
    data = draw(Setting(n_rows=900, n_sites=3), 1)
    start = paper_start(data.truth, 0.3, np.random.default_rng(1))
    start = start._replace(covariances=start.covariances * 1e-5)
    changed = {"n_features": 6, "owners": None, "start": start, "max_rounds": 300, "tol": 1e-12, "reg_covar": 0.0}
    task = make_task(tuple("abc"), **settings("masked", **changed))
    programs, in_limbs = [Program(task, m, LocalData(X, None, None)) for m, X in enumerate(data.by_site(data.X))], []
    for program in programs:
        program.start()
    run_together(programs, lambda first: in_limbs.append(getattr(first.phase, "_in_limbs", False)))
    assert 0 < sum(in_limbs) < len(in_limbs) / 2
    assert programs[0].results["fit"].converged
    found = masked_psi(rows_by_site(data, False), start, task.W)
    np.testing.assert_array_equal(to_psi(programs[0].estimate()), found)
    assert np.linalg.norm(found - pooled_psi(data, False, start)) < 1e-10


@pytest.mark.parametrize("few", [5, 20])
def test_a_component_of_just_min_count_rows_is_enough(few):
    """All rows are labelled, so that its support is that number, up to rounding."""
    data = draw(Setting(n_rows=900, n_sites=3, labelled=1.0), 1)
    kept = (data.labels != 2) | (np.cumsum(data.labels == 2) <= few)
    mixture = NetworkGaussianMixture(
        3, network="complete", min_count=few, init_params="labels", reg_covar=1e-2, degenerate="keep"
    )
    mixture.fit(data.X[kept], data.labels[kept], sites=data.sites[kept])
    assert mixture.weights_[2] * kept.sum() == pytest.approx(few)


@pytest.mark.parametrize("seed", [54, 70, 119])
def test_an_extrapolated_point_with_too_few_rows_is_refused_and_does_not_end_the_run(seed):
    """Where plain EM keeps its component, so do the longer steps, in a simulation and at sites."""
    rng = np.random.default_rng(seed)
    small = int(rng.integers(6, 14))
    X = np.concatenate([rng.normal(size=(300, 1)), rng.normal(size=(small, 1)) * 0.7 + 2.2 + rng.random() * 1.5])
    X = [X[np.arange(len(X)) % 3 == m] for m in range(3)]
    start = Theta(np.array([0.9, 0.1]), np.array([[0.0], [2.5]]), np.ones((2, 1, 1)))
    found = {"n_features": 1, "n_components": 2, "owners": None, "start": start, "reg_covar": 1e-6}
    task = make_task(tuple("abc"), **settings("masked", **found | {"min_count": 5, "max_rounds": 3000, "tol": 1e-7}))
    programs = run_all(task, [LocalData(one, None, None) for one in X])
    rows = Rows.of_sites(X)
    runs = [
        simulate(make(name, 1.0, **options), start, rows, task.W, max_rounds=3000, tol=1e-7, reg_covar=1e-6)
        for name, options in (("masked", {"min_count": 5}), ("em", {"accelerate": False}))
    ]
    assert programs[0].results["fit"].converged
    np.testing.assert_array_equal(programs[0].estimate().means, runs[0].theta.means[0])
    np.testing.assert_allclose(runs[0].theta.weights[0], runs[1].theta.weights[0], atol=1e-3)


def test_where_exact_wanders_it_says_how_near_it_may_be_taken_to_be():
    """Many small sites: exact does not settle, and names masked, which does."""
    data = draw(Setting(n_rows=9000, n_sites=300), 1)
    settings = {"n_components": 3, "network": "random-regular(4)", "random_state": 0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exact = NetworkGaussianMixture(algorithm="exact", max_rounds=600, **settings).fit(data.X, sites=data.sites)
        masked = NetworkGaussianMixture(tol=1e-9, **settings).fit(data.X, sites=data.sites)
    (text,) = [str(one.message) for one in caught if one.category is ConvergenceWarning]
    assert "More rounds will not help: take no site for nearer to its goal than" in text
    assert "use algorithm='masked'" in text
    vouched = float(re.search(r"nearer to its goal than ([\d.e-]+);", text)[1])
    found = Theta(exact.site_weights_, exact.site_means_, exact.site_covariances_)
    goal = to_psi(Theta(masked.weights_, masked.means_, masked.covariances_))
    apart = np.sqrt(np.sum((to_psi(found) - goal) ** 2, axis=(-2, -1)).mean())
    assert 1e-4 < apart < 3 * vouched
    assert masked.converged_


def test_what_a_simulation_says_was_exchanged_is_what_sites_exchange():
    """Also where a component has so few rows that they are counted before each round."""
    data = draw(Setting(n_rows=600, n_sites=4, delta=4), 1)
    kept = (data.classes != 2) | (np.cumsum(data.classes == 2) <= 30)
    X = [data.X[kept & (data.sites == m)] for m in range(4)]
    start = Theta(np.array([0.48, 0.45, 0.07]), data.truth.means, np.stack([np.eye(6)] * 3))
    changed = {"n_features": 6, "owners": None, "start": start, "max_rounds": 6, "tol": 0.0}
    for min_count, more in ((2, 1), (20, 6)):  # sums that count rows
        task = make_task(tuple("abcd"), **settings("masked", **changed | {"min_count": min_count}))
        programs = run_all(task, [LocalData(one, None, None) for one in X])
        algorithm = make("masked", 1.0, min_count=min_count)
        run = simulate(algorithm, start, Rows.of_sites(X), task.W, max_rounds=6, tol=0.0, reg_covar=1e-6)
        sums = (programs[0].exchanges, run.history.exchanges[-1] - 2)  # a simulation counts keys too
        assert sums == ((1 + 6 + more) * 2, (6 + more) * 2)  # sites also count rows with missing cells
        given = {"weights_init": start.weights, "means_init": start.means, "covariances_init": start.covariances}
        mixture = NetworkGaussianMixture(3, network="ring", max_rounds=6, tol=0.0, min_count=min_count, **given)
        with pytest.warns(ConvergenceWarning):
            mixture.fit(np.concatenate(X), sites=np.repeat(np.arange(4), [len(one) for one in X]))
        assert mixture.history_["exchanges"][-1] - 2 == programs[0].exchanges
