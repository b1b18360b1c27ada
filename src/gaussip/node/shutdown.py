"""How a run ends at a site: what it keeps, and that it stays until its neighbours have what they need."""

import time
from typing import Any

from gaussip import errors
from gaussip.errors import CollapseError, GaussipError, PausedError, worded
from gaussip.exchange.neighbourhood import Neighbours
from gaussip.federation.faults import as_key
from gaussip.mixture import validity
from gaussip.node.board import Board, Standing
from gaussip.node.journal import Journal
from gaussip.node.logs import Logs
from gaussip.node.responder import Responder
from gaussip.node.run_store import RunStore
from gaussip.node.sums_log import SumsLog
from gaussip.node.waiting import SOON
from gaussip.phases.fit import Fitted
from gaussip.phases.program import Program

REMEDY = "all sites stopped; try fewer components, another start or a larger reg_covar"
GRACE = 1.0  # seconds that a site stays on to answer neighbours that are a moment later
SILENT = 30.0  # seconds after which a neighbour that needs nothing of this site is taken to have left


def finish(program: Program, store: RunStore, journal: Journal, sums: SumsLog, logs: Logs) -> dict[str, Any]:
    """Keep how the run ended on disk: from now on the site needs nobody."""
    progress, error = program.progress(), program.failure
    failure = None if error is None else record_of(error)
    converged = error is None and program.results["fit"].converged
    end = {"acknowledged": False, "rounds": progress.round, "exchanges": program.exchanges, "failure": failure}
    if error is None:
        store.write_checkpoint(progress.round, program.estimate())
    journal.flush()
    logs.write_audit()
    store.write_end(**end)
    sums.remove()
    logs.event("finished", round=progress.round, converged=converged, failure=failure and failure["text"])
    return end


def stay_for_others(
    end: dict[str, Any],
    names: tuple[str, ...],
    near: Neighbours,
    responder: Responder,
    board: Board,
    logs: Logs,
    store: RunStore,
    patience: float | None,
) -> None:
    """Stay until neighbours are done and know that this site is, or for as long as the operator allows.

    A neighbour that receives from this site may need what it sent last; one that it receives from stays for it, and
    must learn that it need not. One of the latter that has been silent for long is taken to have left.
    """
    board.update(newest=end["exchanges"], finished=True)
    began, logged = time.monotonic(), False
    while True:
        board.raise_trouble()
        standing, waited = board.read(), time.monotonic() - began
        needing, unaware = set(near.receivers) - set(standing.done), _unaware(near, standing, began)
        impatient = patience is not None and waited > patience
        if not needing and (impatient or not unaware):
            break
        if waited > SOON and not logged:
            logged = True
            logs.event("done, but stays", until_done=", ".join(sorted(names[q] for q in needing | unaware)))
        if impatient:
            late = ", ".join(sorted(names[q] for q in needing))
            raise PausedError(
                f"this site is done, but {late} may still need what it sent last: start it again when they are back, "
                "unless they are done too"
            )
        for q in near.all:
            responder.say_done(q)
        board.wait(1.0)
    for q in near.all:
        responder.say_done(q)
    store.write_end(**{**end, "acknowledged": True})
    time.sleep(GRACE)


def _unaware(near: Neighbours, standing: Standing, began: float) -> set[int]:
    """Those who stay for this site, and have not said yet that they know it is done."""
    silent = time.monotonic() - SILENT
    last = {q: max(began, standing.last_received.get(q, began)) for q in near.senders}
    return {q for q in near.senders if not standing.done.get(q) and last[q] > silent}


def end_of(store: RunStore, end: dict[str, Any]) -> Fitted:
    """What a run ended with, or the error that it ended with."""
    if end["failure"] is not None:
        raise error_of(end["failure"])
    fitted: Fitted = store.result("fit")
    return fitted


def record_of(error: GaussipError) -> dict[str, Any]:
    """An error as it is kept."""
    kept: dict[str, Any] = {"error": type(error).__name__, "text": error.worded(as_key), "fields": error.fields()}
    if isinstance(error, CollapseError):
        kept["collapse"] = [error.site, error.component, error.round, error.cause, error.label, error.column]
        kept["remedy"] = REMEDY if error.remedy in (None, validity.REMEDY) else worded(error.remedy, as_key)
    return kept


def error_of(kept: dict[str, Any]) -> GaussipError:
    """The error of which this was kept."""
    if "collapse" in kept:
        site, component, round, cause, label, column = kept["collapse"]
        return CollapseError(site, component, round, cause, kept["remedy"], label, column)
    kind = getattr(errors, kept["error"], GaussipError)
    error: GaussipError = kind(f"{kept['text']}; all sites stopped", **kept["fields"])
    return error
