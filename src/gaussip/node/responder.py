"""Answering neighbours at once, whatever the site is computing: who it is, what it sent, whether it is done."""

import queue
import threading
from collections.abc import Callable

from gaussip import __version__
from gaussip.exchange import wire
from gaussip.node.board import Board
from gaussip.node.inbox import MOST, Inbox
from gaussip.node.journal import Journal


class Responder:
    """A thread that takes in what neighbours send to this site alone.

    Parameters
    ----------
    me : the site's index
    digest : of the description
    send : gives bytes to one neighbour
    resent : called with an exchange's message that was sent again, and to whom
    remember : keeps the set of those who are done
    """

    def __init__(
        self,
        me: int,
        digest: str,
        limit: int,
        send: Callable[[int, bytes], None],
        journal: Journal,
        inbox: Inbox,
        board: Board,
        resent: Callable[[int, bytes, int], None],
        remember: Callable[[set[int]], None],
    ) -> None:
        self._me, self._digest, self._run, self._limit = me, digest, bytes.fromhex(digest[:16]), limit
        self._send_bytes, self._journal, self._inbox, self._board = send, journal, inbox, board
        self._resent, self._remember = resent, remember
        self._queue: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="gaussip-responder", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what came so far, and end."""
        self._queue.put(None)
        self._thread.join()

    def receive(self, sender: int, data: bytes) -> None:
        """Called by the engine's threads; what is too much is dropped, and asked for again."""
        if self._queue.qsize() < MOST:
            self._queue.put((sender, data))

    def say_hello(self, other: int, answer: bool = True) -> None:
        """Send a neighbour what this site runs."""
        self._send(other, wire.Hello(self._run, self._me, self._digest, __version__, answer))

    def ask(self, other: int, number: int) -> None:
        """Ask a neighbour for its message of an exchange, and what followed."""
        self._send(other, wire.Ask(self._run, self._me, number))

    def say_done(self, other: int) -> None:
        """Send a neighbour that this site needs nothing more, and whether it knows the same of the neighbour."""
        self._send(other, wire.Done(self._run, self._me, other in self._board.read().done))

    def _send(self, other: int, frame: wire.Frame) -> None:
        self._send_bytes(other, wire.encode(frame))

    def _serve(self) -> None:
        try:
            while (item := self._queue.get()) is not None:
                self._take(*item)
        except BaseException as error:  # whatever it is, the main thread must end with it
            self._board.trouble(error)

    def _take(self, sender: int, data: bytes) -> None:
        try:
            frame = wire.decode(data, self._run, self._limit, sender)
        except wire.WireError as error:
            self._inbox.reject(sender, data, str(error), None)
            return
        if isinstance(frame, wire.Round):
            self._inbox.deliver(sender, data)
        elif isinstance(frame, wire.Ask):
            self._replay(sender, frame.number)
        elif isinstance(frame, wire.Done):
            standing = self._board.read()
            self._board.put("done", sender, standing.done.get(sender, False) or frame.knows)
            if sender not in standing.done:
                self._remember({*standing.done, sender})
            if standing.finished and not frame.knows:
                self.say_done(sender)
        elif isinstance(frame, wire.Hello):
            self._board.put("hellos", sender, frame)
            if frame.answer:
                self.say_hello(sender, answer=False)
        else:
            self._board.put("positions" if isinstance(frame, wire.NotYet) else "gone", sender, frame.number)

    def _replay(self, sender: int, number: int) -> None:
        """What was sent from that exchange on; that it is not there yet; or that it is there no longer."""
        newest = self._board.read().newest
        if number > newest:
            self._send(sender, wire.NotYet(self._run, self._me, newest))
            return
        for exchange in range(max(1, number), newest + 1):
            kept = self._journal.message(exchange)
            if kept is None:
                self._send(sender, wire.Gone(self._run, self._me, exchange))
                return
            message, to = kept
            if sender in to:
                self._send_bytes(sender, message)
                self._resent(exchange, message, sender)
