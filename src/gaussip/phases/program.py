"""A site's whole run: a list of phases, each begun from the results of those before.

A simulation of all sites, an MPI job and real sites run the same program; they differ by the exchange that carries
its messages.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gaussip.arrays import NDArray
from gaussip.arrays.trees import rebuilt
from gaussip.errors import CollapseError
from gaussip.exchange import Message
from gaussip.mixture.theta import Theta
from gaussip.phases.base import Context, Phase, Resumed
from gaussip.phases.basis import BasisPhase
from gaussip.phases.fit import Fit, Fitted
from gaussip.phases.information import InformationPhase
from gaussip.phases.masked_sums import SECRET
from gaussip.phases.start_search import StartSearch
from gaussip.phases.survey import AgreedStart, SharedCentres, Survey
from gaussip.phases.task import LocalData, Task
from gaussip.selection import Selection

PHASES: tuple[type[Phase], ...] = (
    BasisPhase,
    Survey,
    SharedCentres,
    StartSearch,
    AgreedStart,
    Fit,
    InformationPhase,
)
NAMES = tuple(kind.name for kind in PHASES)


class Progress(NamedTuple):
    """How far a site has come."""

    phase: str
    doing: str  #: the phase, for people
    exchange: int
    round: int
    passes: int
    log_likelihood: float
    change: float
    disagreement: float
    step: float
    restarts: int


class Program:
    """One site's run.

    Parameters
    ----------
    resumed : for a run that continues another's checkpoint, in place of what would be agreed on
    secret : of the site, the same whenever the run is resumed; it masks the site's parts of sums
    """

    def __init__(
        self,
        task: Task,
        index: int,
        local: LocalData,
        resumed: Resumed | None = None,
        secret: bytes | None = None,
    ) -> None:
        self.task, self.index = task, index
        self._context = Context(task, index, local, resumed, secret or os.urandom(SECRET))
        self.exchanges = 0  #: so far
        self.results: dict[str, Any] = {}  #: of the phases that are over
        self.finished: list[Phase] = []  #: those that the last exchange ended
        self.failure: CollapseError | None = None
        self.selection: Selection | None = None  #: what a search led to in this process
        if resumed is not None and resumed.basis is not None:
            self._take("basis", resumed.basis)
        self.phase: Phase | None = None
        self._advance(0)

    def _take(self, name: str, result: Any) -> None:
        self.results[name] = result
        if name == "basis":
            self._context = self._context.reduced(result)

    def _advance(self, number: int) -> None:
        """The next phase that this run has; phases that need no exchange are over at once."""
        self.phase = None
        for kind in PHASES[number:]:
            phase = kind.begin(self._context, self.results)
            if phase is None:
                continue
            if not phase.over:
                self.phase = phase
                return
            self._end(phase)

    def _end(self, phase: Phase) -> None:
        if isinstance(phase, Fit):
            self.failure = phase.failure
        if isinstance(phase, StartSearch):
            self.selection = phase.selection
        if self.failure is None:
            self._take(phase.name, phase.result)
        self.finished.append(phase)

    @property
    def over(self) -> bool:
        """Whether no phase is left."""
        return self.phase is None

    @property
    def _now(self) -> Phase:
        assert self.phase is not None
        return self.phase

    def message(self) -> Message:
        """What the neighbours get."""
        return self._now.message()

    def check(self, message: Message) -> bool:
        """Whether a neighbour can have sent this."""
        return self._now.check(message)

    def absorb(self, heard: Message) -> None:
        """One exchange: the neighbours' messages, combined."""
        phase = self._now
        self.exchanges += 1
        self.finished = []
        phase.absorb(heard)
        if phase.over:
            self._end(phase)
            self._advance(1 + PHASES.index(type(phase)))

    def resume(
        self,
        name: str,
        exchange: int,
        leaves: Sequence[Any],
        results: Callable[[type[Phase]], Any],
        totals: Callable[[Phase, int], Sequence[NDArray]],
    ) -> None:
        """Continue before an exchange of a phase, from what was kept.

        Parameters
        ----------
        leaves : of the phase's memory
        results : gives what was kept of a phase that is over; None where the run does without it
        totals : gives the first so many sums that were kept of a phase
        """
        number = NAMES.index(name)
        for kind in PHASES[:number]:
            if kind.name not in self.results and (result := results(kind)) is not None:
                self._take(kind.name, result)
        phase = PHASES[number].begin(self._context, self.results)
        assert phase is not None
        memory = rebuilt(leaves, phase.memory)
        phase.resume(memory, totals(phase, phase.n_totals(memory)))
        self.phase, self.exchanges = phase, exchange - 1

    @property
    def round(self) -> int:
        """Rounds of the fit so far."""
        if isinstance(self.phase, Fit):
            return int(self.phase.memory.round)
        return self.results["fit"].rounds if "fit" in self.results else 0

    def estimate(self) -> Theta:
        """The site's mixture, in the units of the table."""
        if isinstance(self.phase, Fit):
            return self.phase.estimate()
        fit = self._fit()
        if fit is None:
            raise RuntimeError("there is no estimate before the first round")
        return fit.theta

    def _fit(self) -> Fitted | None:
        """Where the fit stands, in it and after it."""
        if isinstance(self.phase, Fit):
            return self.phase.result
        last = self.finished[-1] if self.finished else None
        if isinstance(last, Fit):
            return last.result
        fitted: Fitted | None = self.results.get("fit")
        return fitted

    def progress(self) -> Progress:
        """How far the site has come."""
        last = self.phase or self.finished[-1]
        fit = self._fit()
        if fit is None:
            nan = float("nan")
            return Progress(last.name, last.doing, self.exchanges, 0, 0, nan, float("inf"), nan, nan, 0)
        numbers = (fit.rounds, fit.passes, fit.log_likelihood, fit.change, fit.disagreement, fit.step, fit.restarts)
        return Progress(last.name, last.doing, self.exchanges, *numbers)
