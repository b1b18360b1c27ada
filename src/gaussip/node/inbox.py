"""What a site receives: each neighbour's message of each exchange, taken in once, whatever comes twice or wrong."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from gaussip.errors import GaussipError
from gaussip.exchange import Message, wire

MOST = 10_000  # messages that wait to be looked at
PAUSE = 0.2  # seconds without a message after which a site asks


class Rejected(Protocol):
    """Called with a message that is rejected: who sent it, why, and its exchange if that is known."""

    def __call__(self, sender: int, why: str, number: int | None) -> None:
        """Log it."""
        ...


class Inbox:
    """The messages of the neighbours that a site receives from.

    Parameters
    ----------
    run : the first bytes of the description's digest
    limit : bytes that no message exceeds
    window : by how many exchanges a message may be ahead, or behind and still be compared
    """

    def __init__(self, run: bytes, limit: int, window: int, rejected: Rejected) -> None:
        self._lock = threading.Lock()  # of the two that follow: engine threads deliver, the main thread takes
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._enough = 1  # messages worth waking up for
        self._awake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._run, self._limit, self._window = run, limit, window
        self._rejected = rejected
        self._frames: dict[int, dict[int, wire.Round]] = {}
        self._digests: dict[int, dict[int, str]] = {}
        self._bad: set[tuple[int, str]] = set()
        self._due = 1

    def deliver(self, sender: int, data: bytes) -> None:
        """Put a message in, from any thread; the site wakes up when as many are there as it waits for."""
        with self._lock:
            if len(self._waiting) < MOST:  # what is too much is dropped, and asked for again
                self._waiting.append((sender, data))
            enough = len(self._waiting) >= self._enough
        if enough:
            self._awake.put(None)

    def wait(
        self,
        number: int,
        due: Mapping[int, Message],
        fault: Callable[[int, Message], str],
        idle: Callable[[set[int], float], None],
    ) -> dict[int, Message]:
        """The messages of an exchange that are due.

        Parameters
        ----------
        due : by sender, a message with the channels and shapes that are due
        fault : what is wrong with a sender's message, empty if nothing is
        idle : called now and then with those who are missing and the seconds waited
        """
        self._due = number
        began = looked = time.monotonic()
        messages: dict[int, Message] = {}
        while True:
            here = self._frames.get(number, {})
            for sender in [q for q in here if q not in messages]:
                message = self._checked(sender, here[sender], due.get(sender), fault)
                if message is None:
                    del here[sender]
                    self._digests[number].pop(sender)
                else:
                    messages[sender] = message
            missing = due.keys() - messages.keys()
            if not missing:
                break
            while not self._awake.empty():  # of messages that were taken without waiting
                self._awake.get_nowait()
            with self._lock:
                self._enough = len(missing)
                empty = not self._waiting
            if empty:
                with suppress(queue.Empty):
                    self._awake.get(timeout=PAUSE)
            with self._lock:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), 100))]
            for sender, data in batch:
                self.take(sender, data)
            if time.monotonic() - looked > PAUSE:
                looked = time.monotonic()
                idle(set(missing), looked - began)
        self._frames.pop(number, None)
        for old in [n for n in self._digests if n < number - self._window]:
            del self._digests[old]
        return messages

    def take(self, sender: int, data: bytes) -> None:
        """Take in a message, once; reject what does not belong here."""
        try:
            frame = wire.decode(data, self._run, self._limit, sender)
            if not isinstance(frame, wire.Round):
                raise wire.WireError(f"it is a {type(frame).__name__}, which is not for all")
            if frame.number < 1:
                raise wire.WireError(f"it is of exchange {frame.number}, which cannot be")
            if frame.number > self._due + self._window:
                raise wire.WireError(f"it is of exchange {frame.number}, far ahead of {self._due}")
        except GaussipError as error:
            self.reject(sender, data, str(error), None)
            return
        number, digest = frame.number, wire.digest(data)
        known = self._digests.get(number, {}).get(sender)
        if known is not None and known != digest:
            self.reject(sender, data, f"it differs from what the site sent before in exchange {number}", number)
        if known is not None or number < self._due:
            return
        self._frames.setdefault(number, {})[sender] = frame
        self._digests.setdefault(number, {})[sender] = digest

    def _checked(
        self, sender: int, frame: wire.Round, due: Message | None, fault: Callable[[int, Message], str]
    ) -> Message | None:
        try:
            if due is None:
                raise wire.WireError(f"no message of this site is due in exchange {frame.number}")
            message = wire.message_of(frame.parts, due)
            if why := fault(sender, message):
                raise wire.WireError(why)
        except wire.WireError as error:
            self.reject(sender, wire.encode(frame), str(error), frame.number)
            return None
        return message

    def reject(self, sender: int, data: bytes, why: str, number: int | None) -> None:
        """Report a bad message, once: it may come again and again."""
        mark = (sender, wire.digest(data))
        if mark not in self._bad and len(self._bad) < 10_000:
            self._bad.add(mark)
            self._rejected(sender, why, number)
