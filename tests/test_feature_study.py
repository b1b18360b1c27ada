"""The study of a feature table, from a table to its report, on the synthetic stand-in."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from command import PROGRAM, gaussip, wait_until
from gaussip.errors import DataError, DesignError, LabelError, NetworkError
from gaussip.networks import mixing_weights
from gaussip.studies.features import scores
from gaussip.studies.features.design import is_of_features, load, of_text
from gaussip.studies.features.folder import FeatureFolder
from gaussip.studies.features.report import report
from gaussip.studies.features.run import compute, run
from gaussip.studies.features.table import read_features, write_features
from gaussip.studies.features.trial import reduced, replicates
from gaussip.studies.xray.standin import stand_in

SMALL = """
kind = "features"
title = "A small study"
replicates = 2
components = 8
labelled = 0.5
rounds = 40
shrinkage = 0.1
unlabelled_weights = [1.0, 0.1]
methods = ["mnem=0.05", "exact", "local", "em"]
differs = ["Everything."]
[[published]]
label = "covid"
method = "mnem=0.05"
labelled = true
auc = 0.93
"""


@pytest.fixture(scope="module")
def table():
    return stand_in(rows=900, features=40, seed=1)


@pytest.fixture(scope="module")
def done(table, tmp_path_factory):
    return run(of_text(SMALL, "small"), table, tmp_path_factory.mktemp("study") / "out")


def test_aucs_are_scikit_learn_s():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    result = np.round(rng.normal(size=(200, 3)) + (labels[:, None] == np.arange(3)), 1)  # with ties
    wanted = [roc_auc_score(labels == c, result[:, c]) for c in range(3)]
    np.testing.assert_allclose(scores.aucs(result, labels), wanted, rtol=1e-12)
    assert np.isnan(scores.aucs(result, np.zeros(200, dtype=int))).all()


def test_log_odds_keep_the_order_where_probabilities_round_to_one():
    joint = np.array([[0.0, -5.0, -9.0], [0.0, -50.0, -60.0], [0.0, -80.0, -90.0]])
    share = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    np.testing.assert_allclose(scores.log_odds(joint)[0], np.log(share[0] / (1 - share[0])), rtol=1e-9)
    assert share[1, 0] == share[2, 0] == 1.0
    assert scores.log_odds(joint)[2, 0] > scores.log_odds(joint)[1, 0]


def test_components_are_matched_to_classes():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 100)
    order = np.array([2, 0, 1])
    joint = -5.0 * (order[labels][:, None] != np.arange(3)) + rng.normal(size=(100, 3))
    np.testing.assert_array_equal(scores.matched(joint, labels, 3), order)


def test_splits_are_drawn_at_every_site(table):
    design = of_text(SMALL, "small").design
    made = reduced(table, design)
    first, second = replicates(made, design, [0, 1])
    again = replicates(made, design, [1])[0]
    np.testing.assert_array_equal(second.training, again.training)
    assert not np.array_equal(first.training, second.training)
    for m in range(8):
        here = made.sites == m
        assert first.training[here].sum() == round(0.7 * here.sum())
        assert first.labelled[here].sum() == round(0.5 * first.training[here].sum())
    assert not (first.labelled & ~first.training).any()
    assert np.isclose(made.X.var(axis=0, ddof=1).mean(), 1.0)


def test_exact_is_the_whole_sample_s_at_every_site(done):
    """And so is its score; a site alone that holds one class knows nothing of the others."""
    cells = {cell.name: done.read(cell) for cell in done.design.cells}
    assert len(cells) == 12
    for mode in ("", "_unlabelled=1", "_unlabelled=0.1"):
        name = "semi-" * bool(mode)
        exact, pooled, local = (cells[f"{name}{method}{mode}"] for method in ("exact", "em", "local"))
        for mine, theirs, alone in zip(exact, pooled, local, strict=True):
            assert mine["auc"].shape == (8, 4)
            assert mine["auc"].std(axis=0).max() < 0.05
            if mode == "_unlabelled=0.1":
                np.testing.assert_allclose(mine["auc"], theirs["auc"], atol=0.02)
                assert mine["distance"] < 0.1 * theirs["start_distance"]
            assert alone["auc"].mean() < theirs["auc"].mean()
            assert len(alone["collapsed"]) == 8


def test_the_report(done):
    made = report(done)
    assert (made.missing, made.reduced) == (0, False)
    text = (made.folder / "report.md").read_text()
    for words in ("RSNA", "8 principal components", "semi-MNEM, eta = 0.05", "## What differs", "matched to classes"):
        assert words in text
    assert made.published[0]["published"] == 0.93
    assert {path.name for path in made.files} >= {"sites.png", "sites.svg", "auc.png", "auc.csv", "summary.csv"}
    boxes = (made.folder / "auc.csv").read_text().splitlines()
    assert len(boxes) == 1 + 3 * 5 * 4 * 2  # modes, methods with the start, classes, splits
    again = report(FeatureFolder.for_report(done.path))
    assert [line.mean.tolist() for line in again.lines] == [line.mean.tolist() for line in made.lines]


def test_the_command_line_is_killed_and_goes_on(done, table, tmp_path):
    write_features(tmp_path / "table.npz", table)
    (tmp_path / "small.toml").write_text(SMALL)
    words = ["study", "run", str(tmp_path / "small.toml"), "--data", str(tmp_path / "table.npz"), "--out",
             str(tmp_path / "out")]  # fmt: skip
    process = subprocess.Popen([*PROGRAM, *words])
    wait_until(lambda: any(tmp_path.glob("out/cells/*/*.npz")), process, within=60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/cells/*/*.npz")}
    assert 0 < len(before) < 24
    made = gaussip(*words, "--json")
    assert made.returncode == 0, made.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    answer = json.loads(made.stdout)
    assert answer["missing"] == 0
    assert answer["lines"][0]["method"] == "start"
    for cell in done.design.cells:
        for mine, theirs in zip(FeatureFolder.for_report(tmp_path / "out").read(cell), done.read(cell), strict=True):
            np.testing.assert_array_equal(mine["auc"], theirs["auc"])
    shown = gaussip("study", "report", tmp_path / "out")
    assert "labels, unlabelled rows count 0.1" in shown.stdout


def test_the_shipped_study_is_listed_and_shown():
    assert "xray" in gaussip("study", "list").stdout
    assert 'kind = "features"' in gaussip("study", "show", "xray").stdout
    loaded = load("xray", 3, 10)
    assert (loaded.design.replicates, loaded.design.rounds, len(loaded.design.cells)) == (3, 10, 21)
    assert {loaded.design.network_of(cell) for cell in loaded.design.cells} == {"circle", "ring"}
    assert not is_of_features("figure2")


def test_what_is_refused(table, done, tmp_path):
    design = of_text(SMALL, "small").design
    with pytest.raises(LabelError, match=r"row 3 \(counted from 1\) has no label"):
        reduced(table._replace(label=np.where(np.arange(len(table.label)) == 2, "", table.label)), design)
    with pytest.raises(DesignError, match="the design keeps components = 8, and the table has 5 features"):
        reduced(table._replace(features=table.features[:, :5]), design)
    few = of_text(SMALL.replace("labelled = 0.5", "labelled = 0.0"), "small").design
    with pytest.raises(LabelError, match="no training row is labelled: raise labelled = 0"):
        replicates(reduced(table, few), few, [0])
    covid, at = np.flatnonzero(table.label == "covid"), table.label.copy()
    at[covid[:1]] = "rare"
    for share, error, why in (
        ("0.9", DataError, "no row of class rare is left"),
        ("0.1", LabelError, "of class rare is"),
    ):
        some = of_text(SMALL.replace("labelled = 0.5", f"labelled = 0.1\ntrain = {share}"), "small").design
        with pytest.raises(error, match=why):  # by the split the one row is in the training rows, or in the others
            replicates(reduced(table._replace(label=at), some), some, range(2))
    with pytest.raises(LabelError, match="all rows are of class 'covid'; a study tells at least two apart"):
        reduced(table._replace(label=np.full(len(at), "covid")), design)
    trained = table._replace(split=np.full(len(table.label), "train"))
    with pytest.raises(DataError, match="no row is left to score on"):
        replicates(reduced(trained, design), design, [0])
    with pytest.raises(DesignError, match="holds a study of another table"):
        run(of_text(SMALL, "small"), stand_in(rows=900, features=40, seed=2), done.path)
    with pytest.raises(DesignError, match="holds a study of another table"):
        run(of_text(SMALL, "small"), table._replace(label=np.roll(table.label, 1)), done.path)
    with pytest.raises(DesignError, match="holds a study with rounds = 40, not 7"):
        run(of_text(SMALL, "small", rounds=7), table, done.path)
    one_way = of_text(SMALL.replace("methods =", 'two_way = "circle"\nmethods ='), "small")
    with pytest.raises(NetworkError, match="exact needs a two-way network"):
        run(one_way, table, tmp_path / "one-way")
    assert not (tmp_path / "one-way").exists()
    missing = gaussip("study", "run", "xray", "--out", tmp_path / "x")
    assert missing.returncode == 2
    assert "xray needs a table of features: --data FILE" in missing.stderr
    for name, why in (("figure2", "figure2 draws its own data"), ("nosuch.toml", "cannot read nosuch.toml"),
                      ("nosuch", "theory, exact, xray")):  # fmt: skip
        extra = gaussip("study", "run", name, "--data", "table.npz")
        assert why in extra.stderr


def test_more_replicates_and_damaged_folders(done, table, tmp_path):
    """A folder takes more splits; the basis is kept; what is damaged is told."""
    shutil.copytree(done.path, tmp_path / "out")
    more = run(of_text(SMALL, "small", replicates=3), table, tmp_path / "out")
    assert {len(more.read(cell)) for cell in more.design.cells} == {3}
    first = done.design.cells[0]
    np.testing.assert_array_equal(more.read(first)[1]["auc"], done.read(first)[1]["auc"])
    assert "reduced run" not in (report(more).folder / "report.md").read_text()
    assert "small.toml --data" in (report(more).folder / "report.md").read_text()
    for name in ("study.toml", "table.csv"):
        (tmp_path / "out" / name).rename(tmp_path / name)
        shown = gaussip("study", "report", tmp_path / "out")
        assert shown.returncode == 2
        assert f"{name} cannot be read" in shown.stderr
        (tmp_path / name).rename(tmp_path / "out" / name)
    (tmp_path / "out" / "study.json").write_text("{")
    with pytest.raises(DesignError, match=r"study\.json cannot be read"):
        run(of_text(SMALL, "small"), table, tmp_path / "out")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("labelled = 0.5", "labelled = 1.5", "line 6: labelled = 1.5 must be a fraction in [0, 1]"),
        ('"local"', '"semi-local"', "write 'local' for 'semi-local'"),
        ("shrinkage = 0.1", "shrinkage = 2.0", "shrinkage=2.0 must be a number in"),
        ("[1.0, 0.1]", "[]", "unlabelled_weights is empty"),
        ("components = 8", "dimension = 8", "unknown key 'dimension'"),
        ("methods =", 'network = "web"\nmethods =', "web"),
        ("components = 8", "components = 0", "components = 0 is neither a number of components nor a share"),
        ('label = "covid"', 'labels = "covid"', "unknown key 'labels'"),
        ('method = "mnem=0.05"', 'method = "menm"', "there is no algorithm 'menm'"),
    ],
)
def test_designs_that_cannot_work(old, new, why):
    with pytest.raises(DesignError) as refused:
        of_text(SMALL.replace(old, new), "small")
    assert why in str(refused.value)


@pytest.mark.slow
def test_real_features_labelled_in_part(radiography):
    """One split of the real table: exact and MNEM score as the whole sample does, and DEM does not."""
    loaded = load("xray", 1, 800)
    table = reduced(read_features(radiography / "features_resnet50.npz"), loaded.design)
    split = replicates(table, loaded.design, [0])
    means = {}
    for cell in loaded.design.cells:
        if (
            cell.method.semi
            and cell.unlabelled_weight == 0.05
            and cell.method.algorithm in ("em", "exact", "mnem", "dem")
        ):
            W = mixing_weights(loaded.design.network_of(cell), range(8))
            means[cell.method.algorithm] = compute(cell, split, loaded.design, W, "cpu")[0]["auc"].mean(axis=0)
    assert np.abs(means["exact"] - means["em"]).max() < 0.01
    assert np.abs(means["mnem"] - means["em"]).max() < 0.01
    assert means["dem"][0] < means["em"][0] - 0.02
