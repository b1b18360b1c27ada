"""Searching for starts, and choosing the number of components."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from scipy.special import xlogy
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from command import gaussip
from gaussip import NetworkGaussianMixture
from gaussip.errors import DataError, LabelError, SettingError, StartError
from gaussip.exchange.questions import answered
from gaussip.mixture.density import responsibilities
from gaussip.mixture.merging import merged
from gaussip.mixture.theta import Theta, at, overall
from gaussip.rows.problem import prepare
from gaussip.selection import agreed_criteria, choose_components
from gaussip.starts.facts import ask_facts
from gaussip.starts.lloyd import ask_groups
from gaussip.starts.mixtures import from_groups
from gaussip.starts.search import climb, moves
from gaussip.studies.simulation_model import Setting, draw

ROUNDING = 1e-8  # of the log-likelihood of all rows
NAMES = np.array(["Basel", "Bern", "Biel", "Chur", "Genf"])


@pytest.fixture(scope="module")
def data():
    return draw(Setting(n_rows=1500, n_sites=5, n_features=3, delta=2.5, labelled=0.2), 7)


def test_a_split_and_a_merger_keep_the_mixture_s_mean_and_covariance(data):
    theta = data.truth
    for k in range(3):
        halves = moves.split(theta, k)
        assert len(halves.weights) == 4
        for other in (halves, merged(theta, min(k, 1), 2)):
            for mine, theirs in zip(overall(other), overall(theta), strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-12)
        assert (np.linalg.eigvalsh(halves.covariances) > 0).all()


def held_of(data, K=3, min_count=5):
    """The rows, what all sites know of them, and how they climb."""
    held = prepare(data.X, None, NAMES[data.sites], n_components=K, network="complete").held
    facts = answered(ask_facts(3, 0), held, 5)
    return held, facts, climb.Rule(facts.unit, float(facts.mass), np.zeros(3), min_count)


def test_a_climb_begins_with_scikit_learn_s_steps_and_ends_at_its_height(data):
    """Near the top it is accelerated."""
    held, facts, rule = held_of(data)
    begin = from_groups(answered(ask_groups(facts, 3, 0, 5), held, 5)[0])
    from_start, X = climb.Climb(begin, rule), facts.unit.standard_rows(data.X)
    theirs = GaussianMixture(
        3, reg_covar=0, tol=0, max_iter=2, weights_init=begin.weights, means_init=begin.means,
        precisions_init=np.linalg.inv(begin.covariances),
    )  # fmt: skip
    answered(from_start.go(3), held, 5)
    with pytest.warns(UserWarning, match="converge"):
        theirs.fit(X)
    np.testing.assert_allclose(from_start.theta.means, theirs.means_, atol=1e-10)
    np.testing.assert_allclose(from_start.theta.covariances, theirs.covariances_, atol=1e-10)
    np.testing.assert_allclose(from_start.totals.log_likelihood, theirs.score_samples(X).sum(), rtol=1e-12)
    answered(from_start.go(1000), held, 5)
    theirs.set_params(max_iter=1000, tol=1e-12).fit(X)
    assert from_start.totals.log_likelihood == pytest.approx(theirs.score_samples(X).sum(), abs=2 * climb.NEAR)


def test_a_mixture_with_a_component_of_too_few_rows_is_no_candidate(data):
    """A narrow component at one row is lost, whatever its likelihood; others are not."""
    held, facts, rule = held_of(data)
    truth, narrow = facts.unit.standard_theta(data.truth), 1e-5 * np.eye(3)
    means, covariances = truth.means.copy(), truth.covariances.copy()
    means[2], covariances[2] = facts.unit.standard_rows(data.X[:1])[0], narrow
    lone = Theta(truth.weights, means, covariances)
    assert np.isnan(answered(rule.totals(lone), held, 5).log_likelihood)
    assert np.isfinite(answered(rule._replace(min_count=0).totals(lone), held, 5).log_likelihood)
    assert answered(climb.highest([lone], rule), held, 5) is None
    with pytest.raises(StartError, match="every start lost a component"):
        answered(climb.best_of([lone], rule), held, 5)
    top = answered(climb.best_of([lone, truth], rule), held, 5).totals
    assert top.log_likelihood >= answered(rule.totals(truth), held, 5).log_likelihood


@pytest.mark.parametrize("labelled", [False, True])
def test_criteria_are_those_of_the_pooled_rows(data, labelled):
    """BIC and AIC of scikit-learn at the same mixture, ICL with the entropy summed over rows."""
    y = data.labels if labelled else None
    found = choose_components(data.X, y, sites=NAMES[data.sites], at_most=4, random_state=0)
    assert found.n_components == 3
    assert [line.n_components for line in found.lines] == ([3, 4] if labelled else [1, 2, 3, 4])
    theta = found.theta
    joint, densities = responsibilities(data.X, theta)
    mixture = NetworkGaussianMixture(3, algorithm="em", max_rounds=1, tol=0, weights_init=theta.weights,
                                     means_init=theta.means, covariances_init=theta.covariances)  # fmt: skip
    with pytest.warns(UserWarning, match="not converged"):
        mixture.fit(data.X)
    mixture.weights_, mixture.means_, mixture.covariances_ = theta
    pooled = mixture.to_sklearn()
    line = found.lines[found.best]
    free = data.labels < 0 if labelled else np.ones(len(data.X), dtype=bool)
    height = densities[free].sum()
    if labelled:
        known = ~free
        height += (np.log(joint[known, data.labels[known]]) + densities[known]).sum()
    else:
        np.testing.assert_allclose(line.bic, pooled.bic(data.X), rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(line.aic, pooled.aic(data.X), rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(line.log_likelihood, height, rtol=0, atol=ROUNDING)
    entropy = -xlogy(joint[free], joint[free]).sum()
    np.testing.assert_allclose(line.icl - line.bic, 2 * entropy, rtol=1e-10)
    assert line.n_parameters == 3 * 10 - 1
    assert found.margin > 10


def test_criteria_at_the_sites_own_fits(data):
    mixture = NetworkGaussianMixture(
        3, algorithm="mnem", network="circle", eta=0.2, max_rounds=2000, tol=1e-4, random_state=0
    )
    mixture.fit(data.X, sites=NAMES[data.sites])
    line = agreed_criteria(mixture, data.X, sites=NAMES[data.sites])
    height = sum(
        responsibilities(data.X[data.sites == m], at(thetas, m))[1].sum()
        for m in range(5)
        for thetas in [(mixture.site_weights_, mixture.site_means_, mixture.site_covariances_)]
    )
    np.testing.assert_allclose(line.log_likelihood, height, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(line.bic, -2 * height + 29 * np.log(1500), rtol=0, atol=2 * ROUNDING)
    with pytest.raises(DataError, match="not of the sites and features"):
        agreed_criteria(mixture, data.X, sites=np.array(NAMES)[data.sites % 4])


def test_a_search_finds_what_one_start_may_miss():
    """Eight small groups: the best of many starts is at least as high as scikit-learn's default, for every seed."""
    rng = np.random.default_rng(3)
    centres = rng.uniform(-8, 8, size=(8, 2))
    X = centres[rng.integers(8, size=1600)] + 0.5 * rng.normal(size=(1600, 2))
    sites = np.argsort(np.argsort(X[:, 0] + 4 * rng.normal(size=1600))) // 400
    gains = []
    for seed in range(3):
        settings = {"max_rounds": 2000, "tol": 1e-7, "random_state": seed}
        ours = NetworkGaussianMixture(8, init_params="search", **settings).fit(X, sites=sites)
        with threadpool_limits(1):
            theirs = GaussianMixture(8, max_iter=2000, tol=1e-9, random_state=seed).fit(X)
        gains.append(ours.score(X) - theirs.score(X))
    assert min(gains) > -1e-6
    assert max(gains) > 1e-3  # some default starts end in a worse optimum


def test_labels_start_a_search_and_keep_their_components(data):
    y = np.array(["c", "a", "b"])[data.labels].astype(object)
    y[data.labels < 0] = None
    mixture = NetworkGaussianMixture(4, init_params="search", random_state=0, max_rounds=4000)
    mixture.fit(data.X, y, sites=NAMES[data.sites])
    for k, name in enumerate("abc"):
        own = data.X[y == name].mean(axis=0)
        nearest = np.linalg.norm(mixture.means_[:3] - own, axis=1).argmin()
        assert nearest == k


def test_a_k_that_no_start_survives_ends_the_pass():
    """More components than the rows have different values."""
    X = np.repeat(np.arange(4.0), 30)[:, None] + np.tile([0.0, 1e-3], 60)[:, None]
    found = choose_components(X, sites=np.arange(120) % 3, at_most=30, reg_covar=1e-9, random_state=0)
    assert found.lines[-1].n_components < 30
    assert "components was found" in found.ended


def test_a_climb_ends_where_little_is_left_to_gain():
    """Overlapping groups, where EM is slow and gains are small: EM from there gains less than 0.1 in all."""
    data = draw(Setting(n_rows=2000, n_sites=20, n_features=3, delta=1.3), 3)
    found = choose_components(data.X, sites=data.sites, at_most=3, reg_covar=0, random_state=0)
    for line, theta in zip(found.lines[:2], found.thetas[:2], strict=True):
        begin = {"weights_init": theta.weights, "means_init": theta.means, "covariances_init": theta.covariances}
        settings = {"algorithm": "em", "tol": 1e-9, "max_rounds": 20_000, "reg_covar": 0.0}
        top = NetworkGaussianMixture(line.n_components, **settings, **begin).fit(data.X, sites=data.sites)
        assert top.score(data.X) * 2000 - line.log_likelihood < 0.1


def test_shrinkage_and_weights_in_a_search(data):
    few = slice(0, None, 30)  # fewer rows at a site than numbers in a covariance
    wide = np.column_stack([data.X[few], np.random.default_rng(0).normal(size=(50, 12))])
    settings = {"init_params": "search", "shrinkage": 0.3, "max_rounds": 3000, "random_state": 0}
    mixture = NetworkGaussianMixture(2, **settings).fit(wide, sites=data.sites[few])
    assert mixture.converged_
    with pytest.raises(DataError, match=r"row weights are 0\.001 in the mean"):
        choose_components(data.X, sites=data.sites, sample_weight=np.full(1500, 1e-3), at_most=2)
    twice = choose_components(data.X, sites=data.sites, sample_weight=np.full(1500, 2.0), at_most=3, random_state=0)
    once = choose_components(data.X, sites=data.sites, at_most=3, random_state=0)
    np.testing.assert_allclose(twice.lines[2].log_likelihood, 2 * once.lines[2].log_likelihood, atol=0.1)


def test_criteria_count_unlabelled_rows_as_the_fit_does(data):
    mixture = NetworkGaussianMixture(3, algorithm="em", unlabelled_weight=0.3, init_params="labels", max_rounds=3000)
    mixture.fit(data.X, data.labels, sites=data.sites)
    line = agreed_criteria(mixture, data.X, data.labels, sites=data.sites)
    assert line.rows == pytest.approx(300 + 0.3 * 1200)
    np.testing.assert_allclose(line.log_likelihood / line.rows, mixture.history_["log_likelihood"][-1], atol=1e-5)


def test_the_search_of_a_mixture_that_cannot_be():
    X, mixture = np.random.default_rng(0).normal(size=(9, 2)), NetworkGaussianMixture(2, init_params="search")
    with pytest.raises(
        StartError, match=r"every start lost a component, or left one to fewer than 5 rows .*fewer components"
    ):
        mixture.fit(X, sites=np.arange(9) % 2)
    with pytest.raises(StartError, match="the rows of all sites have no 1 group of at least 5 rows"):
        mixture.fit(X[:4], sites=np.arange(4) % 2)


def test_components_have_min_count_rows(data):
    """Also where fewer would have a higher likelihood, as one of a few rows in a plane has."""
    found = choose_components(data.X, sites=data.sites, at_most=8, min_count=20, random_state=0)
    for theta in found.thetas:
        assert responsibilities(data.X, theta)[0].sum(axis=0).min() >= 20 - 1e-6


def test_sums_are_counted_as_they_are_taken(data):
    seen = []
    choose_components(data.X, sites=data.sites, at_most=3, random_state=0, watch=lambda *now: seen.append(now))
    assert [number for _, number in seen] == list(range(1, len(seen) + 1))
    assert sorted(seen) == seen
    assert {K for K, _ in seen} == {1, 2, 3}


def test_a_choice_does_not_depend_on_who_has_which_rows(data):
    deals = [data.sites, np.arange(1500) % 2, np.random.default_rng(0).integers(20, size=1500)]
    lines = [choose_components(data.X, sites=sites, at_most=3, random_state=0).lines for sites in deals]
    for line in lines[1:]:
        heights = [[one.log_likelihood for one in lines] for lines in (lines[0], line)]
        np.testing.assert_allclose(*heights, atol=climb.NEAR)


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"at_least": 4, "at_most": 3}, SettingError, "no K from at_least=4 to at_most=3"),
        ({"at_most": 376}, SettingError, "need at least 1504 rows of 3 features .* there are 1500: at_most=375"),
        ({"at_most": 0}, SettingError, "at_most=0 must be a whole number"),
        ({"criterion": "best"}, SettingError, "criterion='best' must be one of bic, aic, icl"),
        ({"reg_covar": -1.0}, SettingError, "reg_covar=-1.0 must be"),
        ({"at_most": 2}, LabelError, "3 classes are labelled, more than at_most=2"),
    ],
)
def test_refusals(data, changed, error, text):
    with pytest.raises(error, match=text):
        choose_components(data.X, data.labels, sites=data.sites, **changed)


def test_the_command(tmp_path, data):
    columns = {f"x{j}": data.X[:, j] for j in range(3)}
    pa.csv.write_csv(pa.table({"hospital": NAMES[data.sites], **columns}), tmp_path / "rows.csv")
    table, picture = tmp_path / "rows.csv", tmp_path / "k.png"
    shown = gaussip("choose-k", table, "--sites", "hospital", "--max", "4", "--plot", picture)
    assert shown.returncode == 0, shown.stderr
    assert "K = 3 has the least BIC" in shown.stdout
    assert "--components 3 --start search" in shown.stdout
    assert picture.stat().st_size > 10_000
    assert "number of components" in picture.with_suffix(".csv").read_text()
    again = gaussip("choose-k", table, "--sites", "hospital", "--max", "4", "--plot", picture)
    assert (again.returncode, "exists" in again.stderr) == (2, True)
    shown = json.loads(gaussip("choose-k", table, "--sites", "hospital", "--max", "3", "--json").stdout)
    assert shown["components"] == 3
    assert [line["n_components"] for line in shown["lines"]] == [1, 2, 3]
    refused = gaussip("choose-k", table, "--sites", "hospital", "--min", "3", "--max", "2")
    assert (refused.returncode, "no K from --min 3 to --max 2" in refused.stderr) == (2, True)
