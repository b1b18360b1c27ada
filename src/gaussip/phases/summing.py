"""Sums at a real site, or a rank of an MPI job: a replicated computation, question by question.

Between real sites parts are hidden by masks, and each total is confirmed by all: with the next sum every site sends a
signed digest of all totals so far. A part is kept on disk before it is sent, and read back after a crash.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms.base import SUMS
from gaussip.arrays import NDArray
from gaussip.errors import DisagreementError, FederationError, GaussipError, TamperingError
from gaussip.exchange import Message, Outgoing
from gaussip.exchange.codes import Fixed
from gaussip.exchange.masks import Keys, Masks
from gaussip.exchange.plan import FLOOD_BYTES, RECEIPT, Flood
from gaussip.exchange.questions import CHECK, PIECE, Ask, Replicated, pieces
from gaussip.exchange.receipts import CHAIN, Receipts, chain_in, chained
from gaussip.exchange.sums import Contradiction, Sum
from gaussip.exchange.sums import Memory as Way
from gaussip.phases.base import Context, Phase
from gaussip.phases.keys import LOST, Announced
from gaussip.rows.held import Held

NO_PART = np.zeros(0, dtype=np.int64)


class Chain(NamedTuple):
    """What all totals so far amount to."""

    number: int  #: of sums
    digest: NDArray  #: (32,)

    def in_bytes(self) -> bytes:
        """The digest."""
        return self.digest.astype(np.uint8).tobytes()

    def after(self, what: bytes, sums: int = 0) -> Chain:
        """With more that all sites know."""
        return Chain(self.number + sums, np.frombuffer(chained(self.in_bytes(), what), np.uint8))


class Memory(NamedTuple):
    """Where the sums of a phase stand."""

    chain: Chain  #: before the present sum
    number: int  #: sums of this phase so far
    way: Way  #: the present one


def most_bytes(words: int, n_sites: int) -> int:
    """Bytes that no message, and no memory, of sums of so many words exceeds."""
    piece = min(words, PIECE) + CHECK
    flooded = min(piece, max(0, FLOOD_BYTES // (8 * n_sites) - RECEIPT))
    return 8 * (max(n_sites * flooded, piece) + RECEIPT * n_sites) + 1024


def chain_of(context: Context, results: dict[str, Any]) -> Chain:
    """The chain at the beginning of a phase."""
    if "chain" not in results:
        keys = results.get("keys")
        results["chain"] = Chain(0, np.zeros(CHAIN, np.uint8) if keys is None else keys.chain.astype(np.uint8))
    chain: Chain = results["chain"]
    return chain


class SumsPhase(Phase):
    """A phase of sums of which each depends on those before.

    Parameters
    ----------
    most_words : that a question takes
    """

    memory: Memory

    def __init__(self, context: Context, results: dict[str, Any], most_words: int) -> None:
        task, self._kept = context.task, context.kept
        self._names, self._index, self._n_sites = task.sites, context.index, len(task.sites)
        self._network, self._senders = task.network, context.near.senders
        self._masks: Masks | None = None
        self._receipts: Receipts | None = None
        self._genuine: set[tuple[int, int, bytes]] = set()
        if context.identity is not None:
            self._authenticate(Keys(context.secret), results["keys"], hide=task.hide)
        self.room = self.longest = most_bytes(most_words, self._n_sites)
        self._first = chain_of(context, results)
        empty = np.zeros((0, 0), dtype=np.int64)
        self.memory = Memory(self._first, 0, Way(empty, empty, 0))
        self._totals: list[NDArray] = []  # of the pieces of the present question
        self._words: NDArray | None = None  # the site's part of it

    def _authenticate(self, keys: Keys, announced: Announced, hide: bool) -> None:
        if announced.keys("agreement")[self._index] != keys.public[:32]:
            raise FederationError(LOST)
        self._receipts = Receipts(keys, announced.keys("signing"))
        if hide:
            self._masks = Masks(self._index, keys, announced.keys("agreement"), announced.chain.tobytes())

    def start(self) -> None:
        """Ask the first question."""
        self._open(self._first, 0)

    @abstractmethod
    def _ask(self) -> Ask:
        """The present question."""

    @abstractmethod
    def _held(self) -> Any:
        """The site's rows, as questions want them."""

    @abstractmethod
    def _take(self, total: NDArray) -> None:
        """Take in the answer to the present question."""

    @property
    @abstractmethod
    def _answered(self) -> bool:
        """Whether there is no further question."""

    @property
    def over(self) -> bool:
        """Whether there is no further question, or all sites have failed."""
        return self.failure is not None or self._answered

    @property
    def chain(self) -> Chain:
        """After the last sum."""
        return self.memory.chain

    @property
    def plan(self) -> str:
        """How the present sum travels."""
        return str(self._sum(self.memory.way).plan)  # of one that is not begun, as the smallest would

    def resume(self, memory: Memory) -> None:
        """Continue after so many sums, whose totals were kept."""
        for total in self._kept.totals(self.name, memory.number):
            self._taken(total)
        self.memory = memory

    def outgoing(self) -> Outgoing:
        """The parts, or the sum, on their way."""
        return self._sum(self.memory.way).outgoing(self.memory.way)

    def fault(self, sender: int, message: Message) -> str:
        """A part that its site did not sign, or a receipt that is not genuine."""
        if self._receipts is None:
            return ""
        way, number = self.memory.way, self.memory.chain.number + 1
        stage = self._sum(way).sends(sender, way)
        parts = message["sum"] if len(stage.parts) == len(stage.receipts) and self._flooded(way) else None
        for place, (origin, receipt) in enumerate(zip(stage.receipts, message["receipts"], strict=True)):
            part = NO_PART if parts is None else parts[place]
            known = (number, origin, part.tobytes() + receipt.tobytes())
            if known in self._genuine:
                continue
            if not self._receipts.genuine(number, origin, part, receipt):
                what = "receipt" if parts is None else "part"
                return f"the {what} that it passed on as that of {self._names[origin]} was not signed by it"
            self._genuine.add(known)
        return ""

    def absorb(self, received: Mapping[int, Message]) -> None:
        """One exchange; at the last of a sum the total is confirmed, and the next begins."""
        memory = self.memory
        this = self._sum(memory.way)
        way = this.absorbed(memory.way, received)
        if isinstance(way, Contradiction):
            first, second = (self._names[q] for q in way.senders)
            raise self._apart(f"one part of {self._names[way.origin]} came from {first}, and another from {second}")
        if not this.over(way):
            self.memory = memory._replace(way=way)
            return
        total = this.total(way)
        self._confirm(way, memory.chain, total)
        self._kept.keep_total(self.name, memory.number, total)
        self._genuine.clear()
        chain = memory.chain.after(self._ask().about + np.ascontiguousarray(total, "<i8").tobytes(), sums=1)
        try:
            self._taken(total)
        except DisagreementError:  # of this site with the others
            raise
        except GaussipError as error:  # the same at all sites
            self.failure = error
        self.memory = memory._replace(chain=chain, number=memory.number + 1, way=way)
        if not self.over:
            self._open(chain, memory.number + 1)

    def _open(self, chain: Chain, number: int) -> None:
        """Begin a sum: with the part that was kept, or made now and kept before it is sent."""
        part = self._kept.part(self.name, number)
        if part is None:
            if self._words is None:
                ask = self._ask()
                self._words = ask.code.encode(ask.part(self._held()), self._n_sites)[0]
            piece = list(pieces(len(self._words)))[len(self._totals)]
            part = np.append(self._words[piece], np.zeros(CHECK, dtype=np.int64))
            if self._masks is not None:
                part = part + self._masks.of(chain.number + 1, chain.in_bytes(), len(part))
            self._kept.keep_part(self.name, number, part)
        this = self._of_words(len(part))
        receipt = None
        if self._receipts is not None:
            signed = part if this.plan.kind == Flood.kind else NO_PART
            receipt = self._receipts.own(chain.number + 1, chain.in_bytes(), signed)
        self.memory = Memory(chain, number, this.begun(part, receipt))

    def _taken(self, total: NDArray) -> None:
        """Take in the total of a piece; a question is answered with its last, shorter one."""
        self._totals.append(total[:-CHECK])
        if len(total) - CHECK == PIECE:
            return
        answer, code = np.concatenate(self._totals), self._ask().code
        self._totals, self._words = [], None
        self._take(code.decode(answer))

    def _confirm(self, way: Way, chain: Chain, total: NDArray) -> None:
        """See that all sites had the same totals before, and that all masks cancelled."""
        for origin, receipt in enumerate(way.receipts):
            if receipt.any() and chain_in(receipt) != chain.in_bytes():
                me = self._names[self._index]
                raise self._apart(f"{self._names[origin]} was shown other totals than {me}, or computes otherwise")
        if total[-CHECK:].any():
            raise self._apart("the masks of a sum did not cancel: some site was shown other totals, or lost a secret")

    def _apart(self, what: str) -> TamperingError:
        return TamperingError(
            f"{what}: a site on the way, or that site itself, sends different things to different sites, or runs "
            "other software. Nothing more is sent; compare versions and the audits of the sites named, then start "
            "over at all sites"
        )

    def _sum(self, way: Way) -> Sum:
        return self._of_words(way.values.shape[1])

    def _of_words(self, words: int) -> Sum:
        return Sum(self._network, self._index, self._senders, words, receipts=self._receipts is not None)

    def _flooded(self, way: Way) -> bool:
        return self._sum(way).plan.kind == Flood.kind


class Computation(SumsPhase):
    """A phase that is a replicated computation."""

    def __init__(
        self, context: Context, results: dict[str, Any], computation: Replicated[Any], held: Any, most_words: int
    ) -> None:
        super().__init__(context, results, most_words)
        self._computation, self._rows = computation, held
        self._done: Any = None
        self._question: Ask | None = next(computation)

    def _ask(self) -> Ask:
        assert self._question is not None
        return self._question

    def _held(self) -> Any:
        return self._rows

    def _take(self, total: NDArray) -> None:
        try:
            self._question = self._computation.send(total)
        except StopIteration as end:
            self._question, self._done = None, end.value

    @property
    def _answered(self) -> bool:
        return self._question is None

    @property
    def result(self) -> Any:
        """What the computation returned."""
        return self._done


class Confirming(Computation):
    """A sum of nothing, with which all sites confirm the total before it: here the start, before gossip begins."""

    name = "confirming"
    doing = "confirming"

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> Confirming | None:
        """At real sites whose next phase does not sum."""
        if context.identity is None or context.task.algorithm.source == SUMS:
            return None
        return cls(context, results, _nothing(), held_by(context), 1)


class Closing(Confirming):
    """The last sum."""

    name = "closing"

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> Closing | None:
        """At real sites."""
        return None if context.identity is None else cls(context, results, _nothing(), held_by(context), 1)


class Confirmed(NamedTuple):
    """What a sum of nothing ends with."""

    by: int  #: how many sites


def _nothing() -> Replicated[Confirmed]:
    total = yield Ask(lambda held: np.ones((len(held.indices), 1)), Fixed(0))
    return Confirmed(int(total[0]))


def held_by(context: Context) -> Held:
    """The rows of one site."""
    return context.local.held(context.task, context.index)
