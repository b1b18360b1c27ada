"""What real sites keep of their rounds, and its diagnosis."""

from __future__ import annotations

import re
import signal

import numpy as np
import pytest

from federations import Federation
from gaussip.diagnosis import diagnose, evidence_of
from gaussip.errors import CollapseError, FederationError, ModelFileError
from gaussip.findings import examine
from gaussip.node.history_log import HistoryLog, is_kept
from gaussip.node.history_log import read as read_past
from gaussip.node.local_data import read_local
from gaussip.node.run_store import RunStore
from gaussip.node.shutdown import record_of
from gaussip.phases.program import Program
from programs import run_together

quiet = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::gaussip.errors.PooledTargetWarning",
    "ignore::gaussip.errors.DiagnosisWarning",
)  # fmt: skip


def test_rounds_that_were_run_twice(tmp_path):
    """The later is read, but what it does not know does not replace a number."""
    line = (
        '{"round": %d, "passes": %d, "log_likelihood": %s, "change": %s, "disagreement": 0.5, "step": 0.1, '
        '"restarts": 0, "exchanges": 9, "bytes": 8}\n'
    )
    lines = [(1, 1, "-3.5", "0.1"), (2, 2, "-3.0", "0.2"), (2, 2, "null", "0.25"), (1, 1, "-3.25", "null")]
    (tmp_path / "history.jsonl").write_text("".join(line % one for one in lines))
    kept = read_past(tmp_path)
    assert kept["round"].tolist() == [1, 2]
    assert kept["log_likelihood"].tolist() == [-3.25, -3.0]
    assert kept["change"].tolist() == [0.1, 0.25]


@pytest.mark.parametrize("algorithm", ["mnem", "exact"])
def test_the_last_round_is_kept_before_intervals(tmp_path, algorithm):
    federation = Federation(tmp_path, 3, algorithm=algorithm, eta=0.2, tol=1e-4, max_rounds=3000, intervals="plain")
    (tmp_path / "kept").mkdir()
    log = HistoryLog(tmp_path / "kept")
    program = run_sites(federation, lambda program: add(log, program))
    log.close()
    kept, fitted = read_past(tmp_path / "kept"), program.results["fit"]
    assert fitted.converged
    assert program.exchanges > fitted.rounds
    assert kept["round"][-1] == fitted.rounds
    assert kept["change"][-1] == fitted.change <= 1e-4
    assert kept["log_likelihood"][-1] == fitted.log_likelihood
    assert len((tmp_path / "kept" / "history.jsonl").read_text().splitlines()) == len(kept["round"])


def test_rounds_that_a_site_keeps():
    kept = [number for number in range(1, 20_001) if is_kept(number)]
    assert kept[:1000] == list(range(1, 1001))
    assert kept[1000:1002] == [1010, 1020]
    assert kept[-2:] == [19_900, 20_000]


@pytest.fixture
def federation(tmp_path):
    return Federation(tmp_path, 3, algorithm="mnem", tol=1e-6, max_rounds=90)


def add(log, program):
    """Keep a round as a real site does."""
    progress = program.progress()
    if log.wants(progress.round, "fit" in program.results):
        log.add(progress, 100 * progress.exchanges)


def run_sites(federation, watch):
    """The sites' programs in this process; ``watch`` is called after every exchange of the first."""
    task = federation.description.task()
    local = [read_local(federation.path / f"{name}.csv", federation.description, name) for name in federation.names]
    programs = [Program(task, m, rows) for m, rows in enumerate(local)]
    for program in programs:
        program.start()
    run_together(programs, watch)
    return programs[0]


def test_a_site_s_own_history_survives_a_crash_and_is_diagnosed(federation):
    """Killed while a line was written, it runs some rounds again; nothing is there twice."""
    from gaussip.federation.folders import read

    folder = read(federation.folders / "s0")
    store = RunStore(folder.run)
    with pytest.raises(FederationError, match="no history of rounds yet"):
        diagnose(folder.path)
    store.make()
    files = [HistoryLog(folder.run)]

    def past(program):
        add(files[-1], program)
        if program.round == 30 and len(files) == 1:
            files[0].close()
            with open(folder.run / "history.jsonl", "a") as file:
                file.write('{"round": 31, "pas')
            files.append(HistoryLog(folder.run))
            for _ in range(2):
                add(files[-1], program)  # run again after the crash

    program = run_sites(federation, past)
    files[-1].close()
    kept = read_past(folder.run)
    assert kept["round"].tolist() == list(range(1, 91))
    simulated = federation.simulated()
    assert kept["change"][-1] == program.results["fit"].change
    assert np.nanmin(kept["change"]) >= simulated.history.change.min()
    store.keep_rows("0" * 64, 60.0)
    store.write_result("facts", program.results["facts"])
    still = examine(evidence_of(folder.path))
    assert still.not_judged["not enough rounds"] == "the sites are still running"
    store.write_checkpoint(program.round, program.estimate())
    store.write_result("fit", program.results["fit"])
    end = {"acknowledged": True, "rounds": 90, "exchanges": 99, "failure": None}
    store.write_end(**end)
    judged = examine(evidence_of(folder.path))
    (finding,) = judged.findings
    assert finding.name == "not enough rounds"
    assert "Masked, or a larger eta, takes fewer." in finding.sentence
    assert re.search(r"agree on max_rounds = \d+ in every site's federation.toml", finding.remedy)
    assert judged.not_judged["a site pulls away"] == "a site knows only its own estimate"
    lost = CollapseError("s1", 0, 90, "its weight vanished (0)", "")
    store.write_end(**end | {"failure": record_of(lost)})
    (finding,) = (one for one in diagnose(folder.path) if one.name == "step too large")
    assert "at site 's1' in round 90: its weight vanished" in finding.sentence


@pytest.mark.slow
def test_a_real_site_is_diagnosed_after_a_kill(tmp_path):
    with Federation(tmp_path, 3, algorithm="mnem", eta=0.002, tol=1e-6, max_rounds=900) as sites:
        sites.start()
        sites.until_round("s1", 30)
        sites.signal("s1", signal.SIGKILL)
        sites.start("s1")
        sites.finish()
        folder = sites.folders / "s1"
        assert [f.name for f in diagnose(folder)] == ["not enough rounds"]
        assert evidence_of(folder).round.tolist() == list(range(1, 901))
        with pytest.raises(ModelFileError, match="give the site's folder"):
            diagnose(folder / "model.npz")
