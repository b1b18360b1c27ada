"""What a phase of a site's run is: give out a message, take in what comes back, until it is over.

A phase does not know what carries its messages, or whether it was interrupted. Its memory is a tree of arrays and
numbers that can be kept after any exchange and put back. What all sites know at its end is its result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from gaussip.arrays import NDArray
from gaussip.errors import GaussipError
from gaussip.exchange import Exchange, Message, Outgoing
from gaussip.exchange.neighbourhood import Neighbours
from gaussip.mixture.theta import Theta
from gaussip.phases.task import LocalData, Task
from gaussip.rows.basis import Basis, reduced_names
from gaussip.rows.rare import Rare


class Resumed(NamedTuple):
    """What a run starts from that continues another's checkpoint."""

    start: Theta  #: the site's own
    target: NDArray  #: of shrinkage, the first run's
    basis: Basis | None  #: the first run's


class Identity(Protocol):
    """How a site proves who it is, and checks who others are."""

    run: bytes  #: a digest of what all sites agreed to run

    def announcement(self, public: bytes, rows: float) -> bytes:
        """The site's public keys and, if it may be known, its number of rows, signed."""
        ...

    def checked(self, site: str, announcement: bytes) -> tuple[bytes, float]:
        """The keys and rows that a site announced; raises CertificateError where it did not sign them."""
        ...


class Kept(Protocol):
    """What a run keeps of its sums, so that none of a site's parts is ever made twice."""

    def part(self, phase: str, number: int) -> NDArray | None:
        """The part that this site sent of a sum; None where it has sent none."""
        ...

    def keep_part(self, phase: str, number: int, words: NDArray) -> None:
        """Keep a part, before it is sent."""
        ...

    def keep_total(self, phase: str, number: int, words: NDArray) -> None:
        """Keep a total; it is on disk before the next part is sent."""
        ...

    def totals(self, phase: str, number: int) -> Iterable[NDArray]:
        """The first so many totals of a phase."""
        ...


class NothingKept:
    """A run that dies with its process."""

    def part(self, phase: str, number: int) -> None:
        """Parts are made again."""

    def keep_part(self, phase: str, number: int, words: NDArray) -> None:
        """Nothing is kept."""

    def keep_total(self, phase: str, number: int, words: NDArray) -> None:
        """Nothing is kept."""

    def totals(self, phase: str, number: int) -> list[NDArray]:
        """There are none."""
        return []


@dataclass(frozen=True)
class Context:
    """What a site has before any exchange."""

    task: Task
    index: int
    local: LocalData
    resumed: Resumed | None = None  #: of a run that continues another's checkpoint
    identity: Identity | None = None  #: of a real site; without, nothing is signed or hidden
    secret: bytes = b""  #: that no other site knows, the same whenever the run is resumed
    kept: Kept = field(default_factory=NothingKept)

    @property
    def near(self) -> Neighbours:
        """The site's neighbours."""
        return Neighbours(self.task.W, self.index)

    def without(self, rare: Rare) -> Context:
        """The same without rows that all sites leave out."""
        return replace(self, local=self.local.without(rare, self.task)) if rare.few.any() else self

    def reduced(self, basis: Basis) -> Context:
        """The same with the rows in a basis."""
        local, p = self.local._replace(X=basis.reduced(self.local.X)), len(basis.variances)
        return replace(self, local=local, task=self.task._replace(n_features=p, features=tuple(reduced_names(p))))


class Phase(ABC):
    """One phase at one site."""

    name: str  #: also of its result
    doing: str  #: for people
    memory: Any
    room: int = 0  #: bytes that the memory may grow to; zero where it keeps its size
    longest: int  #: bytes that no message of the phase exceeds
    failure: GaussipError | None = None  #: that ended the phase at all sites

    @classmethod
    @abstractmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> Phase | None:
        """The phase after those with these results; None where this run does without it."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether its result is known, or all sites have failed."""

    @property
    @abstractmethod
    def result(self) -> Any:
        """What the phase ends with: a NamedTuple of arrays and numbers."""

    @abstractmethod
    def outgoing(self) -> Outgoing:
        """The site's side of the next exchange."""

    @abstractmethod
    def fault(self, sender: int, message: Message) -> str:
        """What is wrong with a neighbour's message; empty if nothing is."""

    @abstractmethod
    def absorb(self, received: Mapping[int, Message]) -> None:
        """One exchange: the neighbours' messages."""

    def start(self) -> None:  # noqa: B027
        """Before the first exchange, unless the phase is resumed."""

    def resume(self, memory: Any) -> None:
        """Continue from a memory that was kept, instead."""
        self.memory = memory


def run(machine: Any, exchange: Exchange, watch: Callable[[Any], None] = lambda _: None) -> None:
    """Run one site's program, or a phase of it; what carries the messages is the exchange's business."""
    while not machine.over:
        machine.absorb(exchange(machine.outgoing()))
        watch(machine)
