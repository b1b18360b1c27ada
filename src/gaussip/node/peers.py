"""What the neighbours sent this site alone, and how far it is itself: shared by the threads of a site."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from gaussip.exchange import wire


class Peers:
    """One lock for all of it; `wait` returns when something is new.

    Parameters
    ----------
    neighbours : indices of the sites
    digest : of the description
    done : those who need nothing more, from an earlier process of the run
    """

    def __init__(self, neighbours: Iterable[int], digest: str, done: Iterable[int]) -> None:
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._digest = digest
        self._last_heard = dict.fromkeys(neighbours, 0.0)
        self._hellos: dict[int, wire.Hello] = {}
        self._positions: dict[int, int] = {}
        self._gone: dict[int, int] = {}
        self._done = set(done)
        self._newest, self._finished = 0, False

    def wait(self, seconds: float) -> None:
        """Until something is new, or so many seconds have passed."""
        self._news.wait(seconds)
        self._news.clear()

    def heard(self, other: int) -> None:
        """A neighbour sent something, whatever it was."""
        with self._lock:
            self._last_heard[other] = time.monotonic()

    def last_heard(self, other: int) -> float:
        """When a neighbour last sent something."""
        with self._lock:
            return self._last_heard[other]

    def note(self, other: int, frame: wire.Hello | wire.NotYet | wire.Gone) -> None:
        """What a neighbour runs, how far it is, or which exchange it no longer has."""
        with self._lock:
            if isinstance(frame, wire.Hello):
                self._hellos[other] = frame
            elif isinstance(frame, wire.NotYet):
                self._positions[other] = frame.number
            else:
                self._gone[other] = frame.number
        self._news.set()

    def note_done(self, other: int) -> set[int] | None:
        """A neighbour needs nothing more: all of whom that is known, if it is new."""
        with self._lock:
            new = other not in self._done
            self._done.add(other)
            done = set(self._done)
        self._news.set()
        return done if new else None

    def hellos(self) -> dict[int, wire.Hello]:
        """What the neighbours said to run."""
        with self._lock:
            return dict(self._hellos)

    def with_another_description(self) -> set[int]:
        """Neighbours who last said that they run another description."""
        return {q for q, hello in self.hellos().items() if hello.description != self._digest}

    def position(self, other: int) -> int | None:
        """The last exchange of a neighbour that did not have yet what it was asked for."""
        with self._lock:
            return self._positions.get(other)

    def has_lost(self, other: int, number: int) -> bool:
        """Whether a neighbour no longer has its message of an exchange."""
        with self._lock:
            return self._gone.get(other) == number

    def done(self) -> set[int]:
        """Those who need nothing more."""
        with self._lock:
            return set(self._done)

    @property
    def newest(self) -> int:
        """The last exchange whose message this site sent."""
        with self._lock:
            return self._newest

    @newest.setter
    def newest(self, number: int) -> None:
        with self._lock:
            self._newest = number

    @property
    def finished(self) -> bool:
        """Whether this site has its result."""
        with self._lock:
            return self._finished

    def finish(self, exchanges: int) -> None:
        """This site has its result, after so many exchanges."""
        with self._lock:
            self._newest, self._finished = exchanges, True
