"""Answering neighbours at once, whatever the site is computing: who I am, what I sent, whether I am done."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from gaussip import __version__
from gaussip.exchange import wire
from gaussip.node.inbox import MOST, Mailbox, Trouble
from gaussip.node.journal import Journal


class Service:
    """A thread that takes in what neighbours tell this site alone.

    Parameters
    ----------
    me : the site's index
    digest : of the description
    tell : gives bytes to one neighbour
    sent : told of an exchange's message that was sent again, and to whom
    remember : keeps the set of those who are done
    """

    def __init__(
        self,
        me: int,
        digest: str,
        limit: int,
        tell: Callable[[int, bytes], None],
        journal: Journal,
        mailbox: Mailbox,
        refused: Trouble,
        sent: Callable[[int, bytes, int], None],
        remember: Callable[[set[int]], None],
    ) -> None:
        self._me, self._digest, self._run, self._limit = me, digest, bytes.fromhex(digest[:16]), limit
        self._tell, self._journal, self._mailbox, self._refused = tell, journal, mailbox, refused
        self._sent, self._remember = sent, remember
        self._queue: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="gaussip-service", daemon=True)
        self.newest = 0  #: the last exchange whose message was sent
        self.finished = False
        self.hellos: dict[int, wire.Hello] = {}
        self.at: dict[int, int] = {}  #: how far neighbours said to be when asked for what they did not have yet
        self.gone: dict[int, int] = {}  #: what neighbours said to have no longer
        self.done: set[int] = set()  #: those who need nothing more
        self.news = threading.Event()  #: set when one of these changes
        self.trouble: BaseException | None = None  #: what ended the thread, if it ended

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

    def others(self) -> set[int]:
        """Neighbours who last said that they run another description."""
        return {q for q, hello in dict(self.hellos).items() if hello.description != self._digest}

    def say_hello(self, other: int, answer: bool = True) -> None:
        """Tell a neighbour what this site runs."""
        self._send(other, wire.Hello(self._run, self._me, self._digest, __version__, answer))

    def ask(self, other: int, number: int) -> None:
        """Ask a neighbour for its message of an exchange, and what followed."""
        self._send(other, wire.Ask(self._run, self._me, number))

    def say_done(self, other: int, answer: bool = True) -> None:
        """Tell a neighbour that this site needs nothing more."""
        self._send(other, wire.Done(self._run, self._me, answer))

    def _send(self, other: int, frame: wire.Frame) -> None:
        self._tell(other, wire.encode(frame))

    def _serve(self) -> None:
        try:
            while (item := self._queue.get()) is not None:
                self._take(*item)
        except BaseException as error:  # whatever it is, the main thread must end with it
            self.trouble = error
            self.news.set()

    def _take(self, sender: int, data: bytes) -> None:
        try:
            frame = wire.decode(data, self._run, self._limit)
            if frame.sender != sender:
                raise wire.WireError(f"it says that site number {frame.sender} sent it")
        except wire.WireError as error:
            self._refused(sender, str(error), None)
            return
        self._answer(sender, frame, data)

    def _answer(self, sender: int, frame: Any, data: bytes) -> None:
        if isinstance(frame, wire.Round):
            self._mailbox.deliver(sender, data)
            return
        if isinstance(frame, wire.Ask):
            self._replay(sender, frame.number)
            return
        if isinstance(frame, wire.Hello):
            self.hellos[sender] = frame
            if frame.answer:
                self.say_hello(sender, answer=False)
        elif isinstance(frame, wire.Done):
            if sender not in self.done:
                self.done.add(sender)
                self._remember(self.done)
            if frame.answer and self.finished:
                self.say_done(sender, answer=False)
        elif isinstance(frame, wire.NotYet):
            self.at[sender] = frame.number
        else:
            self.gone[sender] = frame.number
        self.news.set()

    def _replay(self, sender: int, number: int) -> None:
        """What was sent from that exchange on; that it is not there yet; or that it is there no longer."""
        newest = self.newest
        if number > newest:
            self._send(sender, wire.NotYet(self._run, self._me, newest))
            return
        for one in range(max(1, number), newest + 1):
            message = self._journal.message(one)
            if message is None:
                self._send(sender, wire.Gone(self._run, self._me, one))
                return
            self._tell(sender, message)
            self._sent(one, message, sender)
