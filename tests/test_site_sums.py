"""Sites that search, choose and sum the information: whatever carries their messages, and after any interruption."""

from __future__ import annotations

import numpy as np
import pytest

from gaussip.errors import FileError, UncertaintyError
from gaussip.exchange import sums
from gaussip.exchange.neighbourhood import Neighbours
from gaussip.inference.information import concluded, site_part
from gaussip.node.journal import Entry, leaves_of
from gaussip.node.resuming import resume
from gaussip.node.run_store import Keeping
from gaussip.phases.program import Program
from gaussip.phases.state import CENTRES, FACTS, FIT, INTERVALS, SEARCH, Begin
from gaussip.phases.task import make_task
from gaussip.rows.chunks import of_array
from programs import NAMES, owns, run_all, settings


def test_sites_choose_in_any_unit(dataset):
    """With scale = true, data in other units lead to the same choice, whatever reg_covar is."""
    labelled = {
        "labelled": False,
        "start": "search",
        "n_components": 4,
        "at_least": 1,
        "scale": True,
        "max_rounds": 5,
    }
    found = []
    for unit in (1.0, 1e-4):
        task = make_task(NAMES, **settings("exact", **labelled, reg_covar=1e-4))
        rows = [own._replace(X=own.X * unit) for own in owns(dataset, labelled=False)]
        found.append(run_all(task, rows)[0].selection)
    first, second = ([line.bic for line in selection.lines] for selection in found)
    np.testing.assert_allclose(np.diff(first), np.diff(second), atol=0.5)
    assert found[0].n_components == found[1].n_components == 3


@pytest.mark.parametrize("intervals", ["plain", "robust"])
def test_sites_sum_the_information_in_pieces(intervals, dataset, monkeypatch):
    """Also where each site went on from its own checkpoint: the standard errors are the simulation's."""
    monkeypatch.setattr("gaussip.phases.task.LONGEST", 5 * 100)
    changed = {"start": "labels", "intervals": intervals, "tol": 1e-3, "max_rounds": 3000, "eta": 0.3}
    task = make_task(NAMES, **settings("mnem", network="complete", **changed))
    first = run_all(task, owns(dataset))
    goes_on = [Begin(program.estimate(), program.agreed.target, None) for program in first]
    again = run_all(task, owns(dataset), goes_on)
    for programs in (first, again):
        informing = programs[0].informing
        assert all((program.informing.information == informing.information).all() for program in programs)
        robust = intervals == "robust"
        scale = informing.scale
        parts = [
            site_part(of_array(own.X, own.labels), program.estimate(), scale, robust=robust)
            for own, program in zip(owns(dataset), programs, strict=True)
        ]
        np.testing.assert_array_equal(informing.information, sums.agreed(np.stack(parts)))
        found = concluded(informing.information, scale, ["a", "b", "c"], robust=robust)
        assert np.isfinite(found.covariance).all()


def test_a_site_that_cannot_tell_its_information_keeps_nobody_waiting(dataset, monkeypatch):
    def too_large(rows, theta, scale, **_):
        raise UncertaintyError("too large")

    task = make_task(NAMES, **settings("exact", start="labels", intervals="plain", tol=1e-3, max_rounds=3000))
    monkeypatch.setattr("gaussip.phases.information.site_part", too_large)
    programs = run_all(task, owns(dataset))
    assert all(program.over and program.informing.information is None for program in programs)


def test_a_site_put_back_before_any_exchange_goes_on_exactly(dataset, tmp_path):
    """In the survey, the search, the fit and the sums after it: the program is thrown away and made anew."""
    chosen = {"start": "search", "n_components": 4, "at_least": 3, "intervals": "plain", "tol": 1e-3}
    task = make_task(NAMES, **settings("exact", **chosen, max_rounds=3000))
    rows, rng = owns(dataset), np.random.default_rng(0)
    straight = run_all(task, rows)
    keeping = Keeping(tmp_path)
    keeping.make()
    programs = [Program(task, m, own, secret=bytes([m + 1] * 32)) for m, own in enumerate(rows)]
    near = [Neighbours(task.W, m) for m in range(len(rows))]
    seen = set()
    while not programs[0].over:
        mine = programs[1]
        if rng.random() < 0.02 or mine.phase not in seen:
            seen.add(mine.phase)
            entry = Entry(mine.exchanges + 1, mine.phase, b"", leaves_of(mine.memory))
            programs[1] = Program(task, 1, rows[1], secret=bytes([2] * 32))
            resume(programs[1], entry, keeping)
        sent = [program.message() for program in programs]
        phase = programs[1].phase
        for program, place, told in zip(programs, near, sent, strict=True):
            program.absorb(told, place.combine(told, {q: sent[q] for q in place.heard}))
        if programs[1].new_sum is not None:
            keeping.add_sum(phase, programs[1].new_sum)
        if phase != FIT and programs[1].phase == FIT:
            keeping.write_agreed(programs[1].agreed)
    assert seen == {FACTS, CENTRES, SEARCH, FIT, INTERVALS}
    for one, other in zip(programs, straight, strict=True):
        for mine, theirs in zip(one.estimate(), other.estimate(), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(one.informing.information, other.informing.information)
    assert (programs[1].round, programs[1].converged) == (straight[1].round, True)
    with pytest.raises(FileError, match="does not hold the 9999 sums"):
        keeping.sums(SEARCH, 9999)
