"""What the threads of a site know of it and of its neighbours: one record, read and replaced under a lock."""

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from gaussip.exchange import wire
from gaussip.phases.program import Progress


class Standing(NamedTuple):
    """How a site stands; neighbours by their indices."""

    progress: Progress
    newest: int = 0  #: the last exchange whose message this site sent
    finished: bool = False  #: whether this site has its result
    missing: frozenset[int] = frozenset()  #: the neighbours that the site waits for
    waiting_for: Mapping[str, str] = {}  #: the same by name, with the reason, once it has waited for a while
    paused: str = ""  #: why, where a message was rejected
    refused_call: str = ""  #: why the engine last refused a call
    linked: tuple[str, ...] = ()  #: authenticated names of those a link leads to
    last_received: Mapping[int, float] = {}  #: when a neighbour last sent something, whatever it was
    hellos: Mapping[int, wire.Hello] = {}  #: what the neighbours said to run
    positions: Mapping[int, int] = {}  #: the last exchange of those who did not have yet what they were asked for
    gone: Mapping[int, int] = {}  #: the exchange whose message a neighbour no longer has
    done: Mapping[int, bool] = {}  #: those who need nothing more, and whether they know that this site does not

    def with_another_description(self, digest: str) -> set[int]:
        """Neighbours who last said that they run another description."""
        return {q for q, hello in self.hellos.items() if hello.description != digest}


class Board:
    """The standing of one site, and what ended its threads."""

    def __init__(self, standing: Standing) -> None:
        self._lock = threading.Lock()
        self._standing = standing
        self._trouble: BaseException | None = None
        self._news = threading.Event()
        self.progress_wanted = threading.Event()  #: set by the thread that reports; the one that computes clears it

    def read(self) -> Standing:
        """How the site stands now."""
        with self._lock:
            return self._standing

    def update(self, **changes: Any) -> None:
        """Change some fields."""
        with self._lock:
            self._standing = self._standing._replace(**changes)

    def put(self, field: str, neighbour: int, value: Any) -> None:
        """Change what a field says of one neighbour; that it sent something is not news by itself."""
        with self._lock:
            known = getattr(self._standing, field)
            changed: Any = {field: {**known, neighbour: value}}
            self._standing = self._standing._replace(**changed)
        if field != "last_received" and known.get(neighbour) != value:
            self._news.set()

    def wait(self, seconds: float) -> None:
        """Until a neighbour's entry is new, or so many seconds have passed."""
        self._news.wait(seconds)
        self._news.clear()

    def trouble(self, error: BaseException) -> None:
        """Something ended a thread: the main thread must end with it."""
        with self._lock:
            self._trouble = self._trouble or error
        self._news.set()

    def raise_trouble(self) -> None:
        """Raise in the main thread what ended another."""
        with self._lock:
            trouble = self._trouble
        if trouble is not None:
            raise trouble
