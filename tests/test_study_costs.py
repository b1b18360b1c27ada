"""Rounds and bytes to the pooled estimate, run and reckoned."""

import networkx as nx
import numpy as np
import pytest

from gaussip.errors import DesignError
from gaussip.studies.claims import verdicts
from gaussip.studies.comparison import Trial
from gaussip.studies.costs import costs
from gaussip.studies.design import of_text
from gaussip.studies.methods import Method
from gaussip.studies.report import report
from gaussip.studies.run import run
from study_files import rows_of

TOML = """
replicates = 3
looks = 200
levels = [1e-2, 1e-6]
rows = 1200
sites = 6
features = 2
delta = 4
rounds = 600
noise = 0.2
weighting = "rows"
claims = ["exact-reaches-the-pooled-estimate", "exact-needs-fewest-rounds"]

[[cells]]
network = ["ring", "star"]
methods = ["exact", "mnem=0.05"]
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return run(of_text(TOML, "mine"), tmp_path_factory.mktemp("costs") / "mine")


def test_rounds_and_bytes_of_methods_that_were_run(done):
    spent = {(cost.network, cost.method, cost.level): cost for cost in costs(done.results())}
    cost = spent["ring", "exact", 1e-6]
    assert cost.reached == cost.data_sets == 3
    cell = next(c for c in done.design.cells if c.method.algorithm == "exact" and c.network == "ring")
    kept = done.read(cell)
    first = [kept["rounds"][np.flatnonzero(kept["distance"][:, r] <= 1e-6)[0]] for r in range(3)]
    assert cost.rounds == np.median(first)
    assert cost.worst == max(first)
    assert cost.bytes == kept["bytes"][kept["rounds"] == cost.rounds][0]
    assert spent["ring", "exact", 1e-2].rounds < cost.rounds
    assert spent["ring", "MNEM, eta = 0.05", 1e-6].reached == 0
    assert np.isinf(spent["ring", "MNEM, eta = 0.05", 1e-6].rounds)
    assert [claim.verdict for claim in verdicts(done.results())] == ["kept", "kept"]


def test_flooding_and_trees_are_reckoned_from_pooled_em(done):
    """EM's iterations counted once more, by hand; the networks' widths from their graphs."""
    cell = next(c for c in done.design.cells if c.method.algorithm == "em")
    trial = Trial(cell.setting, noise=0.2, replicates=3, seed=1)
    psi = done.read(cell)["psi"]
    trace = trial.run(Method("em", 1.0, False), max_rounds=200, tol=0.0, marks=range(200), pooled=psi)
    iterations = np.median(np.argmax(trace.distance <= 1e-6, axis=0))
    spent = {(cost.network, cost.method): cost for cost in costs(done.results()) if cost.level == 1e-6}
    vector = 8 * 3 * 6
    for network, graph in (("ring", nx.cycle_graph(6)), ("star", nx.star_graph(5))):
        flooding, tree = spent[network, "flooding (reckoned)"], spent[network, "tree sums (reckoned)"]
        assert flooding.rounds == pytest.approx(iterations * nx.diameter(graph), rel=0.1)
        assert flooding.bytes == pytest.approx(iterations * 6 * 5 * vector, rel=0.1)
        assert tree.rounds == pytest.approx(iterations * 2 * nx.radius(graph), rel=0.1)
        assert tree.bytes == pytest.approx(iterations * 2 * 5 * vector, rel=0.1)


def test_the_report_tells_them(done):
    made = report(done)
    text = (made.folder / "report.md").read_text(encoding="utf-8")
    assert "rounds to 1e-06" in text
    rows = rows_of(made.folder / "costs.csv")
    assert len(rows) == 2 * 4 * 2  # networks, methods run and reckoned, levels
    assert {row["rounds"] for row in rows if row["method"].startswith("MNEM") and row["level"] == "1e-06"} == {""}


def test_impossible_levels_and_looks_are_refused():
    for key, wrong in (("levels", "[0]"), ("levels", "[-1.0]"), ("levels", "3"), ("levels", "['a']"), ("looks", "1")):
        text = "\n".join(line for line in TOML.splitlines() if not line.startswith(key))
        with pytest.raises(DesignError, match=f"line 1: {key}"):
            of_text(f"{key} = {wrong}\n{text}", "mine")
