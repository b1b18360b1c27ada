"""Degenerate components: recognised as SciPy says, never chosen, and refused by a fit unless they are asked for."""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.linalg import eigh
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from typer.testing import CliRunner

from gaussip import NetworkGaussianMixture
from gaussip.cli import app
from gaussip.diagnosis import diagnose
from gaussip.errors import CollapseError, DataError, DiagnosisWarning
from gaussip.mixture.degenerate import THIN, degenerate, reasons, refuse_degenerate
from gaussip.mixture.theta import Theta, overall
from gaussip.phases.task import LocalData, make_task
from gaussip.plots import draw_criteria
from gaussip.selection import agreed_criteria, choose_components
from identities import identities, programs_of, transcript
from programs import run_all, settings

REG = 1e-6
SITES = ("Basel", "Bern", "Chur")


def patients(n=600, seed=0, sex=False):
    """Rounded measurements, and ST depressions (oldpeak) of which 43% are exactly 0, as in the UCI heart disease."""
    rng = np.random.default_rng(seed)
    ill = rng.random(n) < 0.5
    columns = {
        "age": rng.normal(50 + 8 * ill, 9).round(),
        "bp": rng.normal(130 + 5 * ill, 18).round(),
        "chol": rng.normal(240, 50, n).round(),
        "oldpeak": np.where(rng.random(n) < 0.43, 0.0, rng.gamma(2, 0.6 + 0.4 * ill).round(1)),
    }
    if sex:
        columns["sex"] = (rng.random(n) < 0.7).astype(float)
    return pd.DataFrame(columns), ill


def dealt(n):
    return np.array(SITES)[np.arange(n) % 3]


def mixture_of(rng, K, p, spread=1.0):
    A = rng.normal(size=(K, p, p))
    return Theta(rng.dirichlet(np.full(K, 5.0)), spread * rng.normal(size=(K, p)), A @ A.swapaxes(1, 2) / p)


@pytest.mark.parametrize("units", [np.ones(4), np.array([1e-5, 1e5, 1.0, 30.0])])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_degenerate_is_what_scipy_says(seed, units):
    """Component 1 has a direction in which reg_covar is all its variance, the others have not; in any units."""
    rng = np.random.default_rng(seed)
    theta, floor = mixture_of(rng, 3, 4), np.full(4, REG)
    v = rng.normal(size=4)
    v /= np.linalg.norm(v)
    flat, thin = np.eye(4) - np.outer(v, v), 1e-9
    theta.covariances[1] = flat @ theta.covariances[1] @ flat + thin * np.outer(v, v)
    theta.covariances[:] += np.diag(floor)
    moved = Theta(theta.weights, theta.means * units, theta.covariances * np.outer(units, units))
    (found,) = degenerate(moved, floor * units**2)
    pooled = overall(theta)[1] - np.diag(floor)
    least = [eigh(S - np.diag(floor), pooled, eigvals_only=True)[0] for S in theta.covariances]
    assert [value < THIN for value in least] == [False, True, False]
    assert found.component == 1
    assert found.weight == theta.weights[1]
    np.testing.assert_allclose(found.ratio**2, least[1], rtol=1e-4)
    _, directions = eigh(theta.covariances[1] - np.diag(floor), pooled)
    loads = np.abs(directions[:, 0]) * np.sqrt(np.diagonal(pooled))
    assert set(found.features) == set(np.argsort(loads)[-2:])
    assert not found.alone
    honest = theta._replace(covariances=theta.covariances + 2 * REG * (np.arange(3) == 1)[:, None, None] * np.eye(4))
    assert degenerate(honest, floor) == []  # reg_covar is no longer half of it


def test_what_all_rows_have_in_common_makes_no_component_degenerate():
    """A constant feature, and a copy of another: reg_covar is the variance there of all components, and of K = 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) + 6 * (np.arange(400)[:, None] % 2)
    X = np.column_stack([X, np.full(400, 7.0), 3 * X[:, 0]])
    for K in (1, 2):
        mixture = NetworkGaussianMixture(K, random_state=0).fit(X, sites=dealt(400))
        assert degenerate(mixture._theta(), np.full(4, REG)) == []
    X[::2, 1] = 2.0  # now one of the two groups has no variance in a third feature
    with pytest.raises(CollapseError, match="200 rows have the same 'column 1'"):
        NetworkGaussianMixture(2, random_state=0).fit(X, sites=dealt(400))


def test_a_small_group_is_not_degenerate_down_to_a_hundredth_of_all_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 3))
    X[:60] = [3, 3, 3] + 0.009 * X[:60]
    mixture = NetworkGaussianMixture(2, random_state=0).fit(X, sites=dealt(600))
    assert mixture.weights_.min() == pytest.approx(0.1, abs=0.01)
    deviations = np.sqrt(np.diagonal(mixture.covariances_[mixture.weights_.argmin()]))
    assert (deviations < 0.01 * X.std(axis=0)).all()


@pytest.mark.parametrize(("sex", "blamed"), [(False, "oldpeak"), (True, "sex")])
def test_a_heap_and_a_feature_of_two_values_are_never_chosen(sex, blamed):
    X, _ = patients(sex=sex)
    found = choose_components(X, sites=dealt(len(X)), at_most=4, random_state=0)
    assert found.n_components == 1
    assert found.lines[0].degenerate == ""
    assert all(blamed in line.degenerate.split(", ") for line in found.lines[1:])
    assert found.margin == np.inf
    assert min(found.lines, key=lambda line: line.bic).n_components > 1  # the criterion alone would
    drawing = draw_criteria(found)
    assert drawing.table["criterion"][1] == ""
    assert drawing.table["degenerate"][1] == found.lines[1].degenerate
    texts = [text.get_text() for text in drawing.axes.flat[0].texts]
    assert texts == [f"degenerate: {line.degenerate}" for line in found.lines[1:]]
    plt.close("all")
    with pytest.raises(
        DataError, match=rf"any number of components from 2 to 3 .*\(.*{blamed}.*\).*leave such features out"
    ):
        choose_components(X, sites=dealt(len(X)), at_least=2, at_most=3, random_state=0)


def test_whole_numbers_are_not_degenerate():
    X, _ = patients()
    found = choose_components(X.drop(columns="oldpeak"), sites=dealt(len(X)), at_most=5, random_state=0)
    assert [line.degenerate for line in found.lines] == [""] * 5


@pytest.mark.parametrize(
    ("load", "chosen", "published"),
    [(load_iris, 2, [829.9782, 574.0178, 580.8396]), (load_wine, 2, None), (load_breast_cancer, 5, None)],
)
def test_known_data(load, chosen, published):
    """BIC of iris as mclust's model VVV has it; wine has 13 features, and groups of 13 rows won before."""
    X = load().data[:, : 13 if load is load_wine else 10]
    found = choose_components(X, sites=np.arange(len(X)) % 4, at_most=5, random_state=0)
    assert found.n_components == chosen
    assert [line.degenerate for line in found.lines] == [""] * 5
    for theta in found.thetas:
        floor, pooled = REG * np.eye(X.shape[1]), np.cov(X.T)
        assert min(eigh(S - floor, pooled, eigvals_only=True)[0] for S in theta.covariances) > THIN
    if published:
        np.testing.assert_allclose([line.bic for line in found.lines[:3]], published, atol=0.01)


def test_a_k_does_not_depend_on_the_range():
    X, ill = patients()
    X = X.drop(columns="oldpeak")
    y = np.where(np.arange(len(X)) % 5, -1, ill)
    for labels, lowest, most in ((None, 1, 5), (y, 2, 3)):
        ranges = [(lowest, most), (3, 3), (1, 3), (most - 1, most)]
        found = [
            choose_components(X, labels, sites=dealt(len(X)), at_least=a, at_most=b, random_state=3)
            for a, b in ranges
        ]
        whole = {
            line.n_components: (line, theta) for line, theta in zip(found[0].lines, found[0].thetas, strict=True)
        }
        assert sorted(whole) == list(range(lowest, most + 1))
        for one in found[1:]:
            for line, theta in zip(one.lines, one.thetas, strict=True):
                assert line == whole[line.n_components][0]
                for mine, theirs in zip(theta, whole[line.n_components][1], strict=True):
                    np.testing.assert_array_equal(mine, theirs)
    searched = NetworkGaussianMixture(3, init_params="search", random_state=3).fit(X, sites=dealt(len(X)))
    begin = choose_components(X, sites=dealt(len(X)), at_least=3, at_most=3, random_state=3).theta
    given = dict(zip(("weights_init", "means_init", "covariances_init"), begin, strict=True))
    np.testing.assert_array_equal(
        searched.means_, NetworkGaussianMixture(3, **given).fit(X, sites=dealt(len(X))).means_
    )


def test_a_fit_refuses_them_unless_they_are_to_be_kept():
    X, _ = patients()
    mixture = NetworkGaussianMixture(3, random_state=0)
    with pytest.raises(
        CollapseError, match=r"rows have the same 'oldpeak', or nearly.*leave 'oldpeak' out"
    ) as caught:
        mixture.fit(X, sites=dealt(len(X)))
    assert (caught.value.column, caught.value.site) == ("oldpeak", None)
    assert not hasattr(mixture, "means_")
    with pytest.warns(DiagnosisWarning, match="collapsed component: .* rows have the same 'oldpeak'"):
        mixture.set_params(degenerate="keep").fit(X, sites=dealt(len(X)))
    finding = next(one for one in diagnose(mixture) if one.name == "collapsed component")
    k = caught.value.component
    assert finding.evidence == {
        "component": k, "rows": pytest.approx(len(X) * mixture.weights_[k]), "features": ["oldpeak"],
        "standard deviation against that of all rows": pytest.approx(0.0, abs=1e-6),
    }  # fmt: skip
    assert agreed_criteria(mixture, X, sites=dealt(len(X))).degenerate == "oldpeak"
    NetworkGaussianMixture(3, random_state=0).fit(X.drop(columns="oldpeak"), sites=dealt(len(X)))


@pytest.mark.parametrize("algorithm", ["masked", "exact", "mnem", "em"])
def test_a_fit_names_the_class(algorithm):
    """Nobody who is well has a depression: the class has no variance there, under any algorithm."""
    X, ill = patients()
    X.loc[~ill, "oldpeak"] = 0.0
    y = np.where(ill, "ill", "well")
    mixture = NetworkGaussianMixture(2, algorithm=algorithm, init_params="labels", eta=0.5)
    with pytest.raises(CollapseError, match="component 1, the class 'well', collapsed") as caught:
        mixture.fit(X, y, sites=dealt(len(X)))
    assert caught.value.fields() == {"column": "oldpeak", "label": "well"}


def test_one_start_that_holds_is_enough():
    """A heap of 6% of the rows, which some starts of three components find and others do not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[rng.random(400) < 0.06, 0] = 0.0

    def refused(**settings):
        try:
            return not NetworkGaussianMixture(3, **settings).fit(X, sites=dealt(400)).converged_
        except CollapseError:
            return True

    assert [refused(random_state=seed) for seed in range(4)] == [True, False, False, False]
    assert not refused(random_state=0, n_init=5)


def test_the_component_at_fault_is_named_beside_an_outlier():
    """A row far away makes all others look alike, and they are not to blame for it."""
    X, _ = patients()
    X = X.drop(columns="oldpeak")
    X.loc[7, "chol"] = 1e9
    with pytest.raises(
        CollapseError, match=r"about 1\.0 rows, but a covariance of 3 features needs 4; look for outl"
    ):
        NetworkGaussianMixture(2, algorithm="exact", random_state=0).fit(X, sites=dealt(len(X)))


def test_shrinkage_keeps_components_from_being_degenerate():
    """Fewer rows than features: the target stands for what they cannot tell."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 20)), 5 + rng.normal(size=(15, 20))])
    y = np.repeat([0, 1], [60, 15])
    with pytest.raises(CollapseError, match=r"about 15\.0 rows, but a covariance of 20 features needs 21"):
        NetworkGaussianMixture(2, init_params="labels").fit(X, y, sites=dealt(75))
    NetworkGaussianMixture(2, init_params="labels", shrinkage=0.1).fit(X, y, sites=dealt(75))


def test_reasons_in_a_few_words():
    rng = np.random.default_rng(2)
    theta, names = mixture_of(rng, 4, 3), ["a", "b", "c"]
    theta.covariances[0] = np.diag([1.0, 0.0, 1.0])
    theta.covariances[1] = 0.0
    theta.covariances[2] = np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]])
    theta.covariances[:] += REG * np.eye(3)
    found = degenerate(theta, np.full(3, REG))
    assert [one.component for one in found] == [0, 1, 2]
    equal = f"{1000 * theta.weights[1]:.3g} equal rows"
    assert reasons(found, 1000.0, names) == f"b, {equal}, a with b"
    assert reasons(found[:1], 2.0, names) == f"{2 * theta.weights[0]:.3g} rows of 3 features"
    assert reasons([], 1000.0, names) == ""
    with pytest.raises(CollapseError, match="rows have 'a', 'b' on a line, or nearly"):
        refuse_degenerate(Theta(*(part[2:] for part in theta)), np.full(3, REG), 1e3, names, round=1)


def federation(X, algorithm="masked", **changed):
    told = {"owners": None, "n_features": X.shape[1], "features": tuple(X.columns), "max_rounds": 1000, **changed}
    values = X.to_numpy()
    rows = [LocalData(values[dealt(len(X)) == name], None, None) for name in SITES]
    return make_task(SITES, **settings(algorithm, **told)), rows


def test_sites_choose_and_refuse_what_a_simulation_does():
    X, _ = patients(300)
    choice = {"start": "search", "n_components": 3, "min_count": 5, "seed": 0}
    programs = run_all(*federation(X, **choice, at_least=1))
    found = choose_components(X, sites=dealt(len(X)), at_most=3, random_state=0)
    for program in programs:
        assert program.selection.lines == found.lines
        assert program.failure is None
        assert program.results["fit"].weights.shape == (1,)
    for program in run_all(*federation(X, **choice, at_least=2)):
        assert isinstance(program.failure, DataError)
        assert "with any number of components from 2 to 3 some" in str(program.failure)


@pytest.mark.parametrize("scale", [False, True])
def test_all_sites_refuse_together(scale):
    X, _ = patients()
    with pytest.raises(CollapseError) as caught:
        NetworkGaussianMixture(3, random_state=3, min_count=2).fit(X, sites=dealt(len(X)))
    texts = {str(program.failure) for program in run_all(*federation(X, scale=scale))}
    assert len(texts) == 1
    if not scale:
        assert texts == {str(caught.value)}
    assert "rows have the same 'oldpeak'" in texts.pop()
    for program in run_all(*federation(X, scale=scale, degenerate="keep")):
        assert program.failure is None
        assert "fit" in program.results


def test_under_gossip_each_site_refuses_its_own(tmp_path):
    """They cannot know others' estimates; a site that refuses its own is done with the others all the same."""
    X, _ = patients(300)
    task, rows = federation(X, "exact", max_rounds=2000, tol=1e-5)
    programs = programs_of(task, rows, identities(tmp_path, SITES))
    transcript(programs)
    for m, program in enumerate(programs):
        assert program.over
        assert "closing" in program.results
        assert program.failure.site == SITES[m]
        assert program.failure.column == "oldpeak"


def test_the_commands(tmp_path):
    X, _ = patients()
    table, model = tmp_path / "rows.csv", tmp_path / "model.npz"
    X.assign(hospital=dealt(len(X))).to_csv(table, index=False)

    def run(command, *words, code=0):
        told = CliRunner().invoke(app, [command, *map(str, words)])
        assert told.exit_code == code, told.output
        return told

    columns = (table, "--sites", "hospital")
    lines = run("choose-k", *columns, "--max", 3).stdout.splitlines()
    assert lines[2].split()[-1] == "degenerate"
    assert [line.split()[-1] for line in lines[4:6]] == ["oldpeak"] * 2
    assert lines[7] == "K = 1 is the only one that is not degenerate: there was nothing to compare it with"
    told = json.loads(run("choose-k", *columns, "--max", 2, "--json").stdout)
    assert [line["degenerate"] for line in told["lines"]] == ["", "oldpeak"]
    assert (told["components"], told["margin"]) == (1, None)
    refused = run("choose-k", *columns, "--min", 2, "--max", 2, "--json", code=2)
    assert "raise --reg-covar" in json.loads(refused.stdout)["error"]["message"]
    fit = ("fit", *columns, "--components", 3, "--out", model)
    error = json.loads(run(*fit, "--json", code=2).stdout)["error"]
    assert (error["type"], error["column"]) == ("CollapseError", "oldpeak")
    assert "--degenerate keep keeps such a fit" in error["message"]
    assert not model.exists()
    assert "warning: collapsed component" in run(*fit, "--degenerate", "keep").stderr
    assert "have the same 'oldpeak'" in " ".join(run("diagnose", model).stdout.split())
