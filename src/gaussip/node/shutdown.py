"""How a run ends at a site: what it keeps, and that it stays until its neighbours have what they need."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from gaussip.errors import CollapseError, PausedError
from gaussip.mixture.theta import Theta
from gaussip.node.monitor import SOON
from gaussip.node.run_store import Keeping

if TYPE_CHECKING:
    from gaussip.node.runner import SiteRun

GRACE = 1.0  # seconds that a finished site stays to tell late neighbours that it is done


class End(NamedTuple):
    """How a run ended at a site."""

    theta: Theta
    rounds: int
    converged: bool
    log_likelihood: float
    change: float
    disagreement: float
    exchanges: int


def finish(run: SiteRun) -> dict[str, Any]:
    """Keep the last estimate, and how the run ended, on disk: from now on the site needs nobody."""
    program = run.program
    end: dict[str, Any] = {
        "acknowledged": False, "rounds": program.round, "exchanges": program.exchanges,
        "converged": program.converged, "log_likelihood": program.log_likelihood, "change": program.change,
        "disagreement": program.disagreement, "failure": None,
    }  # fmt: skip
    if program.failure is not None:
        error = program.failure
        end["failure"] = {"site": error.site, "component": error.component, "cause": error.cause}
    else:
        run.keeping.write_checkpoint(program.round, program.estimate())
    run.journal.flush()
    run.records.write_audit()
    run.keeping.write_end(**end)
    run.records.event("finished", round=program.round, converged=program.converged, failure=end["failure"])
    return end


def stay_for_others(run: SiteRun, end: dict[str, Any]) -> None:
    """Stay until those who hear this site are done, or for as long as the operator allows."""
    service, hearers = run.service, set(run.near.hearers)
    service.finished, service.newest = True, end["exchanges"]
    run.reporter.finished = True
    began, told = time.monotonic(), False
    while not hearers <= service.done:
        run.reporter.raise_trouble()
        for q in run.near.all:
            service.say_done(q)
        service.news.wait(1.0)
        service.news.clear()
        waited = time.monotonic() - began
        late = ", ".join(sorted(run.names[q] for q in hearers - service.done))
        if late and waited > SOON and not told:
            told = True
            run.records.event("done, but stays", until_done=late)
        if late and run.patience is not None and waited > run.patience:
            raise PausedError(
                f"the model is written, but {late} may still need what this site sent last: start it again when they "
                "are back, unless they are done too"
            )
    for q in run.near.all:
        service.say_done(q, answer=False)
    run.keeping.write_end(**{**end, "acknowledged": True})
    time.sleep(GRACE)


def end_of(keeping: Keeping, end: dict[str, Any]) -> End:
    """What a run ended with, or the error that it ended with."""
    if end["failure"] is not None:
        failure = end["failure"]
        raise CollapseError(
            failure["site"], failure["component"], end["rounds"], failure["cause"],
            "All sites stopped; try fewer components, another start or a larger reg_covar",
        )  # fmt: skip
    numbers: list[Any] = [float("nan") if end[name] is None else end[name] for name in End._fields[1:]]
    return End(keeping.checkpoint(end["rounds"]), *numbers)
