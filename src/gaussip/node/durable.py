"""The exchange of a real site: what it sends is first in its journal, and what it misses it asks for again."""

from collections.abc import Callable, Mapping

from gaussip.errors import PausedError
from gaussip.exchange import Message, Outgoing, wire
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
    keep : keeps what is needed before an exchange, and says whether everything was forced to disk
    fault : what is wrong with a neighbour's message
    sent : called after an exchange's message was sent, with its number, its bytes and to whom
    synced : called after everything was forced to disk
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
        keep: Callable[[int, bytes, tuple[int, ...], int], bool],
        fault: Callable[[int, Message], str],
        sent: Callable[[int, bytes, tuple[int, ...]], None],
        synced: Callable[[], None],
        idle: Callable[[], None],
    ) -> None:
        self._run, self._names, self._near = run, names, near
        self._journal, self._links, self._inbox = journal, links, inbox
        self._responder, self._waiting, self._board = responder, waiting, board
        self._keep, self._fault, self._sent, self._synced, self._waits = keep, fault, sent, synced, idle
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
                    self._send(*kept)

    def __call__(self, outgoing: Outgoing) -> Mapping[int, Message]:
        """Keep, send, and wait for what is due."""
        number, to = self._number + 1, outgoing.to
        if number != self._kept:
            data = wire.encode(wire.Round(self._run, self._near.index, number, wire.parts_of(outgoing.message)))
            self.bytes_sent += len(data) * len(to)
            forced = self._keep(number, data, to, self.bytes_sent)
            self._board.update(newest=number)
            self._send(data, to)
            if to:
                self._sent(number, data, to)
            if forced:
                self._synced()
        received = self._inbox.wait(number, outgoing.due, self._fault, self._idle)
        self._waiting.end()
        self._number = number
        return received

    def _send(self, data: bytes, to: tuple[int, ...]) -> None:
        if to == tuple(self._near.receivers):
            self._links.publish(data)
        else:
            for q in to:
                self._links.send(self._names[q], data)

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
