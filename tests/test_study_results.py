"""What the documentation says of the studies is what their kept tables say."""

import re
from pathlib import Path

import pytest

from study_files import rows_of

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"


def test_exact_against_flooding_and_trees():
    costs = {
        (row["setting"], row["network"], row["method"].removeprefix("semi-"), row["level"]): row
        for row in rows_of(RESULTS / "exact" / "costs.csv")
    }
    settings = sorted({key[:2] for key in costs})
    ratios = {}
    for setting, network in settings:
        ours = costs[setting, network, "exact", "1e-06"]
        assert ours["reached"] == ours["data_sets"] == "5"
        for other in ("flooding (reckoned)", "tree sums (reckoned)"):
            theirs = costs[setting, network, other, "1e-06"]
            for measure in ("rounds", "bytes"):
                ratio = float(ours[measure]) / float(theirs[measure])
                near = network != "star" and "delta 4" not in setting
                ratios.setdefault((other[:4], measure, near), []).append(ratio)
    text = " ".join((ROOT / "docs" / "explanation-exact.md").read_text(encoding="utf-8").split())
    near, far = ratios["floo", "rounds", True], ratios["floo", "rounds", False]
    sent = [*ratios["floo", "bytes", True], *ratios["floo", "bytes", False]]
    tree = [*ratios["tree", "bytes", True], *ratios["tree", "bytes", False]]
    assert f"over {len(settings)} settings" in text
    assert f"in all {5 * len(settings)} runs" in text
    assert (round(min(near), 1), max(near) <= 1.3) == (0.8, True)
    assert (round(min(far)), round(max(far))) == (2, 8)
    assert (round(min(sent), 1), round(max(sent), 1)) == (0.3, 3.3)
    assert (round(min(tree)), round(max(tree))) == (5, 60)


@pytest.mark.parametrize(
    ("study", "cell", "sentence"),
    [
        ("figure2", "semi-MNEM (delta 1, spread heterogeneous, labelled 0.1)", "-3.81 for r = .1"),
        ("figure2", "semi-MNEM (delta 1, spread heterogeneous, labelled 0.5)", "-4.22 for r = .5"),
        ("figure2", "semi-MNEM (delta 1, spread heterogeneous, labelled 0.05)", "r = .05 it is -3.57"),
        ("figure2", "MNEM (delta 1, spread heterogeneous, labelled 0)", "we have -2.57"),
        ("figure4", "semi-DEM (delta 2, spread heterogeneous, eta 0.01)", "semi-DEM 1.30"),
        ("figure4", "semi-NGD (delta 2, spread heterogeneous, eta 0.001)", "semi-NGD -1.46"),
        ("figure4", "semi-NGD (delta 2, spread heterogeneous, eta 0.003)", "and -2.68 ("),
        ("figure4", "semi-MNEM (delta 2, spread heterogeneous, eta 0.01)", "semi-MNEM is -4.32"),
    ],
)
def test_published_and_measured(study, cell, sentence):
    (row,) = [row for row in rows_of(RESULTS / study / "published.csv") if row["cell"] == cell]
    text = " ".join((RESULTS / "README.md").read_text(encoding="utf-8").split())
    assert sentence in text
    (number,) = re.findall(r"-?\d+\.\d\d", sentence)
    assert float(row["measured"]) == pytest.approx(float(number), abs=0.0051)


def log_mse(study, **where):
    (row,) = [row for row in rows_of(RESULTS / study / "summary.csv") if where.items() <= row.items()]
    return float(row["log_mse"])


@pytest.mark.parametrize(
    ("study", "where", "sentence"),
    [
        ("starts", {"method": "mnem", "labelled": "0", "noise": "0.3"}, "-2.38 with noise .3"),
        ("starts", {"method": "mnem", "labelled": "0", "noise": "0.5"}, "-1.69 with noise .5"),
        ("starts", {"method": "em", "labelled": "0", "noise": "0.7"}, "-0.82 for pooled EM"),
        ("figure3", {"method": "mnem", "delta": "4", "spread": "heterogeneous"}, "MNEM -4.437"),
        ("figure3", {"method": "ngd", "eta": "0.003", "delta": "4", "spread": "heterogeneous"}, "NGD -4.438"),
        ("figure4", {"method": "mnem", "delta": "4", "spread": "heterogeneous"}, "semi-MNEM -4.437"),
        (
            "figure4",
            {"method": "ngd", "eta": "0.003", "delta": "4", "spread": "heterogeneous"},
            "semi-NGD -4.438",
        ),
        ("figure3", {"method": "mnem", "delta": "1", "spread": "homogeneous"}, "to -3.52 in round 20,000"),
        (
            "label-fractions",
            {"method": "mnem", "spread": "heterogeneous", "labelled": "0 0 0 0.4"},
            "semi-MNEM -2.83",
        ),
        ("label-fractions", {"method": "em", "spread": "heterogeneous", "labelled": "0 0 0 0.4"}, "semi-EM -2.91"),
        ("label-fractions", {"method": "mnem", "spread": "heterogeneous", "labelled": "0.1"}, "instead of -3.81"),
    ],
)
def test_what_is_said_of_other_cells(study, where, sentence):
    text = " ".join((RESULTS / "README.md").read_text(encoding="utf-8").split())
    assert sentence in text
    (number,) = re.findall(r"-?\d+\.\d\d+", sentence)
    digits = len(number.split(".")[1])
    assert round(log_mse(study, **where), digits) == float(number)


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in RESULTS.glob("*/claims.csv")))
def test_the_table_of_results(folder):
    text = (RESULTS / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^\| \[{folder}\]\({folder}/report\.md\) \|.*$", text, re.MULTILINE)
    _, _, run, _, met, kept, _ = (part.strip() for part in line.split("|"))
    verdicts = [row["verdict"] for row in rows_of(RESULTS / folder / "claims.csv")]
    assert kept == f"{verdicts.count('kept')} of {len(verdicts)}"
    if (RESULTS / folder / "published.csv").exists():
        rows = rows_of(RESULTS / folder / "published.csv")
        verdicts = [row["verdict"] for row in rows if row["verdict"] != "reported"]
        assert met == f"{verdicts.count('reproduced')} of {len(verdicts)}"
    report = (RESULTS / folder / "report.md").read_text(encoding="utf-8")
    reduced = "--replicates" in run or "--rounds" in run
    assert ("This is a reduced run" in report) == reduced


def test_the_whole_sample_agrees_with_the_references():
    rows = [
        row
        for row in rows_of(RESULTS / "figure2" / "published.csv")
        if "EM (" in row["cell"] and "MNEM" not in row["cell"]
    ]
    assert len(rows) == 30
    assert {row["verdict"] for row in rows} == {"reproduced"}
