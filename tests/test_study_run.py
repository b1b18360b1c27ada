"""Running studies: the numbers, whatever the jobs; interruptions; folders."""

import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from command import PROGRAM, wait_until
from gaussip.errors import DesignError, SettingError
from gaussip.studies.cells import marks
from gaussip.studies.comparison import Trial
from gaussip.studies.design import of_text
from gaussip.studies.folder import Folder
from gaussip.studies.report import report
from gaussip.studies.run import compute, run
from study_files import figure

SMALL = """
title = "Small"
replicates = 3
rounds = 60
rows = 600
sites = 4
contraction = true

[[cells]]
labelled = [0, 0.2]
eta = [0.05, 0.1]
methods = ["mnem", "nnem"]
"""
SMALL += figure("small", columns="labelled")


@pytest.fixture(scope="module")
def design():
    return of_text(SMALL, "small")


@pytest.fixture(scope="module")
def done(design, tmp_path_factory):
    folder = run(design, tmp_path_factory.mktemp("study") / "small")
    report(folder)
    return folder


def tables(path: Path) -> dict[str, bytes]:
    wanted = [*sorted((path / "cells").glob("[!.]*")), *sorted((path / "report").iterdir())]
    assert len(wanted) > 8
    return {file.name: file.read_bytes() for file in wanted if file.suffix != ".parquet"}


def test_marks_are_even_on_a_logarithmic_scale():
    looked = marks(20_000)
    assert looked[0] == 1
    assert looked[-1] == 20_000
    assert {10, 1000, 3000, 5000} <= set(looked)
    assert len(looked) < 80
    assert max(np.diff(np.log(looked[20:]))) < 0.25
    assert marks(1) == [1]


def test_the_whole_sample_s_estimate_is_scikit_learn_s(design, done):
    cell = next(c for c in design.cells if c.method.algorithm == "em" and not c.setting.labelled)
    result = done.read(cell)
    trial = Trial(cell.setting, replicates=3, seed=design.seed)
    data, begin = trial.data[2], trial.begins[2]
    theirs = GaussianMixture(
        3, tol=1e-13, max_iter=5000, reg_covar=0, weights_init=begin.weights, means_init=begin.means,
        precisions_init=np.linalg.inv(begin.covariances),
    ).fit(data.X)  # fmt: skip
    np.testing.assert_allclose(result["psi"][2, :, 0], theirs.weights_, rtol=1e-4)
    np.testing.assert_allclose(
        result["psi"][2, :, 1:7] / result["psi"][2, :, :1], theirs.means_, rtol=1e-3, atol=1e-3
    )
    apart = np.sum((theirs.weights_ - data.truth.weights) ** 2) + np.sum((theirs.means_ - data.truth.means) ** 2)
    upper = np.triu_indices(6)
    apart += np.sum((theirs.covariances_ - data.truth.covariances)[:, upper[0], upper[1]] ** 2)
    assert result["mse"][-1, 2] == pytest.approx(apart, rel=1e-3)
    assert result["contraction"].shape == (3, 2)


def test_the_same_numbers_with_two_jobs_or_one_data_set_at_a_time(design, done, tmp_path):
    again = run(design, tmp_path / "small", jobs=2)
    for cell in design.cells:
        first, second = done.read(cell), again.read(cell)
        assert first.keys() == second.keys()
        for name, wanted in first.items():
            np.testing.assert_array_equal(second[name], wanted)
    cell = design.cells[-1]
    alone = compute(cell, replace(design, replicates=1), pooled=done.read(cell.pooled)["psi"][:1])
    np.testing.assert_array_equal(alone["mse"][:, 0], done.read(cell)["mse"][:, 0])


def test_distances_are_to_the_whole_sample(design, done):
    nnem = next(c for c in design.cells if c.method.algorithm == "nnem" and c.setting.labelled)
    mnem = next(c for c in design.cells if c.method.algorithm == "mnem" and c.method.eta == 0.1)
    result = done.read(mnem)
    assert result["distance"][-1].max() < 0.5 * result["distance"][0].min()
    gone = done.read(nnem)["collapsed"]
    assert (np.isnan(done.read(nnem)["mse"][-1]) == (gone > 0)).all()


def test_watching_takes_no_time_of_a_round(design, tmp_path, monkeypatch):
    """A cell's name takes as long as several rounds on a GPU, so that it is not made anew for each."""
    made, seen = [], []
    name_of = type(design).name_of
    monkeypatch.setattr(type(design), "name_of", lambda self, cell: made.append(cell) or name_of(self, cell))
    some = {"method": "mnem", "labelled": 0.2, "eta": 0.05}
    run(design, tmp_path / "small", where=some, watch=lambda text, done: seen.append((text, done)))
    assert len(seen) > 60
    assert len(made) < 20
    texts, parts = zip(*seen, strict=True)
    assert any(text.endswith(", round 60") for text in texts)
    assert list(parts) == sorted(parts)
    assert parts[-1] == 1


def test_only_some_cells_and_then_the_rest(design, done, tmp_path):
    folder = run(design, tmp_path / "small", where={"method": "mnem", "labelled": 0.2, "eta": 0.05})
    assert [(c.method.name, c.method.eta) for c in design.cells if folder.done(c)] == [
        ("semi-EM", 1.0),
        ("semi-MNEM", 0.05),
    ]
    assert report(folder).missing == len(design.cells) - 2
    report(run(design, tmp_path / "small"))
    assert tables(tmp_path / "small") == tables(done.path)
    for wrong in ({"delta": 77.0}, {"network": "strar"}):  # the whole sample's cells have no network
        with pytest.raises(SettingError, match="no cell of small has"):
            run(design, tmp_path / "other", where=wrong)
    assert not (tmp_path / "other").exists()


def begin(folder: Path, toml: Path, *options: str) -> subprocess.Popen:
    command = [*PROGRAM, "study", "run", str(toml), "--out", str(folder), *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for_cells(process: subprocess.Popen, folder: Path, count: int) -> None:
    wait_until(lambda: len(list(folder.glob("cells/[!.]*.npz"))) >= count, process)


LONGER = SMALL.replace("replicates = 3", "replicates = 5").replace("rounds = 60", "rounds = 1200")
LONGER = LONGER.replace("eta = [0.05, 0.1]", "eta = [0.002, 0.003]")  # too small to arrive early


@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_and_started_again_gives_the_same_tables(tmp_path, jobs):
    toml = tmp_path / "small.toml"
    toml.write_text(LONGER)
    whole = begin(tmp_path / "whole", toml)
    killed = begin(tmp_path / "killed", toml, "--jobs", str(jobs))
    wait_for_cells(killed, tmp_path / "killed", 3)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "killed" / "cells").glob("[!.]*.npz")}
    assert len(kept) < len(of_text(LONGER, "small").cells)
    again = begin(tmp_path / "killed", toml)
    for process in (again, whole):
        printed, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
    assert "report.html" in printed
    assert {file: file.stat().st_mtime_ns for file in kept} == kept  # nothing was computed twice
    assert tables(tmp_path / "killed") == tables(tmp_path / "whole")


def test_ctrl_c_says_how_to_go_on(tmp_path):
    toml = tmp_path / "small.toml"
    toml.write_text(LONGER.replace("rounds = 1500", "rounds = 200000"))
    process = begin(tmp_path / "out", toml)
    wait_for_cells(process, tmp_path / "out", 1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "keeps the cells that are done, and the same command resumes" in errors
    assert "Traceback" not in errors
    assert not list((tmp_path / "out" / "cells").glob(".*"))


def test_folders_of_other_studies_are_refused(design, done, tmp_path):
    before = {file: file.read_bytes() for file in done.path.rglob("*") if file.is_file()}
    for other, says in (
        (of_text(SMALL, "small", replicates=4), "replicates = 3, not 4"),
        (of_text("seed = 5\n" + SMALL, "small"), "seed = 1, not 5"),
        (of_text(SMALL, "small", most_rounds=50), "holds another study: 6 of its 8 cells"),
    ):
        with pytest.raises(DesignError, match=says):
            run(other, done.path)
    assert {file: file.read_bytes() for file in done.path.rglob("*") if file.is_file()} == before
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DesignError, match="holds no study"):
        run(design, tmp_path)
    assert os.listdir(tmp_path) == ["notes.txt"]
    with pytest.raises(DesignError, match="holds no study; make one with"):
        Folder.for_report(tmp_path)


def test_a_run_killed_as_it_began_goes_on(design, tmp_path):
    (tmp_path / "small" / "cells").mkdir(parents=True)
    (tmp_path / "small" / "study.toml").write_text("half")
    (tmp_path / "small" / ".study.77.part.json").write_text("{")
    folder = run(design, tmp_path / "small", where={"method": "em", "labelled": 0.2})
    assert folder.done(next(c for c in design.cells if c.setting.labelled))


def test_cells_in_another_order_or_another_way_to_write_them_are_the_same_study(design, done):
    swapped = SMALL.replace("[0.05, 0.1]", "[0.1, 0.05]")
    run(of_text(swapped, "small"), done.path)
    longer = SMALL.replace("rounds = 60", "rounds = 90")
    run(of_text(longer, "small", most_rounds=60), done.path)
    assert Folder.for_report(done.path).design.most_rounds == 60
    run(design, done.path)
    assert Folder.for_report(done.path).design.most_rounds is None


def test_fractions_that_differ_in_the_last_digit_are_different_cells():
    toml = 'sites = 4\n[[cells]]\nmethods = ["em"]\nlabelled = [[0, 0.12345671], [0, 0.12345672]]\n'
    design = of_text(toml, "mine")
    assert len({design.name_of(cell) for cell in design.cells}) == 2


def test_titles_and_claims_may_change_without_another_run(done):
    held = (done.path / "log.jsonl").read_text()
    run(of_text(SMALL.replace('"Small"', '"Smaller"'), "small"), done.path)
    assert (done.path / "log.jsonl").read_text() == held
    assert Folder.for_report(done.path).design.title == "Smaller"


def test_a_damaged_cell_is_named(design, tmp_path):
    folder = run(design, tmp_path / "small", where={"method": "em"})
    file = folder.file_of(design.cells[0])
    for damaged in (file.read_bytes()[:100], b""):
        file.write_bytes(damaged)
        with pytest.raises(DesignError, match=r"cannot be read .*delete it and run the study again"):
            report(folder)
    file.unlink()
    assert report(folder).missing == len(design.cells) - 1


def test_the_log_tells_when_and_how_long(done):
    lines = [json.loads(line) for line in (done.path / "log.jsonl").read_text().splitlines()]
    assert lines[0]["event"] == "run"
    assert sum(line["event"] == "cell" and line["seconds"] >= 0 for line in lines) == 8
