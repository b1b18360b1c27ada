"""A site's whole run: a list of phases, each begun from the results of those before.

A simulation of all sites, an MPI job and real sites run the same program; they differ by the exchange that carries
its messages.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays.trees import rebuilt
from gaussip.errors import CollapseError, GaussipError
from gaussip.exchange import Message, Outgoing
from gaussip.exchange.questions import ANNOUNCEMENT
from gaussip.mixture.degenerate import refuse_degenerate
from gaussip.mixture.theta import Theta
from gaussip.phases.base import Context, Identity, Kept, NothingKept, Phase, Resumed
from gaussip.phases.basis import BasisPhase
from gaussip.phases.basis import most_words as basis_words
from gaussip.phases.fit import Fit, Fitted
from gaussip.phases.fit import most_bytes as gossip_bytes
from gaussip.phases.fit_by_sums import FitBySums
from gaussip.phases.fit_by_sums import most_words as fit_words
from gaussip.phases.groups import GroupsPhase
from gaussip.phases.information import InformationPhase, Summed
from gaussip.phases.information import most_words as information_words
from gaussip.phases.keys import Announced, KeysPhase
from gaussip.phases.private_fit import Private, PrivatePhase
from gaussip.phases.private_fit import most_words as private_words
from gaussip.phases.start import Agreed, FactsPhase, StartPhase
from gaussip.phases.start import most_words_of_facts as facts_words
from gaussip.phases.start import most_words_of_start as start_words
from gaussip.phases.summing import Chain, Closing, Confirmed, Confirming, SumsPhase, most_bytes
from gaussip.phases.task import LocalData, Task
from gaussip.rows.basis import Basis
from gaussip.rows.checks import column_name
from gaussip.rows.rare import BINS, HASHES, Rare
from gaussip.selection import Selection
from gaussip.settings import REFUSE
from gaussip.starts.facts import Facts

PHASES: tuple[type[Phase], ...] = (
    KeysPhase, PrivatePhase, GroupsPhase, BasisPhase, FactsPhase, StartPhase, Confirming, FitBySums, Fit,
    InformationPhase, Closing,
)  # fmt: skip
PRIVATE = (KeysPhase, PrivatePhase, Closing)  # of a private fit
NAMES = tuple(dict.fromkeys(kind.name for kind in PHASES))
RESULTS: dict[str, type[Any]] = {
    "chain": Chain,
    "keys": Announced,
    "private": Private,
    "groups": Rare,
    "basis": Basis,
    "facts": Facts,
    "start": Agreed,
    "confirming": Confirmed,
    "fit": Fitted,
    "information": Summed,
    "closing": Confirmed,
}  #: what is known at the end of each phase, and the chain of all totals before it; a given start needs no phase


def longest_message(task: Task) -> int:
    """Bytes that no message of a run exceeds."""
    questions = [HASHES * BINS, facts_words(task), start_words(task), fit_words(task), private_words(task)]
    if task.reduction is not None:
        questions.append(basis_words(task.n_features))
    if task.intervals != "none":
        K, p = task.n_components, task.n_features if task.reduction is None else task.reduction.most
        questions.append(information_words(K, p, robust=task.intervals == "robust"))
    n_sites = len(task.sites)
    return max(ANNOUNCEMENT * n_sites + 1024, gossip_bytes(task), most_bytes(max(questions), n_sites))


class Progress(NamedTuple):
    """How far a site has come."""

    doing: str  #: for people
    plan: str  #: how the present sum travels; empty in gossip
    exchanges: int
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
    identity, secret, kept : of a real site; see `gaussip.phases.base.Context`
    """

    def __init__(
        self,
        task: Task,
        index: int,
        local: LocalData,
        resumed: Resumed | None = None,
        identity: Identity | None = None,
        secret: bytes = b"",
        kept: Kept | None = None,
    ) -> None:
        self.task, self.index = task, index
        self._context = Context(task, index, local, resumed, identity, secret, kept or NothingKept())
        self.exchanges = 0  #: so far
        self.results: dict[str, Any] = {}
        self.failure: GaussipError | None = None  #: that ended the run at all sites
        self.selection: Selection | None = None  #: what a search led to in this process
        self.phase: Any = None  #: the present one
        self.over = False
        self._basis = None if resumed is None else resumed.basis  # to be taken once rows are left out

    def start(self) -> None:
        """Begin with the first phase, unless the run is resumed."""
        self._begin(0)

    def _take(self, name: str, result: Any) -> None:
        self.results[name] = result
        if name == "private":
            self.results["fit"] = result.fitted
        if name == "groups":
            self._context = self._context.without(result)
        if name == "basis":
            self._basis = None
            self._context = self._context.reduced(result)

    @property
    def local(self) -> LocalData:
        """The site's rows as the fit takes them."""
        return self._context.local

    def _begin(self, number: int) -> None:
        """The first phase from a number on that this run has; the last one stays where none is left."""
        for kind in PHASES[number:]:
            if self.task.privacy is not None and kind not in PRIVATE:
                continue
            if self._basis is not None and kind is BasisPhase:
                self._take("basis", self._basis)
            try:
                phase = kind.begin(self._context, self.results)
            except GaussipError as error:  # the same at all sites
                self.failure, self.over = error, True
                return
            if phase is not None:
                phase.start()
                self.phase, self.over = phase, False
                return
        self.over = True
        if self._context.identity is not None and not self.task.algorithm.replicated:
            self._refused()  # others may keep theirs: they are done with this site

    def _refused(self) -> bool:
        """Whether the fit ends the run, since it has a degenerate component: of all sites' mixture, or of its own."""
        task, fitted = self._context.task, self.results["fit"]
        if task.degenerate != REFUSE:
            return False
        floor = np.full(task.n_features, (1 - task.shrinkage) * task.reg_covar)
        if task.scale:
            floor = floor * self.results["facts"].spread ** 2
        try:
            refuse_degenerate(
                fitted.theta, floor, fitted.mass, [column_name(j, task.features) for j in range(task.n_features)],
                round=int(fitted.rounds), classes=task.class_of_component,
                site=None if task.algorithm.replicated else task.sites[self.index],
            )  # fmt: skip
        except CollapseError as error:
            if "private" in self.results:
                error.spent = self.results["private"].guarantee(task)
                error.remedy = f"{error.remedy}; this attempt has spent {error.spent}"
            self.failure, self.over = error, True
        return self.over

    def outgoing(self) -> Outgoing:
        """The site's side of the next exchange."""
        outgoing: Outgoing = self.phase.outgoing()
        return outgoing

    def fault(self, sender: int, message: Message) -> str:
        """What is wrong with a neighbour's message; empty if nothing is."""
        fault: str = self.phase.fault(sender, message)
        return fault

    def absorb(self, received: Mapping[int, Message]) -> None:
        """One exchange: the neighbours' messages."""
        phase = self.phase
        self.exchanges += 1
        phase.absorb(received)
        if not phase.over:
            return
        if isinstance(phase, SumsPhase):
            self.results["chain"] = phase.chain
        if phase.failure is not None:
            self.failure, self.over = phase.failure, True
            return
        if isinstance(phase, StartPhase):
            self.selection = phase.selection
        self._take(phase.name, phase.result)
        if isinstance(phase, FitBySums | PrivatePhase) and self._refused():
            return
        self._begin(1 + PHASES.index(type(phase)))

    def resume(self, name: str, exchange: int, leaves: Sequence[Any], results: Callable[[str], Any]) -> None:
        """Continue before an exchange of a phase, from what was kept.

        Parameters
        ----------
        leaves : of the phase's memory
        results : gives a result that was kept; None where the run does without it
        """
        known = tuple(RESULTS)
        for earlier in known[: known.index(name)] if name != KeysPhase.name else ():  # nothing is known before keys
            if earlier not in self.results and (result := results(earlier)) is not None:
                self._take(earlier, result)
        if "basis" in self.results:
            self._basis = None
        phase = next(filter(None, (k.begin(self._context, self.results) for k in PHASES if k.name == name)))
        phase.resume(rebuilt(leaves, phase.memory))
        self.phase, self.exchanges, self.over = phase, exchange - 1, False

    def _fit(self) -> Fitted | None:
        """Where the fit stands, in it and after it."""
        if isinstance(self.phase, Fit | FitBySums):
            return self.phase.result
        fitted: Fitted | None = self.results.get("fit")
        return fitted

    @property
    def round(self) -> int:
        """Rounds of the fit so far."""
        if isinstance(self.phase, Fit | FitBySums):
            return self.phase.round
        return self.results["fit"].rounds if "fit" in self.results else 0

    def estimate(self) -> Theta:
        """The site's mixture, in the units of the table; from the first round on."""
        fitting = isinstance(self.phase, Fit | FitBySums)
        theta: Theta = self.phase.estimate() if fitting else self.results["fit"].theta
        return theta

    def progress(self) -> Progress:
        """How far the site has come."""
        fit, nan = self._fit(), float("nan")
        numbers = (0, 0, nan, float("inf"), nan, nan, 0) if fit is None else fit[4:-1]  # from its rounds on
        plan = self.phase.plan if isinstance(self.phase, SumsPhase) else ""
        doing = "starting" if self.phase is None else self.phase.doing
        return Progress(doing, plan, self.exchanges, *numbers)
