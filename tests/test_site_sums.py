"""Sites that search, choose and sum the information: whatever carries their messages, and after any interruption."""

from __future__ import annotations

import numpy as np
import pytest

from gaussip.errors import FederationError, FileError, TamperingError, UncertaintyError
from gaussip.exchange.questions import pieces
from gaussip.inference.information import COUNTED, concluded, part_size, site_part
from gaussip.mixture.theta import Theta
from gaussip.node.journal import packed, unpacked
from gaussip.node.run_store import RunStore
from gaussip.node.sums_log import SumsLog
from gaussip.phases.base import Resumed
from gaussip.phases.program import RESULTS, Program
from gaussip.phases.task import Reduction, make_task
from gaussip.rows.chunks import of_array
from identities import identities, programs_of, transcript
from programs import NAMES, local_data, run_all, settings


def test_sites_choose_in_any_unit(dataset):
    """With scale = true, data in other units lead to the same choice, whatever reg_covar is."""
    chosen = {"owners": None, "start": "search", "n_components": 4, "at_least": 1, "scale": True, "max_rounds": 5}
    found = []
    for unit in (1.0, 1e-4):
        task = make_task(NAMES, **settings("masked", **chosen, reg_covar=1e-4))
        rows = [local._replace(X=local.X * unit) for local in local_data(dataset, labelled=False)]
        found.append(run_all(task, rows)[0].selection)
    first, second = ([line.bic for line in selection.lines] for selection in found)
    np.testing.assert_allclose(np.diff(first), np.diff(second), atol=0.5)
    assert found[0].n_components == found[1].n_components == 3


@pytest.mark.parametrize("intervals", ["plain", "robust"])
@pytest.mark.parametrize("name", ["masked", "mnem"])
def test_sites_sum_the_information_in_pieces(name, intervals, dataset, monkeypatch):
    """Also where each site went on from its own checkpoint: the standard errors are the simulation's."""
    monkeypatch.setattr("gaussip.exchange.questions.PIECE", 100)
    monkeypatch.setattr("gaussip.phases.summing.PIECE", 100)
    robust = intervals == "robust"
    assert len(list(pieces(1 + part_size(3, 3, robust=robust)))) > 4
    changed = {"start": "labels", "intervals": intervals, "tol": 1e-3, "max_rounds": 3000, "eta": 0.3}
    task = make_task(NAMES, **settings(name, network="complete", **changed))
    first = run_all(task, local_data(dataset))
    resumed = [Resumed(program.estimate(), program.results["start"].target, None) for program in first]
    again = run_all(task, local_data(dataset), resumed)
    for programs in (first, again):
        scale, information = programs[0].results["information"]
        assert all((program.results["information"].information == information).all() for program in programs)
        parts = [
            site_part(of_array(local.X, local.labels), program.estimate(), scale, robust=robust, n_sites=5)
            for local, program in zip(local_data(dataset), programs, strict=True)
        ]
        np.testing.assert_array_equal(information, COUNTED.decode(COUNTED.encode(np.stack(parts), 5).sum(axis=0)))
        conclusion = concluded(information, scale, ["a", "b", "c"], robust=robust)
        assert np.isfinite(conclusion.covariance).all()


def test_a_site_that_cannot_compute_its_information_keeps_nobody_waiting(dataset, monkeypatch):
    def too_large(rows, theta, scale, **_):
        raise UncertaintyError("too large")

    task = make_task(NAMES, **settings("masked", start="labels", intervals="plain", tol=1e-3, max_rounds=3000))
    monkeypatch.setattr("gaussip.phases.information.site_part", too_large)
    programs = run_all(task, local_data(dataset))
    assert all(program.over and not program.results["information"].information.size for program in programs)


def test_a_site_that_computes_otherwise_is_found_out_by_the_next_sum(dataset, tmp_path):
    """The last bit of one number of the mixture at one site of five."""
    task = make_task(NAMES, **settings("masked", start="labels"))
    programs = programs_of(task, local_data(dataset), identities(tmp_path, NAMES))

    def spoil(programs, sides):
        phase = programs[3].phase
        if phase.name == "fit" and phase.round == 2 and phase.memory.way.stage == 0:
            means = phase.state.inner.theta.means
            means[0, 0, 0] = np.nextafter(means[0, 0, 0], 9.0)

    with pytest.raises(TamperingError, match="Chur was shown other totals than Basel, or computes otherwise"):
        transcript(programs, spoil)


def test_a_site_killed_before_the_first_message_after_the_keys(dataset, tmp_path):
    """From a given start: what all know by then is kept, but the journal is still at the last exchange of keys."""
    start = Theta(np.full(3, 1 / 3), np.eye(3), np.stack([np.eye(3)] * 3))
    task = make_task(NAMES, **settings("masked", start=start, max_rounds=5))
    proved, rows = identities(tmp_path, NAMES), local_data(dataset)
    programs, before, killed, log = programs_of(task, rows, proved), [], [], SumsLog(tmp_path)
    programs[1] = Program(task, 1, rows[1], None, proved[1], bytes([2] * 32), log)
    programs[1].start()

    def kill(programs, sides):
        mine = programs[1]
        if mine.phase.name == "keys":
            before[:] = [(mine.exchanges + 1, unpacked(packed(mine.phase.memory)), sides)]
        elif not killed:
            killed.append(mine)
            number, memory, last = before[0]
            again = Program(task, 1, rows[1], None, proved[1], bytes([2] * 32), log)
            again.resume("keys", number, memory, mine.results.get)
            again.absorb({q: last[q].message for q in last[1].due})
            assert again.results["chain"].digest.tolist() == mine.results["chain"].digest.tolist()
            programs[1] = again

    transcript(programs, kill)
    assert killed
    assert all(program.failure is None for program in programs)


@pytest.mark.parametrize("name", ["masked", "mnem", "exact"])
def test_a_site_put_back_before_any_exchange_goes_on_exactly(name, dataset, tmp_path):
    """In every phase: one site's program is thrown away and made anew, from what it kept, with the same masks."""
    chosen = {"start": "search", "n_components": 4, "at_least": 3, "intervals": "plain", "tol": 1e-3, "eta": 0.3}
    chosen["reduction"] = Reduction(2, False, 2)
    task = make_task(NAMES, **settings(name, **chosen, max_rounds=3000))
    rows, rng, proved = local_data(dataset), np.random.default_rng(0), identities(tmp_path, NAMES)
    straight = programs_of(task, rows, proved)
    transcript(straight)
    store, log = RunStore(tmp_path / "run"), SumsLog(tmp_path / "run")
    store.make()
    secrets = [bytes([m + 1] * 32) for m in range(len(rows))]
    made = programs_of(task, rows, proved, secrets)
    made[1] = Program(task, 1, rows[1], None, proved[1], secrets[1], log)
    made[1].start()
    seen, kept = set(), {}

    def put_back(programs, sides):
        mine = programs[1]
        for result, value in mine.results.items():
            if kept.get(result) is not value:
                store.write_result(result, value)
                kept[result] = value
        if rng.random() < 0.02 or mine.phase.name not in seen:
            seen.add(mine.phase.name)
            before = (mine.phase.name, mine.exchanges + 1, unpacked(packed(mine.phase.memory)))
            again = Program(task, 1, rows[1], None, proved[1], secrets[1], log)
            again.resume(*before, store.known_result)
            sent, before = again.outgoing().message, sides[1].message
            assert {name: part.tolist() for name, part in sent.items()} == {
                name: part.tolist() for name, part in before.items()
            }  # nothing is sent twice in two ways
            programs[1] = again
            kept.update(again.results)

    transcript(made, put_back)
    own = {"groups"} if name == "masked" else {"confirming"}
    assert seen == {"keys", "basis", "facts", "start", "fit", "information", "closing"} | own
    for program, other in zip(made, straight, strict=True):
        for mine, theirs in zip(program.estimate(), other.estimate(), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        for result in RESULTS.keys() - {"chain"}:  # of the sums as they were split, by chance
            for mine, theirs in zip(program.results.get(result, ()), other.results.get(result, ()), strict=True):
                np.testing.assert_array_equal(mine, theirs)
    assert made[1].results["fit"].converged
    with pytest.raises(FileError, match=r"does not hold sum [0-9]+ of the 9999 that the journal counts"):
        log.totals("start", 9999)
    with pytest.raises(FederationError, match="not the one it began with"):
        Program(task, 1, rows[1], None, proved[1], bytes(32), log).resume("closing", made[1].exchanges, [], kept.get)


def test_a_given_start_does_not_hide_that_few_rows_have_no_label(dataset):
    """What is left of the sum of all rows without those of the classes would be theirs."""
    start = Theta(np.full(3, 1 / 3), np.eye(3), np.stack([np.eye(3)] * 3))
    task = make_task(NAMES, **settings("masked", start=start, max_rounds=5, min_count=5))
    few = [
        rows._replace(labels=np.array(c))
        for rows, c in zip(local_data(dataset), dataset.by_site(dataset.classes), strict=True)
    ]
    few[2].labels[0] = -1
    for program in run_all(task, few):
        assert "1 row has no label at all sites together, fewer than min_count=5" in str(program.failure)
        assert "fit" not in program.results
    few[2].labels[:5] = -1
    assert all(program.failure is None for program in run_all(task, few))
