"""Why a fit failed: every fault is found in a run that has it, nothing in healthy ones, and the numbers are right."""

from __future__ import annotations

import json
import math
import re
import shlex
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from typer.testing import CliRunner

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import REGISTRY, exact
from gaussip.cli import app
from gaussip.diagnosis import diagnose, evidence_of
from gaussip.errors import DiagnosisWarning, FederationError, ModelFileError
from gaussip.estimator import model_file
from gaussip.findings import CHECKS, decay, examine
from gaussip.findings.components import cheapest_merger, thinness
from gaussip.findings.sites import maps_of_sites
from gaussip.mixture.merging import bhattacharyya
from gaussip.mixture.theta import Theta, reorder, to_psi, to_theta
from gaussip.mixture.units import unit_of
from gaussip.rows.moments import moments, summary
from gaussip.rows.problem import prepare
from gaussip.rows.rows import Rows
from gaussip.studies.simulation_model import Setting, draw
from gaussip.studies.theory import contraction

quiet = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::gaussip.errors.PooledTargetWarning",
    "ignore::gaussip.errors.DiagnosisWarning",
)  # fmt: skip


def rows_of(K=3, seed=21, **changes):
    weights = np.arange(K, 0, -1) / (K * (K + 1) / 2)
    given = {"n_rows": 1600, "n_sites": 6, "n_features": 3, "delta": 3.0, "spread": "homogeneous"} | changes
    return draw(Setting(weights=tuple(weights), correlations=tuple(np.linspace(0.5, -0.1, K)), **given), seed)


def fit(data, K=3, labels=False, **settings):
    mixture = NetworkGaussianMixture(K, random_state=1, **settings)
    return mixture.fit(data.X, data.labels if labels else None, sites=data.sites)


def too_few_rounds():
    return fit(rows_of(), algorithm="mnem", eta=0.02, max_rounds=400)


def large_step():
    return fit(rows_of(2), 2, algorithm="ngd", network="complete", eta=0.8, max_rounds=200)


@cache
def overlapping():
    data = rows_of(delta=0.8, n_rows=3000)
    return fit(data, network="complete", max_rounds=10_000, means_init=data.truth.means)


def unfair():
    return fit(
        rows_of(spread="heterogeneous"), algorithm="mnem", network="fixed-degree(2)", eta=0.05, max_rounds=2000
    )


def repeated_rows():
    data = rows_of(2)
    data.X[::40] = -9.0
    return fit(data, max_rounds=2000)


def hundredths():
    data = rows_of(2)
    data.X[data.sites == 3, 1] *= 100
    return fit(data, 2, max_rounds=2000)


def twins():
    data = rows_of(2)
    begin = reorder(data.truth, np.array([0, 1, 1]))
    return fit(
        data, weights_init=[0.4, 0.3, 0.3], means_init=begin.means, covariances_init=begin.covariances, max_rounds=500
    )


def one_too_many():
    return fit(rows_of(2), network="complete", max_rounds=400)


def other_units():
    data = rows_of()
    data.X[data.sites == 3] *= 2
    return fit(data, algorithm="mnem", eta=0.05, max_rounds=3000)


def slow_together():
    return fit(rows_of(delta=1.0), network="complete", max_rounds=120)


def far_apart():
    return fit(rows_of(spread="heterogeneous"), algorithm="mnem", eta=0.2, max_rounds=1000)


FAULTS = {
    "not enough rounds": too_few_rounds, "step too large": large_step, "poor separation": overlapping,
    "unbalanced network": unfair, "collapsed component": repeated_rows, "duplicated component": twins,
    "too many components": one_too_many, "a site pulls away": other_units,
    "agreed but still moving": slow_together, "settled apart": far_apart, "far wider component": hundredths,
}  # fmt: skip


def found(run):
    return {finding.name: finding for finding in diagnose(run)}


def test_there_is_a_fault_for_every_check():
    assert set(FAULTS) == {check.name for check in CHECKS}


@quiet
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name, tmp_path):
    mixture = FAULTS[name]()
    here = found(mixture)
    assert name in here
    finding = here[name]
    assert finding.sentence.endswith(".") or finding.sentence.endswith("?")
    assert "mixture." in finding.remedy
    assert 1 <= finding.rounds[0] <= finding.rounds[1] == mixture.n_rounds_
    assert all(value is not None for value in finding.evidence.values())
    mixture.save(tmp_path / "model.npz")
    stored = found(tmp_path / "model.npz")  # the same from a file
    assert [(f.name, f.evidence, f.sentence) for f in stored.values()] == [
        (f.name, f.evidence, f.sentence) for f in here.values()
    ]
    assert "gaussip fit TABLE" in stored[name].remedy


@quiet
def test_exact_that_went_back(monkeypatch):
    monkeypatch.setattr(exact, "APART", 0.99)
    monkeypatch.setattr(exact, "FIRST", 0)
    counted = []

    def watched(self, state, found, update=exact.Exact.update):
        counted.append(int(state.restarts.max()))
        return update(self, state, found)

    monkeypatch.setattr(exact.Exact, "update", watched)
    mixture = fit(
        rows_of(delta=2.0, n_features=2, n_sites=12, spread="heterogeneous"), network="star", max_rounds=300
    )
    assert found(mixture)["step too large"].evidence["steps undone"] == counted[-1] > 0


HEALTHY = [
    (1, {}, {}),
    (2, {"n_features": 2, "delta": 4.0}, {"algorithm": "em"}),
    (3, {"spread": "heterogeneous"}, {"network": "star"}),
    (3, {"n_sites": 5, "n_features": 5, "delta": 2.5}, {"network": "complete"}),
    (3, {"size_ratio": 5.0}, {"algorithm": "mnem", "network": "star", "eta": 0.05}),
    (4, {"n_features": 4}, {"algorithm": "mnem", "network": "circle", "eta": 0.05}),
    (2, {"delta": 2.0, "labelled": 0.3}, {"init_params": "labels"}),
]


@pytest.mark.parametrize(("K", "data", "settings"), HEALTHY)
def test_nothing_is_found_in_a_healthy_run(K, data, settings):
    mixture = fit(rows_of(K, **data), K, labels="labelled" in data, max_rounds=3000, **settings)
    assert mixture.converged_
    assert diagnose(mixture) == []


@quiet
def test_the_contraction_is_the_map_s_own():
    data = rows_of(delta=0.8, n_rows=3000)
    mixture = overlapping()
    estimated = found(mixture)["poor separation"].evidence["contraction L"]
    rows = Rows.of_sites(data.by_site(data.X), None, None, 3)
    assert 1 - estimated == pytest.approx(1 - contraction(rows, mixture._theta()).rate, rel=0.1)


def test_the_rounds_needed_are_those_it_takes():
    with pytest.warns(ConvergenceWarning, match="needs about") as caught:
        short = too_few_rounds()
    ((warned, asked),) = re.findall(
        r"needs about (\d+) rounds in all: raise max_rounds to (\d+)", str(caught[0].message)
    )
    finding = found(short)["not enough rounds"]
    needed = finding.evidence["rounds needed"]
    assert int(warned) == needed
    assert f"{needed} in all" in finding.sentence
    assert finding.sentence.endswith("Exact, or a larger eta, takes fewer.")
    assert needed <= int(asked) <= 1.6 * needed
    longer = fit(rows_of(), algorithm="mnem", eta=0.02, max_rounds=int(asked))
    assert longer.n_rounds_ == pytest.approx(needed, rel=0.15)


@quiet
def test_labels_as_many_as_asked_for_are_enough():
    data = rows_of(delta=0.8, n_rows=3000)
    shown = found(overlapping())["poor separation"].evidence
    labelled = rows_of(delta=0.8, n_rows=3000, labelled=shown["labels needed, share"])
    again = fit(labelled, labels=True, network="complete", max_rounds=10_000, means_init=data.truth.means)
    assert 0.3 * shown["rounds with them"] < again.n_rounds_ < 1.5 * shown["rounds with them"]


@quiet
@pytest.mark.parametrize("network", ["ring", "fixed-degree(2)"])
def test_what_sites_say_is_known_from_their_estimates(network):
    """Against the moments of each site's rows, at the average that it heard."""
    data = rows_of(spread="heterogeneous", size_ratio=4.0)
    mixture = fit(data, algorithm="mnem", network=network, eta=0.05, max_rounds=5000, tol=1e-8)
    run = evidence_of(mixture)
    W, mass = run.W.toarray(), np.bincount(data.sites) / len(data.X) * 6
    np.testing.assert_array_equal(run.mass, np.bincount(data.sites))
    scale = np.linalg.solve(np.eye(6) - 0.95 * W, 0.05 * mass)[:, None, None]  # row weights: degrees are equal here
    heard = to_theta(np.tensordot(W, scale * to_psi(run.sites), axes=1))
    problem = prepare(data.X, None, data.sites, n_components=3, network=network, seed=0)
    maps = summary(moments(problem.rows, heard, 1e-6))
    np.testing.assert_allclose(maps_of_sites(run), unit_of(run.theta).standard(maps), atol=1e-6)


def test_distances_of_components_against_integrals():
    theta = Theta(np.array([0.6, 0.4]), np.array([[0.0], [1.5]]), np.array([[[1.0]], [[2.0]]]))
    one, other = norm(0, 1), norm(1.5, math.sqrt(2))
    shared = quad(lambda x: math.sqrt(one.pdf(x) * other.pdf(x)), -20, 20)[0]
    assert bhattacharyya(theta, 0, 1) == pytest.approx(-math.log(shared), rel=1e-8)
    mean = 0.6
    merged = norm(mean, math.sqrt(0.6 * (1 + mean**2) + 0.4 * (2 + (1.5 - mean) ** 2)))

    def loss(x):
        density = 0.6 * one.pdf(x) + 0.4 * other.pdf(x)
        return density * (math.log(density) - merged.logpdf(x))

    cost, pair = cheapest_merger(theta, 1000.0)
    assert pair == (0, 1)
    assert cost == pytest.approx(1000 * quad(loss, -15, 15)[0], abs=1.5)  # by drawn rows
    assert thinness(theta, 0, np.array([0.1])) == pytest.approx((0.5, 0.1))
    assert thinness(theta, 1, np.array([0.1]))[1] == pytest.approx(0.05)


def test_a_fit_warns_of_what_is_certain():
    with pytest.warns(DiagnosisWarning, match="collapsed component: Component"):
        repeated_rows()
    with pytest.warns(DiagnosisWarning, match="duplicated component"):
        twins()


@quiet
def test_a_network_that_cannot_be_drawn_again_is_not_judged():
    data = rows_of()
    mixture = NetworkGaussianMixture(3, algorithm="mnem", network="fixed-degree(2)", eta=0.05, max_rounds=50)
    judged = examine(evidence_of(mixture.fit(data.X, sites=data.sites)))
    assert "seed" in judged.not_judged["unbalanced network"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table, and a model of it that ran out of rounds."""
    folder, data = tmp_path_factory.mktemp("diagnosed"), rows_of()
    columns = {"hospital": [f"H{m}" for m in data.sites], **{f"x{j}": data.X[:, j] for j in range(3)}}
    pa.csv.write_csv(pa.table(columns), folder / "rows.csv")
    mixture = NetworkGaussianMixture(3, algorithm="mnem", eta=0.02, max_rounds=400, random_state=0)
    features = pa.table({name: columns[name] for name in ("x0", "x1", "x2")})
    with pytest.warns(ConvergenceWarning):
        mixture.fit(features, sites=columns["hospital"]).save(folder / "model.npz")
    return folder


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@quiet
def test_the_command(table):
    result = run("diagnose", table / "model.npz", "--plot", table / "why.png")
    assert result.exit_code == 0  # also with findings
    assert "not enough rounds\n  The rounds ran out while the change was still falling" in result.stdout
    assert (table / "why.png").stat().st_size > 10_000
    assert (table / "why.csv").read_text().startswith("round,log_likelihood,change,disagreement")
    assert run("diagnose", table / "model.npz", "--plot", table / "why.png").exit_code == 2
    as_json = json.loads(run("diagnose", table / "model.npz", "--json").stdout)
    finding = as_json["findings"][-1]
    assert finding["name"] == "not enough rounds"
    assert "a site pulls away" in as_json["judged"]
    assert "--features x0,x1,x2 " in finding["remedy"]
    command = finding["remedy"].replace("TABLE", str(table / "rows.csv")).replace("COLUMN", "hospital")
    assert run(*shlex.split(command.replace("NEW.npz", str(table / "new.npz")))[1:]).exit_code == 0
    after = run("diagnose", table / "new.npz")
    assert "converged" in after.stdout
    assert "nothing was found" in after.stdout


def test_what_cannot_be_diagnosed(table, tmp_path):
    arrays, description = model_file.read(table / "model.npz")
    model_file.write(tmp_path / "older.npz", arrays, description | {"format": 1})
    with pytest.raises(ModelFileError, match="model format 1; this version of gaussip reads format 2"):
        diagnose(tmp_path / "older.npz")
    del arrays["site_mass_"]
    model_file.write(tmp_path / "lacking.npz", arrays, description)
    with pytest.raises(ModelFileError, match="not a gaussip model: it holds no 'site_mass_'"):
        diagnose(tmp_path / "lacking.npz")
    assert run("diagnose", tmp_path / "older.npz").exit_code == 2
    assert run("diagnose", tmp_path / "absent.npz").exit_code == 2
    np.savez(tmp_path / "foreign.npz", a=np.zeros(3))
    with pytest.raises(ModelFileError, match="not a gaussip model: gaussip did not write it"):
        diagnose(tmp_path / "foreign.npz")
    (tmp_path / "cut.npz").write_bytes((table / "model.npz").read_bytes()[:5000])
    with pytest.raises(ModelFileError, match=r"cut short or not an \.npz file"):
        diagnose(tmp_path / "cut.npz")
    with pytest.raises(NotFittedError):
        diagnose(NetworkGaussianMixture(3))
    with pytest.raises(FederationError, match=r"no federation\.toml"):
        diagnose(tmp_path)


@quiet
def test_too_few_rounds_to_judge():
    short = fit(rows_of(), max_rounds=16)
    assert short.n_rounds_ > short.history_["round"][-1]  # in the middle of a step
    finding = found(short)["not enough rounds"]
    assert "too few for a prediction" in finding.sentence
    assert finding.evidence["rounds"] == 16
    assert "max_rounds=1000" in finding.remedy  # not a few more, and a few more after these


@quiet
@pytest.mark.parametrize("algorithm", REGISTRY)
def test_no_fit_fails_because_of_its_diagnosis(algorithm):
    data = rows_of(spread="heterogeneous", size_ratio=4.0, labelled=0.1)
    names = {check.name for check in CHECKS}
    for labels in (True, False):
        judged = examine(evidence_of(fit(data, labels=labels, algorithm=algorithm, max_rounds=60)))
        assert set(judged.judged) | set(judged.not_judged) == names
        assert ("a site pulls away" in judged.not_judged) == (algorithm in ("em", "exact"))


def thin_group(spread):
    """What is found where the last of three groups has this standard deviation in one feature, and its rows."""
    data = rows_of(3, delta=6.0)
    last = data.classes == 2
    data.X[last, 0] = data.truth.means[2, 0] + spread * np.random.default_rng(3).normal(size=last.sum())
    return found(fit(data, max_rounds=2000, means_init=data.truth.means)), last.sum()


@quiet
def test_a_thin_group_has_not_collapsed():
    """Honest down to a variance that reg_covar does not let be seen."""
    assert "collapsed component" not in thin_group(5e-3)[0]
    here, rows = thin_group(0.0)
    finding = here["collapsed component"]
    assert finding.evidence["component"] == 2
    assert f"its {rows} rows are the same in one direction" in finding.sentence
    assert "reg_covar=" not in finding.remedy


@quiet
@pytest.mark.parametrize("K", [2, 3, 4])
def test_other_units_collapse_no_component(K):
    data = rows_of(2)
    data.X[:, 2] *= 1e5  # features of different size
    data.X[data.sites == 3, 1] *= 1000
    here = found(fit(data, K, max_rounds=2000))
    assert "collapsed component" not in here
    assert here["far wider component"].evidence["feature"] == "feature 1"


@quiet
@pytest.mark.parametrize("size", [1e4, 1e9])
def test_a_row_far_out_collapses_no_other_component(size):
    """It may have a component to itself, which has then collapsed, or widen one; the others are not to blame."""
    data = rows_of(2)
    data.X[7, 2] = size
    for seed in range(3):
        mixture = NetworkGaussianMixture(3, random_state=seed, max_rounds=500).fit(data.X, sites=data.sites)
        here = found(mixture)
        if "collapsed component" in here:
            k = here["collapsed component"].evidence["component"]
            assert 1600 * mixture.weights_[k] < 3.5
            assert "Are there outliers?" in here["collapsed component"].sentence
        else:
            assert here["far wider component"].evidence["feature"] == "feature 2"


@quiet
def test_a_class_that_collapsed_gets_a_small_reg_covar():
    """Not one component less, which the classes do not allow; small for the smallest feature, whatever the others."""
    data = rows_of(2, labelled=1.0)
    data.X[:, 1:] *= [1e-2, 1e4]
    data.X[data.classes == 1, 0] = 0.5
    remedy = found(fit(data, 2, labels=True, init_params="labels"))["collapsed component"].remedy
    (asked,) = re.findall(r"reg_covar=([^)]*)\)", remedy)
    assert 1e-6 < float(asked) < 0.01 * data.X[:, 1].var()


@quiet
def test_a_remedy_keeps_what_was_asked_for(tmp_path):
    data = rows_of(2)
    frame = pa.table({name: data.X[:, j] for j, name in enumerate(("age", "blood pressure", "crea"))})
    mixture = NetworkGaussianMixture(3, init_params="search", random_state=7, max_rounds=400, tol=1e-9)
    mixture.fit(frame, sites=data.sites).save(tmp_path / "model.npz")
    remedies = {name: shlex.split(one.remedy) for name, one in found(tmp_path / "model.npz").items()}
    words = remedies["too many components"]
    for option, value in {"--features": "age,blood pressure,crea", "--start": "search", "--seed": "7"}.items():
        assert words[words.index(option) + 1] == value
    words = remedies["not enough rounds"]
    assert words[words.index("--start") + 1] == str(tmp_path / "model.npz")
    alone = NetworkGaussianMixture(2, max_rounds=3, warm_start=True).fit(data.X)
    assert found(alone)["not enough rounds"].remedy == "mixture.set_params(max_rounds=1000).fit(X)"
    alone.save(tmp_path / "alone.npz")
    assert "TABLE --components 2 --algorithm em " in found(tmp_path / "alone.npz")["not enough rounds"].remedy


@pytest.mark.slow
@quiet
def test_the_page(tmp_path, monkeypatch, capsys):
    """Every command of the page finds what the page says."""
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[1] / "docs" / "how-to-diagnose.md").read_text(encoding="utf-8")
    tables, twice = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(tables, {})
    blocks = re.findall(r"^\$ gaussip (fit .*)\n\$ gaussip (diagnose .*)\n((?:.*\n)*?)```", text, re.MULTILINE)
    assert len(blocks) == 11
    for fitting, diagnosing, shown in blocks:
        assert run(*shlex.split(fitting)).exit_code == 0
        printed = " ".join(run(*shlex.split(diagnosing)).stdout.split())
        parts = [re.escape(" ".join(part.split())) for part in shown.split("...\n")]  # "..." where some is left out
        assert re.fullmatch(".*".join(parts), printed)
    exec(twice, {})
    assert "['duplicated component'] mixture.set_params(n_components=2)" in capsys.readouterr().out


def test_decay_of_a_known_rate():
    step = np.arange(1, 401)
    data = rows_of(1)
    base = evidence_of(fit(data, 1))
    change = 0.5 * 0.98**step + 0.5 * 0.9**step
    run = base._replace(algorithm="mnem", eta=0.1, passes=step, round=step, change=change, converged=False)
    fall = decay.late_decay(run)
    assert fall.rate == pytest.approx(0.98, rel=1e-6)
    assert decay.contraction(run, fall) == pytest.approx(1 - 0.02 / 0.1, rel=1e-4)
    assert decay.rounds_to(1e-8, fall) + 400 == pytest.approx(math.log(0.5 / 1e-8) / -math.log(0.98), abs=2)
