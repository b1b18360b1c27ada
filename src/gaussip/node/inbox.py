"""What a site hears: each neighbour's message of each exchange, taken in once, whatever comes twice or wrong."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from gaussip.errors import GaussipError
from gaussip.exchange import Message, wire

MOST = 10_000  # messages that wait to be looked at
PAUSE = 0.2  # seconds without a message after which a site asks


class Trouble(Protocol):
    """Told of a message that is refused: by whom it was sent, and why."""

    def __call__(self, sender: int, why: str, number: int | None) -> None:
        """Tell it."""
        ...


class Mailbox:
    """The messages of those whom a site hears.

    Parameters
    ----------
    heard : indices of the sites
    run : the first bytes of the description's digest
    limit : bytes that no message exceeds
    window : by how many exchanges a message may be ahead, or behind and still be compared
    """

    def __init__(self, heard: Iterable[int], run: bytes, limit: int, window: int, refused: Trouble) -> None:
        self._inbox: deque[tuple[int, bytes]] = deque()
        self._enough = 1  # messages worth waking up for
        self._awake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._heard, self._run, self._limit, self._window = frozenset(heard), run, limit, window
        self._refused = refused
        self._frames: dict[int, dict[int, wire.Round]] = {}
        self._digests: dict[int, dict[int, str]] = {}
        self._bad: set[tuple[int, str]] = set()
        self._due = 1

    def deliver(self, sender: int, data: bytes) -> None:
        """Put a message in, from any thread; the site wakes up when as many are there as it waits for."""
        if len(self._inbox) < MOST:  # what is too much is dropped, and asked for again
            self._inbox.append((sender, data))
        if len(self._inbox) >= self._enough:
            self._awake.put(None)

    def wait(
        self, number: int, like: Message, check: Callable[[Message], bool], idle: Callable[[set[int], float], None]
    ) -> dict[int, Message]:
        """Everybody's message of an exchange.

        Parameters
        ----------
        like : a message with the channels and shapes that are due
        check : the algorithm's
        idle : called now and then with those who are missing and the seconds waited
        """
        self._due = number
        began = looked = time.monotonic()
        found: dict[int, Message] = {}
        while True:
            here = self._frames.get(number, {})
            for sender in [one for one in here if one not in found]:
                message = self._checked(sender, here[sender], like, check)
                if message is None:
                    del here[sender]
                    self._digests[number].pop(sender)
                else:
                    found[sender] = message
            missing = self._heard - found.keys()
            if not missing:
                break
            self._enough = len(missing)
            while not self._awake.empty():  # of messages that were found without waiting
                self._awake.get_nowait()
            if not self._inbox:
                with suppress(queue.Empty):
                    self._awake.get(timeout=PAUSE)
            for _ in range(min(len(self._inbox), 100)):
                self.take(*self._inbox.popleft())
            if time.monotonic() - looked > PAUSE:
                looked = time.monotonic()
                idle(set(missing), looked - began)
        self._frames.pop(number)
        for old in [n for n in self._digests if n < number - self._window]:
            del self._digests[old]
        return found

    def take(self, sender: int, data: bytes) -> None:
        """Take in a message, once; refuse what does not belong here."""
        try:
            frame = wire.decode(data, self._run, self._limit)
            if not isinstance(frame, wire.Round):
                raise wire.WireError(f"it is a {type(frame).__name__}, which is not told to all")
            if frame.sender != sender:
                raise wire.WireError(f"it says that site number {frame.sender} sent it")
            if frame.number < 1:
                raise wire.WireError(f"it is of exchange {frame.number}, which cannot be")
            if frame.number > self._due + self._window:
                raise wire.WireError(f"it is of exchange {frame.number}, far ahead of {self._due}")
        except GaussipError as error:
            self._refuse(sender, data, str(error), None)
            return
        number, digest = frame.number, wire.digest(data)
        known = self._digests.get(number, {}).get(sender)
        if known is not None and known != digest:
            self._refuse(sender, data, f"it differs from what the site sent before in exchange {number}", number)
        if known is not None or number < self._due:
            return
        self._frames.setdefault(number, {})[sender] = frame
        self._digests.setdefault(number, {})[sender] = digest

    def _checked(
        self, sender: int, frame: wire.Round, like: Message, check: Callable[[Message], bool]
    ) -> Message | None:
        try:
            message = wire.message_of(frame.parts, like)
            if not check(message):
                raise wire.WireError("the algorithm cannot have sent such numbers")
        except wire.WireError as error:
            self._refuse(sender, wire.encode(frame), str(error), frame.number)
            return None
        return message

    def _refuse(self, sender: int, data: bytes, why: str, number: int | None) -> None:
        """Tell of a bad message, once: it may come again and again."""
        mark = (sender, wire.digest(data))
        if mark not in self._bad and len(self._bad) < 10_000:
            self._bad.add(mark)
            self._refused(sender, why, number)
