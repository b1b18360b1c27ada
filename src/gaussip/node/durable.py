"""The exchange of a real site: what it sends is first in its journal, and what it misses it asks for again."""

from collections.abc import Callable

from gaussip.errors import PausedError
from gaussip.exchange import Message, wire
from gaussip.exchange.neighbourhood import Neighbours
from gaussip.node.board import Board
from gaussip.node.inbox import Inbox
from gaussip.node.journal import Entry, Journal
from gaussip.node.links import Links
from gaussip.node.responder import Responder
from gaussip.node.waiting import Waiting


class DurableExchange:
    """Journal, then send, then wait for the neighbours' messages of the same number.

    Parameters
    ----------
    run : the first bytes of the description's digest
    names : of all sites
    entry : gives what is to be kept before an exchange: its number, and its message's bytes
    check : whether a neighbour can have sent a message
    sent : called after a message was sent, with its number, its bytes, and whether the journal was forced to disk
    idle : called now and then while neighbours are missing
    """

    def __init__(
        self,
        run: bytes,
        names: tuple[str, ...],
        near: Neighbours,
        journal: Journal,
        links: Links,
        inbox: Inbox,
        responder: Responder,
        waiting: Waiting,
        board: Board,
        entry: Callable[[int, bytes, int], tuple[Entry, int]],
        check: Callable[[Message], bool],
        sent: Callable[[int, bytes, bool], None],
        idle: Callable[[], None],
    ) -> None:
        self._run, self._names, self._near = run, names, near
        self._journal, self._links, self._inbox = journal, links, inbox
        self._responder, self._waiting, self._board = responder, waiting, board
        self._entry, self._check, self._sent, self._waits = entry, check, sent, idle
        self._number = 0
        self._kept: int | None = None  # an exchange whose message the journal has
        self.bytes_sent = 0

    def resume(self, last: Entry) -> None:
        """Continue with the exchange of the journal's last entry."""
        self._number, self._kept, self.bytes_sent = last.exchange - 1, last.exchange, last.bytes_sent
        self._board.update(newest=last.exchange)

    def send_again(self) -> None:
        """At least the last two messages go out again after a restart."""
        if self._kept is not None:
            for exchange in (self._kept - 1, self._kept):
                if (kept := self._journal.message(exchange)) is not None:
                    self._links.publish(kept)

    def __call__(self, message: Message) -> Message:
        """Send, receive, combine."""
        number = self._number + 1
        if number != self._kept:
            data = wire.encode(wire.Round(self._run, self._near.index, number, wire.parts_of(message)))
            self.bytes_sent += len(data) * len(self._near.hearers)
            forced = self._journal.write(*self._entry(number, data, self.bytes_sent))
            self._board.update(newest=number)
            self._links.publish(data)
            self._sent(number, data, forced)
        received = self._inbox.wait(number, message, self._check, self._idle)
        self._waiting.end()
        self._number = number
        return self._near.combine(message, received)

    def _idle(self, missing: set[int], waited: float) -> None:
        """Nothing came for a moment: ask, and report which neighbours the site waits for."""
        self._board.raise_trouble()
        self._waits()
        number = self._number + 1
        if self._waiting.may_ask():
            for q in missing:
                if self._board.read().gone.get(q) == number:
                    raise PausedError(
                        f"{self._names[q]} no longer has what it sent in exchange {number}: this site lost more than "
                        "can be sent again. Agree with all to go back to a common checkpoint: gaussip site go-on"
                    )
                self._responder.ask(q, number)
        self._waiting.wait_for(missing, waited)
