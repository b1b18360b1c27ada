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
from gaussip.phases.information import InformationPhase, Summed
from gaussip.phases.masked_sums import SECRET
from gaussip.phases.start_search import StartSearch
from gaussip.phases.survey import Agreed, SharedCentres, Survey, Table
from gaussip.phases.task import LocalData, Task
from gaussip.rows.basis import Basis
from gaussip.selection import Selection

PHASES: tuple[type[Phase], ...] = (BasisPhase, Survey, SharedCentres, StartSearch, Fit, InformationPhase)
NAMES = tuple(kind.name for kind in PHASES)
RESULTS: dict[str, type[Any]] = {
    "basis": Basis,
    "survey": Table,
    "centres": Table,
    "search": Theta,
    "start": Agreed,
    "fit": Fitted,
    "information": Summed,
}  #: what is known at the end of a phase, and at the beginning of the fit (the start), in their order


class Progress(NamedTuple):
    """How far a site has come."""

    doing: str  #: for people
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
        self.results: dict[str, Any] = {}
        self.failure: CollapseError | None = None
        self.selection: Selection | None = None  #: what a search led to in this process
        if resumed is not None and resumed.basis is not None:
            self._take("basis", resumed.basis)
        self._begin(0)

    def _take(self, name: str, result: Any) -> None:
        self.results[name] = result
        if name == "basis":
            self._context = self._context.reduced(result)

    def _begin(self, number: int) -> None:
        """The first phase from a number on that this run has; the last one stays where none is left."""
        for kind in PHASES[number:]:
            phase = kind.begin(self._context, self.results)
            if phase is not None:
                self.phase, self.over = phase, False
                return
        self.over = True

    def message(self) -> Message:
        """What the neighbours get."""
        return self.phase.message()

    def check(self, message: Message) -> bool:
        """Whether a neighbour can have sent this."""
        return self.phase.check(message)

    def absorb(self, heard: Message) -> None:
        """One exchange: the neighbours' messages, combined."""
        phase = self.phase
        self.exchanges += 1
        phase.absorb(heard)
        if not phase.over:
            return
        if isinstance(phase, Fit) and phase.failure is not None:
            self.failure, self.over = phase.failure, True
            return
        if isinstance(phase, StartSearch):
            self.selection = phase.selection
        self._take(phase.name, phase.result)
        self._begin(1 + PHASES.index(type(phase)))

    def resume(
        self,
        name: str,
        exchange: int,
        leaves: Sequence[Any],
        results: Callable[[str], Any],
        totals: Callable[[str, int], Sequence[NDArray]],
    ) -> None:
        """Continue before an exchange of a phase, from what was kept.

        Parameters
        ----------
        leaves : of the phase's memory
        results : gives a result that was kept; None where the run does without it
        totals : gives the first so many sums that were kept of a phase
        """
        number, known = NAMES.index(name), tuple(RESULTS)
        for earlier in known[: known.index(name)]:
            if earlier not in self.results and (result := results(earlier)) is not None:
                self._take(earlier, result)
        phase = PHASES[number].begin(self._context, self.results)
        assert phase is not None
        memory = rebuilt(leaves, phase.memory)
        phase.resume(memory, totals(name, phase.n_totals(memory)))
        self.phase, self.exchanges = phase, exchange - 1

    def _fit(self) -> Fitted | None:
        """Where the fit stands, in it and after it."""
        if isinstance(self.phase, Fit):
            return self.phase.result
        fitted: Fitted | None = self.results.get("fit")
        return fitted

    @property
    def round(self) -> int:
        """Rounds of the fit so far."""
        if isinstance(self.phase, Fit):
            return int(self.phase.memory.round)
        return self.results["fit"].rounds if "fit" in self.results else 0

    def estimate(self) -> Theta:
        """The site's mixture, in the units of the table; from the first round on."""
        return self.phase.estimate() if isinstance(self.phase, Fit) else self.results["fit"].theta

    def progress(self) -> Progress:
        """How far the site has come."""
        fit, nan = self._fit(), float("nan")
        numbers = (0, 0, nan, float("inf"), nan, nan, 0) if fit is None else fit[4:]  # from its rounds on
        return Progress(self.phase.doing, self.exchanges, *numbers)
