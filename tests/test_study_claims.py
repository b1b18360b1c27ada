"""Claims over the studies that come with gaussip, on made-up numbers."""

import numpy as np
import pytest

from gaussip.studies.claims import CLAIMS, verdicts
from gaussip.studies.design import ORDER, load
from gaussip.studies.folder import Folder
from gaussip.studies.report import report


def test_every_claim_is_named_by_a_design_and_every_design_that_runs_has_one():
    used = {name for study in ORDER for name in load(study).claims}
    assert used == set(CLAIMS)
    assert all(load(study).claims for study in ORDER if load(study).cells)


@pytest.mark.parametrize(
    ("study", "claim", "gone", "verdict"),
    [
        ("figure4", "semi-mnem-is-best", "", "kept"),
        ("figure4", "semi-mnem-is-best", "dem", "kept"),
        ("figure4", "semi-mnem-is-best", "mnem", "refuted"),
        ("networks", "star-is-worst", "", "kept"),
        ("networks", "star-is-worst", "star", "kept"),
        ("networks", "star-is-worst", "circle", "refuted"),
        ("theory", "error-grows-with-heterogeneity", "", "kept"),
        ("theory", "error-grows-with-heterogeneity", "star", "refuted"),
        ("theory", "error-shrinks-with-the-gap", "", "refuted"),
    ],
)
def test_what_collapsed_everywhere_is_worst(tmp_path, study, claim, gone, verdict):
    design = load(study)
    folder = Folder.for_run(tmp_path / study, design)
    for cell in design.cells:
        level = -1.0 if cell.network == "star" else {"em": -4.0, "mnem": -3.95}.get(cell.method.algorithm, 0.0)
        level += ("homogeneous", "dirichlet", "heterogeneous").index(cell.setting.spread)
        lost = gone in (cell.method.algorithm, cell.network) and cell.network != ""
        mse = np.full((2, design.replicates), np.nan if lost else np.exp(level))
        numbers = {"rounds": np.array([0, cell.rounds]), "mse": mse, "distance": mse, "bytes": np.zeros(2, dtype=int)}
        se_f = {"se_f": mse[0], "contraction": mse.T} if cell.method.algorithm == "em" else {}
        folder.write(cell, {**numbers, "collapsed": np.full(design.replicates, int(lost)), **se_f})
    (result,) = [judged for judged in verdicts(folder.results()) if judged.name == claim]
    assert result.verdict == verdict, result.evidence


@pytest.mark.parametrize("study", [name for name in ORDER if load(name).cells])
def test_a_report_of_a_run_that_has_hardly_begun(tmp_path, study):
    """The whole sample's cells are done first; here there is one, or none."""
    design = load(study)
    folder = Folder.for_run(tmp_path / study, design)
    assert {claim.verdict for claim in report(folder).verdicts} == {"not run"}
    result = {
        "rounds": np.array([0, 20_000]),
        "mse": np.ones((2, design.replicates)),
        "bytes": np.zeros(2, dtype=int),
    }
    result |= {"distance": result["mse"] * np.nan, "collapsed": np.zeros(design.replicates, dtype=int)}
    folder.write(design.cells[0], result)
    made = report(folder)
    assert {claim.verdict for claim in made.verdicts} == {"not run"}
    assert made.missing == len(design.cells) - 1
