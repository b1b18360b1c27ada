"""What a phase of a site's run is: give out a message, take in what comes back, until it is over.

A phase does not know what carries its messages, or whether it was interrupted. Its memory is a tree of arrays and
numbers that can be kept after any exchange and put back. What all sites know at its end is its result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

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

    name: str  #: also of the files that keep its result
    doing: str  #: for people
    Result: type[Any]  #: a NamedTuple of arrays and numbers
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
        """What the phase ends with."""

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


class Machine(Protocol):
    """What a loop runs: a phase, or a whole program."""

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        ...

    def message(self) -> Message:
        """What the neighbours get."""
        ...

    def absorb(self, heard: Message) -> None:
        """One exchange."""
        ...


_Machine = TypeVar("_Machine", bound=Machine)


def run(machine: _Machine, exchange: Exchange, watch: Callable[[_Machine], None] = lambda _: None) -> None:
    """Run one site's machine to its end; what carries the messages is the exchange's business."""
    while not machine.over:
        machine.absorb(exchange(machine.message()))
        watch(machine)


def run_together(
    machines: Sequence[_Machine], exchange: Exchange, watch: Callable[[_Machine], None] = lambda _: None
) -> None:
    """Run all sites' machines in this process; the exchange takes the sites along the first axis."""
    while not machines[0].over:
        sent = [machine.message() for machine in machines]
        heard = exchange({channel: np.stack([message[channel] for message in sent]) for channel in sent[0]})
        for m, machine in enumerate(machines):
            machine.absorb({channel: values[m] for channel, values in heard.items()})
        watch(machines[0])
