"""Why a fit failed: every fault is found in a run that has it, nothing in healthy ones, and the numbers are right."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from faulty_fits import FAULTS, fit, found, overlapping, quiet, repeated_rows, rows_of, too_few_rounds, twins
from gaussip import NetworkGaussianMixture
from gaussip.algorithms import REGISTRY, exact
from gaussip.diagnosis import diagnose, evidence_of
from gaussip.errors import DiagnosisWarning
from gaussip.findings import CHECKS, decay, examine
from gaussip.findings.sites import maps_of_sites
from gaussip.mixture.theta import to_psi, to_theta
from gaussip.mixture.units import unit_of
from gaussip.rows.moments import moments, summary
from gaussip.rows.problem import prepare
from gaussip.rows.rows import Rows
from gaussip.studies.theory import contraction


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
    assert finding.sentence.endswith("Masked, or a larger eta, takes fewer.")
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
        assert ("a site pulls away" in judged.not_judged) == (algorithm in ("em", "exact", "masked"))


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
