"""What the threads of a site know of its state, and of each other's troubles: read and written under one lock."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from gaussip.phases.program import Progress


class Standing(NamedTuple):
    """How a site stands."""

    progress: Progress
    missing: frozenset[int] = frozenset()  #: the neighbours that the site waits for
    waiting_for: Mapping[str, str] = {}  #: the same by name, with the reason, once it has waited for a while
    paused: str = ""  #: why, where a message was rejected
    refused_call: str = ""  #: why the engine last refused a call
    linked: tuple[str, ...] = ()  #: authenticated names of those a link leads to
    finished: bool = False


class Board:
    """The standing of one site."""

    def __init__(self, progress: Progress) -> None:
        self._lock = threading.Lock()
        self._standing = Standing(progress)
        self._trouble: BaseException | None = None
        self.progress_wanted = threading.Event()  #: set by the thread that reports; the one that computes clears it

    def read(self) -> Standing:
        """How the site stands now."""
        with self._lock:
            return self._standing

    def update(self, **changes: Any) -> None:
        """Change some of it."""
        with self._lock:
            self._standing = self._standing._replace(**changes)

    def trouble(self, error: BaseException) -> None:
        """Something ended a thread: the main thread must end with it."""
        with self._lock:
            self._trouble = self._trouble or error

    def raise_trouble(self) -> None:
        """Raise in the main thread what ended another."""
        with self._lock:
            trouble = self._trouble
        if trouble is not None:
            raise trouble
