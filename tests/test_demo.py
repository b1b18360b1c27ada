import csv
import re
from pathlib import Path

import numpy as np
import pytest

from gaussip.studies.demo import run_demo
from gaussip.studies.demo_sites import run_sites


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return run_demo(tmp_path_factory.mktemp("out"))


def test_the_story_it_tells(demo):
    lines = {line.method: line for line in demo[0]}
    assert list(lines) == [
        "masked", "semi-masked", "exact", "semi-exact", "MNEM", "semi-MNEM", "NNEM", "Local", "semi-EM"
    ]  # fmt: skip
    pooled, ours = lines["semi-EM"], lines["semi-MNEM"]
    assert pooled.auc > 0.93
    assert abs(ours.auc - pooled.auc) < 0.01
    assert abs(ours.log_likelihood - pooled.log_likelihood) < 0.05
    assert ours.distance < 0.1
    for name in ("masked", "semi-masked", "exact", "semi-exact"):
        assert lines[name].distance < 1e-4
        assert lines[name].exchanges < ours.exchanges / 10
    assert lines["Local"].log_likelihood < pooled.log_likelihood - 10
    assert lines["NNEM"].collapse or lines["NNEM"].distance > 10 * ours.distance


def test_the_readme_s_table_is_this_one(demo):
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    for line in demo[0]:
        (row,) = re.findall(rf"^\| \**{line.method}\b\**(.*)$", text, re.MULTILINE)
        if line.collapse:
            assert "collapsed" in row
        else:
            shown = [float(cell) for cell in row.split("|")[1:4]]
            np.testing.assert_allclose(shown, [line.log_likelihood, line.auc, line.distance], rtol=0.01, atol=1e-3)
            assert f"{line.exchanges} exchanges" in row or not line.exchanges


def test_the_sites_as_processes_give_the_simulation_s_models(tmp_path):
    """One is killed on the way and started again; all eight models are the simulation's."""
    seen = []
    result = run_sites(tmp_path, 3000, lambda statuses, note: seen.append(note))
    assert result.equal == [True] * 8
    assert 20 <= result.killed_in < result.exchanges
    assert f"{result.killed} was killed" in seen[-1]
    log = (result.folder / f"{result.killed}.log").read_text()
    assert log.count("started: site") == 2


def test_every_picture_comes_with_its_table(demo):
    assert [path.name for path in demo[1]] == ["network.png", "network.csv", "convergence.png", "convergence.csv"]
    for picture in demo[1][::2]:
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 10_000
    with open(demo[1][1], encoding="utf-8") as file:
        assert [row["sender"] for row in csv.DictReader(file)] == [
            f"site {m}" for k in range(1, 9) for m in sorted(((k - 2) % 8 + 1, k % 8 + 1))
        ]
    with open(demo[1][3], encoding="utf-8") as file:
        curve = [float(row["value"]) for row in csv.DictReader(file) if row["method"] == "semi-MNEM"]
    assert np.isclose(curve[-1], next(line.distance for line in demo[0] if line.method == "semi-MNEM"))
