"""What a phase of a site's run is: give out a message, take in what comes back, until it is over.

A phase does not know what carries its messages, or whether it was interrupted. Its memory is a tree of arrays and
numbers that can be kept after any exchange and put back. What all sites know at its end is its result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.exchange import Exchange, Message
from gaussip.mixture.theta import Theta
from gaussip.phases.task import LocalData, Task
from gaussip.rows.basis import Basis


class Resumed(NamedTuple):
    """What a run starts from that continues another's checkpoint."""

    start: Theta  #: the site's own
    target: NDArray  #: of shrinkage, the first run's
    basis: Basis | None  #: the first run's


@dataclass(frozen=True)
class Context:
    """What a site has before any exchange."""

    task: Task
    index: int
    local: LocalData
    resumed: Resumed | None  #: of a run that continues another's checkpoint
    secret: bytes  #: that no other site knows, the same whenever the run is resumed: it masks parts of sums

    def reduced(self, basis: Basis) -> Context:
        """The same with the rows in a basis."""
        local = self.local._replace(X=basis.reduced(self.local.X))
        return replace(self, local=local, task=self.task._replace(n_features=len(basis.variances)))


class Phase(ABC):
    """One phase at one site."""

    name: str  #: also of its result
    doing: str  #: for people
    memory: Any
    room: int = 0  #: bytes that the memory may grow to; zero where it keeps its size
    new_total: NDArray | None = None  #: a sum that ended in the last exchange, to be kept beside the memory

    @classmethod
    @abstractmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> Phase | None:
        """The phase after those with these results; None where this run does without it."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether its result is known."""

    @property
    @abstractmethod
    def result(self) -> Any:
        """What the phase ends with: a NamedTuple of arrays and numbers."""

    @abstractmethod
    def message(self) -> Message:
        """What the neighbours get."""

    @abstractmethod
    def check(self, message: Message) -> bool:
        """Whether a neighbour can have sent this."""

    @abstractmethod
    def absorb(self, heard: Message) -> None:
        """One exchange: the neighbours' messages, combined."""

    def n_totals(self, memory: Any) -> int:
        """How many sums are kept beside a memory."""
        return 0

    def resume(self, memory: Any, totals: Sequence[NDArray]) -> None:
        """Continue from a memory that was kept, and the sums that were kept beside it."""
        self.memory = memory


def run(machine: Any, exchange: Exchange, watch: Callable[[Any], None] = lambda _: None) -> None:
    """Run one site's program, or a phase of it; what carries the messages is the exchange's business."""
    while not machine.over:
        machine.absorb(exchange(machine.message()))
        watch(machine)


def run_together(machines: Sequence[Any], exchange: Exchange, watch: Callable[[Any], None] = lambda _: None) -> None:
    """The same for all sites in this process; the exchange takes the sites along the first axis."""
    while not machines[0].over:
        sent = [machine.message() for machine in machines]
        heard = exchange({channel: np.stack([message[channel] for message in sent]) for channel in sent[0]})
        for m, machine in enumerate(machines):
            machine.absorb({channel: values[m] for channel, values in heard.items()})
        watch(machines[0])
