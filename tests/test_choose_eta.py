"""Choosing MNEM's step: predictions held against runs of MNEM, the theory's expansion, and other code's numbers."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from command import gaussip
from gaussip import NetworkGaussianMixture
from gaussip.algorithms import make
from gaussip.cli import app
from gaussip.errors import DataError, NetworkError, PooledTargetWarning, SettingError
from gaussip.inference.information import parameter_names
from gaussip.mixture.theta import Theta, pack, to_psi
from gaussip.networks import measures, mixing_weights
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate
from gaussip.step_size import choose_eta, precision
from gaussip.step_size.outlook import CLOSE, Outlook
from gaussip.studies.simulation_model import Setting, draw, paper_start
from gaussip.studies.theory import contraction, site_maps

TWO = {"weights": (0.6, 0.4), "correlations": (0.5, 0.1)}


def problem(network, *, labels=False, seed=2, **changes):
    data = draw(Setting(**({"n_rows": 1500, "n_sites": 6, "n_features": 2, "delta": 2.5} | TWO | changes)), seed)
    rows = Rows.of_sites(data.by_site(data.X), data.by_site(data.labels) if labels else None, None, 2)
    W = mixing_weights(network, range(data.sites.max() + 1), seed=0)
    return data, rows, W, paper_start(data.truth, 0.3, np.random.default_rng(0))


@pytest.fixture(scope="module")
def sorted_data():
    """Six sites sorted by class."""
    return draw(Setting(n_rows=1500, n_sites=6, n_features=2, delta=2.5, **TWO), 2)


def mixture(**settings):
    return NetworkGaussianMixture(
        **({"n_components": 2, "algorithm": "mnem", "network": "circle", "random_state": 0} | settings)
    )


@pytest.mark.parametrize(
    ("network", "changes"),
    [
        ("circle", {}),
        ("star", {"size_ratio": 5.0}),
        ("fixed-degree(2)", {"spread": "dirichlet"}),
        ("ring", {"labelled": 0.3, "labels": True}),
    ],
)
@pytest.mark.filterwarnings("ignore::gaussip.errors.PooledTargetWarning")
def test_the_limit_is_where_mnem_ends(network, changes):
    _, rows, W, start = problem(network, **changes)
    outlook = Outlook(rows, W, start)
    run = simulate(make("mnem", 0.1), start, rows, W, max_rounds=5000, tol=1e-11)
    assert run.converged
    np.testing.assert_allclose(pack(outlook.limit(0.1)), pack(run.theta), atol=1e-7)


def test_the_bias_is_the_theory_s_to_first_order():
    """psi* + eta v with v = W v + f, f_m = F_m(psi*) - psi*: what is left falls as eta squared."""
    _, rows, W, start = problem("circle", n_features=1, n_sites=5)
    outlook = Outlook(rows, W, start)
    centre, W = to_psi(outlook.pooled), W.toarray()
    q = centre.size
    f = site_maps(rows, centre).reshape(5, q) - centre.ravel()
    d = np.linalg.lstsq(np.eye(5) - W, f, rcond=None)[0]
    d -= d.mean(axis=0)
    moves = 1e-5 * np.eye(q).reshape(q, *centre.shape)
    J = np.stack(
        [(site_maps(rows, centre + e) - site_maps(rows, centre - e)).reshape(5, q) / 2e-5 for e in moves], -1
    )
    shift = np.linalg.solve(np.eye(q) - J.mean(axis=0), np.einsum("mij,mj->i", J, W @ d) / 5)
    left = []
    for eta in (0.004, 0.002, 0.001):
        found = to_psi(outlook.limit(eta)).reshape(5, q)
        found *= 1 + eta * (d + shift)[:, ::3].sum(axis=1, keepdims=True)  # the mass that theta does not carry
        left.append(np.abs(found - centre.ravel() - eta * (d + shift)).max())
    assert left[0] < 0.05 * 0.004 * np.abs(d).max()
    assert left[0] / left[1] == pytest.approx(4, rel=0.1)
    assert left[1] / left[2] == pytest.approx(4, rel=0.1)


def test_the_standard_error_and_the_rate_are_those_of_other_code(sorted_data):
    """Louis's information from the rows' scores; and the Jacobian in psi."""
    data, rows, W, start = problem("ring", labels=True, labelled=0.2)
    outlook = Outlook(rows, W, start)
    assert outlook.rate == pytest.approx(contraction(rows, outlook.pooled).rate, rel=1e-5)
    given = dict(zip(("weights_init", "means_init", "covariances_init"), start, strict=True))
    fitted = NetworkGaussianMixture(2, algorithm="em", tol=1e-10, reg_covar=0.0, **given)
    fitted.fit(data.X, data.labels, sites=data.sites)
    variances = np.diagonal(fitted.uncertainty(data.X, data.labels).covariance).reshape(2, -1)
    assert outlook.standard_error**2 == pytest.approx((variances / outlook.ruler.scale**2).sum(), rel=1e-4)
    np.testing.assert_allclose(outlook.standard_errors * outlook.ruler.scale, np.sqrt(variances), rtol=1e-4)


@pytest.mark.parametrize("network", ["circle", "random-regular(4)"])
def test_rounds_are_those_of_runs(network):
    _, rows, W, start = problem(network)
    outlook = Outlook(rows, W, start)
    end, predicted = outlook.limit(0.05), outlook.rounds(0.05)
    near = []

    def watch(now):
        apart = np.sqrt(np.mean(outlook.ruler.apart(now.theta, end) ** 2)) / outlook.standard_error
        near.append((now.round, apart))

    simulate(make("mnem", 0.05), start, rows, W, max_rounds=int(3 * predicted), watch=watch)
    last = max(j for j, (_, apart) in enumerate(near) if apart > CLOSE)
    assert predicted == pytest.approx(near[last][0], rel=0.3)


def test_the_recommended_eta_is_the_largest_with_a_small_bias(sorted_data):
    data = sorted_data
    step = choose_eta(mixture(), data.X, sites=data.sites)
    assert step.bias**2 <= 0.1 < 1.2 * step.bias**2
    assert step.mse == pytest.approx(1 + step.bias**2)
    assert step.least_bias == 0
    assert [trial.eta for trial in step.trials] == sorted(trial.eta for trial in step.trials)
    assert choose_eta(mixture(), data.X, sites=data.sites, extra=0.01).eta < step.eta / 2
    network = measures(mixing_weights("circle", range(6)))
    assert step.terms[:3] == pytest.approx((1500, network.spectral_gap, network.se_w))
    assert 0 < step.terms.rate < 1

    same = draw(Setting(n_rows=1500, n_sites=6, n_features=2, delta=2.5, spread="homogeneous", **TWO), 2)
    dealt = choose_eta(mixture(), same.X, sites=same.sites)
    assert dealt.eta > 1.5 * step.eta
    assert dealt.terms.se_f < step.terms.se_f / 3


def test_the_worst_parameter_is_that_of_a_run_in_its_own_standard_errors(sorted_data, monkeypatch):
    """MNEM run until it stands still, and standard errors from the rows' scores."""
    data, names = sorted_data, np.array(["Basel", "Bern", "Biel", "Chur", "Genf", "Zug"])[sorted_data.sites]
    step = choose_eta(mixture(reg_covar=0.0), data.X, sites=names)
    ended = mixture(reg_covar=0.0, eta=step.eta, tol=1e-8, max_rounds=5000).fit(data.X, sites=names)
    pooled = NetworkGaussianMixture(2, algorithm="em", reg_covar=0.0, tol=1e-10, random_state=0)
    pooled.fit(data.X, sites=names)
    sites = pack(Theta(ended.site_weights_, ended.site_means_, ended.site_covariances_))
    errors = pack(pooled.uncertainty(data.X).standard_errors)
    off = np.abs(sites - pack(pooled._theta())) / errors
    parameters = parameter_names(["column 0", "column 1"])
    worst = [  # of two weights, which sum to one, both
        (ended.sites_[m], f"component {k}", parameters[a]) for m, k, a in np.argwhere(off > 0.9999 * off.max())
    ]
    assert step.worst[:3] in worst
    assert step.worst.errors == pytest.approx(off.max(), rel=1e-3)
    assert step.worst.errors > 2 * step.bias
    (chosen,) = [trial for trial in step.trials if trial.eta == step.eta]
    assert chosen.worst == step.worst.errors
    monkeypatch.setattr(precision, "MOST", 11)
    assert choose_eta(mixture(), data.X, sites=names).worst is None


def test_a_fit_with_it_stops_near_where_it_was_predicted_to(sorted_data):
    """Not on a circle or an even ring, where differences wander about and the change stays large for longer."""
    data, network = sorted_data, "random-regular(4)"
    step = choose_eta(mixture(network=network), data.X, sites=data.sites)
    fitted = mixture(network=network, eta=step.eta, tol=step.tol, max_rounds=step.max_rounds)
    fitted.fit(data.X, sites=data.sites)
    assert fitted.converged_
    assert fitted.n_rounds_ == pytest.approx(step.rounds, rel=0.1)
    going_on = mixture(network=network, tol=1e-3, max_rounds=2000, warm_start=True).fit(data.X, sites=data.sites)
    assert choose_eta(going_on, data.X, sites=data.sites).rounds < 0.7 * step.rounds


def test_with_a_budget_the_error_at_its_end_is_least(sorted_data):
    data = sorted_data
    few, many = (choose_eta(mixture(), data.X, sites=data.sites, rounds=n) for n in (30, 3000))
    for step in (few, many):
        assert step.mse <= min(trial.mse for trial in step.trials) + 1e-3
    assert few.eta > 4 * many.eta
    assert few.rounds == 30


def test_an_unbalanced_network_keeps_a_bias_at_every_eta(sorted_data):
    data = sorted_data
    with pytest.warns(PooledTargetWarning, match="does not aim"):
        step = choose_eta(mixture(network="fixed-degree(2)"), data.X, sites=data.sites)
    assert step.least_bias > 0.1
    assert step.bias > step.least_bias
    least = min(trial.mse for trial in step.trials)
    assert least < step.mse <= 1.1 * least * (1 + 1e-9)


@pytest.mark.parametrize(
    ("settings", "given", "error", "message"),
    [
        ({}, {"rounds": 0}, SettingError, "rounds=0 must be a whole number"),
        ({}, {"rounds": 2.5}, SettingError, "rounds=2.5 must be"),
        ({}, {"extra": 0}, SettingError, "extra=0 must be a number above 0"),
        ({}, {"extra": math.nan}, SettingError, "extra=nan"),
        ({}, {"sites": None}, DataError, "needs all rows in one table"),
        ({}, {"sites": np.zeros(1500)}, DataError, "at least two sites to average over"),
        ({"n_components": 1501}, {}, DataError, "more than the n_samples"),
        ({"network": "nowhere"}, {}, NetworkError, "there is no network"),
        ({"n_components": 0}, {}, SettingError, "n_components=0"),
    ],
)
def test_what_cannot_work_is_refused(sorted_data, settings, given, error, message):
    with pytest.raises(error, match=message):
        choose_eta(mixture(**settings), sorted_data.X, **{"sites": sorted_data.sites, **given})


def test_components_that_the_rows_cannot_tell_are_refused():
    X, sites = np.tile([[0.0, 0.0], [1.0, 3.0], [4.0, 1.0]], (20, 1)), np.repeat([0, 1, 2], 20)
    with pytest.raises(DataError, match=r"does not converge|do not determine"):
        choose_eta(mixture(n_components=3, reg_covar=0.0), X, sites=sites)


def test_the_page_s_example(capsys):
    page = (Path(__file__).parents[1] / "docs" / "how-to-choose-eta.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(example, {})
    eta, rounds, bias, taken = map(float, capsys.readouterr().out.split())
    assert 0.01 < eta < 1
    assert 0.2 < bias < 0.32
    assert rounds <= taken < 4 * rounds


OPTIONS = ["--sites", "hospital", "--labels", "diagnosis", "--components", "3"]


def test_the_command_end_to_end(table, tmp_path):
    picture = str(tmp_path / "eta.png")
    asked = ["choose-eta", str(table), *OPTIONS, "--network", "circle", "--json", "--plot", picture]
    chosen = CliRunner().invoke(app, asked)
    assert chosen.exit_code == 0, chosen.output
    found = json.loads(chosen.stdout)
    assert 0 < found["eta"] <= 1
    assert {"spectral_gap", "se_w", "se_f", "rate", "n_rows"} == set(found["terms"])
    assert found["eta"] in [trial["eta"] for trial in found["trials"]]
    assert set(found["worst"]) == {"site", "component", "parameter", "errors"}
    assert found["worst"]["component"] in ("mild", "none", "severe")
    assert (tmp_path / "eta.png").stat().st_size > 10_000
    assert (tmp_path / "eta.csv").read_text().startswith("eta,rounds,bias,mse,recommended\n")


def test_the_command_says_what_to_run_next(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    told = runner.invoke(app, ["choose-eta", str(table), *OPTIONS, "--start", "labels"], env={"COLUMNS": "300"})
    assert told.exit_code == 0, told.output
    assert "masked, the default algorithm, has no eta and no bias" in told.output
    (line,) = [line for line in told.output.splitlines() if line.startswith("fit it: gaussip ")]
    assert "--start labels" in line
    fitted = runner.invoke(app, [*line.removeprefix("fit it: gaussip ").split(), "--json"])
    assert fitted.exit_code == 0, fitted.output
    assert json.loads(fitted.stdout)["converged"]
    (masked,) = [line for line in told.output.splitlines() if line.startswith("or:     gaussip ")]
    tols = [re.search(r" --tol ([\d.e-]+) ", command)[1] for command in (line, masked)]
    assert tols[0] == tols[1]
    assert float(tols[0]) > 1e-5
    one_way = runner.invoke(app, ["choose-eta", str(table), *OPTIONS, "--network", "fixed-degree(2)", "--seed", "1"])
    assert one_way.exit_code == 0, one_way.output
    assert "no eta is good" in one_way.output


def test_the_command_says_what_a_fit_will_end_by(table):
    asked = ["choose-eta", str(table), *OPTIONS, "--network", "circle", "--start", "labels"]
    told = CliRunner().invoke(app, asked).output
    assert "spectral gap 0): a fit that ends by --tol takes more rounds" in told
    assert re.search(
        r"worst single parameter: [\w ,]+ of (mild|none|severe) at site H\d, [\d.]+ standard errors", told
    )
    few = gaussip(*asked, "--rounds", "5").stdout  # in a process of its own, with long lines
    assert "MSE / pooled after 5 rounds" in few
    assert "the fit ends by its 5 rounds, not by --tol" in few


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--components", "3", "--features", "age,dose"], "name the column that holds each row's site with --sites"),
        ([*OPTIONS, "--rounds", "0"], "--rounds 0 must be a whole number"),
        ([*OPTIONS, "--extra", "-1"], "--extra -1.0 must be a number above 0"),
        ([*OPTIONS, "--plot", "eta.txt"], "pictures are"),
        (["--sites", "hospital", "--components", "3", "--features", "age", "--labels", "dose"], "labels"),
    ],
)
def test_the_command_refuses(table, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(app, ["choose-eta", str(table), *options])
    assert told.exit_code == 2
    assert message in told.output
    assert not list(tmp_path.iterdir())
