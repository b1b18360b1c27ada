"""Sites that search, choose and sum the information: whatever carries their messages, and after any interruption."""

from __future__ import annotations

import numpy as np
import pytest

from gaussip.errors import FileError, UncertaintyError
from gaussip.exchange import sums
from gaussip.exchange.neighbourhood import Neighbours
from gaussip.inference.information import concluded, site_part
from gaussip.node.journal import packed, unpacked
from gaussip.node.run_store import RunStore
from gaussip.phases.base import Resumed
from gaussip.phases.program import Program
from gaussip.phases.task import make_task
from gaussip.rows.chunks import of_array
from programs import NAMES, local_data, run_all, settings


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
        rows = [local._replace(X=local.X * unit) for local in local_data(dataset, labelled=False)]
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
    first = run_all(task, local_data(dataset))
    resumed = [Resumed(program.estimate(), program.results["start"].target, None) for program in first]
    again = run_all(task, local_data(dataset), resumed)
    for programs in (first, again):
        scale, information = programs[0].results["information"]
        assert all((program.results["information"].information == information).all() for program in programs)
        robust = intervals == "robust"
        parts = [
            site_part(of_array(local.X, local.labels), program.estimate(), scale, robust=robust)
            for local, program in zip(local_data(dataset), programs, strict=True)
        ]
        np.testing.assert_array_equal(information, sums.agreed(np.stack(parts)))
        conclusion = concluded(information, scale, ["a", "b", "c"], robust=robust)
        assert np.isfinite(conclusion.covariance).all()


def test_a_site_that_cannot_tell_its_information_keeps_nobody_waiting(dataset, monkeypatch):
    def too_large(rows, theta, scale, **_):
        raise UncertaintyError("too large")

    task = make_task(NAMES, **settings("exact", start="labels", intervals="plain", tol=1e-3, max_rounds=3000))
    monkeypatch.setattr("gaussip.phases.information.site_part", too_large)
    programs = run_all(task, local_data(dataset))
    assert all(program.over and not program.results["information"].information.size for program in programs)


def test_a_site_put_back_before_any_exchange_goes_on_exactly(dataset, tmp_path):
    """In the survey, the search, the fit and the sums after it: the program is thrown away and made anew."""
    chosen = {"start": "search", "n_components": 4, "at_least": 3, "intervals": "plain", "tol": 1e-3}
    task = make_task(NAMES, **settings("exact", **chosen, max_rounds=3000))
    rows, rng = local_data(dataset), np.random.default_rng(0)
    straight = run_all(task, rows)
    store = RunStore(tmp_path)
    store.make()
    programs = [Program(task, m, local, secret=bytes([m + 1] * 32)) for m, local in enumerate(rows)]
    near, seen = [Neighbours(task.W, m) for m in range(len(rows))], set()
    while not programs[0].over:
        mine = programs[1]
        if rng.random() < 0.02 or mine.phase.name not in seen:
            seen.add(mine.phase.name)
            kept = (mine.phase.name, mine.exchanges + 1, unpacked(packed(mine.phase.memory)))
            programs[1] = Program(task, 1, rows[1], secret=bytes([2] * 32))
            programs[1].resume(*kept, store.known_result, store.totals)
        sent = [program.message() for program in programs]
        phase, known = programs[1].phase, set(programs[1].results)
        for program, place, message in zip(programs, near, sent, strict=True):
            program.absorb(place.combine(message, {q: sent[q] for q in place.heard}))
        if phase.new_total is not None:
            store.add_total(phase.name, phase.new_total)
        for name in set(programs[1].results) - known:
            store.write_result(name, programs[1].results[name])
    assert seen == {"survey", "centres", "search", "fit", "information"}
    for program, other in zip(programs, straight, strict=True):
        for mine, theirs in zip(program.estimate(), other.estimate(), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        for mine, theirs in zip(program.results["information"], other.results["information"], strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert programs[1].results["fit"].rounds == straight[1].results["fit"].rounds
    assert programs[1].results["fit"].converged
    with pytest.raises(FileError, match="does not hold the 9999 sums"):
        store.totals("search", 9999)
