"""Reporting a site's state once a second, and watching its links and its certificate."""

import datetime as dt
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from gaussip.errors import CertificateError, FederationError, PausedError
from gaussip.exchange.neighbourhood import Neighbours
from gaussip.federation import certificates
from gaussip.federation.folders import SiteFolder
from gaussip.node.board import Board
from gaussip.node.links import Links
from gaussip.node.logs import Logs
from gaussip.node.run_store import RunStore

SILENT = 10.0  # seconds for which a linked neighbour that was called by name may say nothing: the link is dead
SILENT_AT_MOST = 600.0
SHORT = dt.timedelta(days=3)  # before a certificate ends, it is logged


class Monitor:
    """A thread beside a site's run.

    Parameters
    ----------
    say_hello : sends a neighbour what this site runs; one that is alive answers at once
    """

    def __init__(
        self,
        folder: SiteFolder,
        near: Neighbours,
        links: Links,
        board: Board,
        logs: Logs,
        store: RunStore,
        certificate_ends: dt.datetime,
        say_hello: Callable[[int], None],
    ) -> None:
        self._folder, self._names, self._near = folder, folder.description.names, near
        self._links, self._board, self._logs, self._store = links, board, logs, store
        self._say_hello = say_hello
        self._expected = {folder.description.common_name(self._names[q]): self._names[q] for q in near.all}
        self._others: set[int] = set()
        self._since: dict[int, float] = {}  # when a link was first seen
        self._silent = SILENT
        self._ends = certificate_ends
        privacy = folder.description.task().privacy
        self._privacy = None if privacy is None else privacy.asked()
        self._seen = self._half = self._stamp()
        self._warned: dt.datetime | None = None
        self._stop = threading.Event()
        # no daemon, or engine threads of links that it opens again would be daemons too: nobody waits for them,
        # and one that comes back from the engine while the interpreter ends aborts the process
        self._thread = threading.Thread(target=self._watch, name="gaussip-monitor", daemon=False)

    def _stamp(self) -> tuple[int, ...]:
        paths = (self._folder.key, self._folder.certificate, self._folder.authorities)
        return tuple(path.stat().st_mtime_ns for path in paths if path.exists())

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def stop(self) -> None:
        """Report for the last time."""
        self._stop.set()
        self._thread.join()
        self._write_status(running=False)

    def _watch(self) -> None:
        while True:
            try:
                self._look()
                self._write_status(running=True)
            except BaseException as error:  # whatever it is, the main thread must end with it
                self._board.trouble(error)
                return
            self._board.progress_wanted.set()
            if self._stop.wait(1.0):
                return

    def _look(self) -> None:
        """Links that came and went, strangers, and a renewed certificate."""
        now, before = self._links.linked(), self._board.read().linked
        self._board.update(linked=tuple(now))
        for name in sorted(set(now) - set(before)):
            known = self._expected.get(name)
            if known is None:
                self._logs.event(
                    "stranger",
                    certificate=name,
                    why="a valid certificate, but not a neighbour's: it gets nothing",
                )
            else:
                self._logs.event("linked", site=known, certificate=name)
        for name in sorted(set(before) - set(now)):
            self._logs.event("unlinked", site=self._expected.get(name), certificate=name)
        self._revive(now)
        others = self._board.read().with_another_description(self._folder.description.digest())
        for q in others - self._others:
            self._others.add(q)
            self._logs.event("another description", site=self._names[q], why="it and this site cannot go on")
        stamp = self._stamp()
        if stamp != self._seen:
            self._take_up(stamp)
        left = self._ends - dt.datetime.now(dt.UTC)
        if left < SHORT and self._ends != self._warned:
            self._warned = self._ends
            self._logs.event("certificate ends soon", at=f"{self._ends:%Y-%m-%d %H:%M} UTC")

    def _revive(self, linked: list[str]) -> None:
        """Open the links again where one stands but carries nothing: the engine notices only those that broke."""
        standing, now = self._board.read(), time.monotonic()
        unaware = {q for q in self._near.all if not standing.done.get(q)}
        awaited = unaware if standing.finished else set(standing.missing)
        name = self._folder.description.common_name
        here = {q for q in self._near.all if name(self._names[q]) in linked}
        self._since = {q: self._since.get(q, now) for q in here}
        last = {q: standing.last_received.get(q, 0.0) for q in awaited & here}
        silence = {q: now - max(self._since[q], heard) for q, heard in last.items()}
        if silence and all(heard >= self._since[q] for q, heard in last.items()):
            self._silent = SILENT
        for q in silence:
            self._say_hello(q)
        dead = sorted(q for q, seconds in silence.items() if seconds > self._silent)
        if dead:
            self._silent = min(random.uniform(1.5, 2.5) * self._silent, SILENT_AT_MOST)  # unlike the other's
            self._since = {}
            self._reopen()
            self._logs.event("links reopened", sites=[self._names[q] for q in dead], why="linked, but silent")

    def _reopen(self) -> None:
        try:
            self._links.reopen()
        except (FederationError, PausedError) as error:
            raise PausedError(str(error)) from error

    def _take_up(self, stamp: tuple[int, ...]) -> None:
        """Use a certificate that was renewed."""
        try:
            self._ends = check_certificate(self._folder)
        except CertificateError as error:
            if stamp == self._half:  # not only half of the files are there
                self._seen = stamp
                self._logs.event("certificate not taken up", why=str(error))
            self._half = stamp
            return
        self._seen = stamp
        self._reopen()
        self._logs.event("certificate renewed", until=f"{self._ends:%Y-%m-%d %H:%M} UTC")

    def _write_status(self, *, running: bool) -> None:
        standing, d = self._board.read(), self._folder.description
        progress, finished = standing.progress, standing.finished
        linked = {self._expected.get(name) for name in standing.linked}
        waiting: dict[str, Any] = {} if finished else dict(standing.waiting_for)
        state = "paused" if standing.paused else "waiting" if waiting else "finished" if finished else "running"
        self._logs.status(
            site=self._folder.site, federation=d.name, run=self._folder.run.name,
            state=state if running or finished else "stopped", phase=progress.doing, plan=progress.plan or None,
            exchange=progress.exchanges,
            round=progress.round, max_rounds=d.max_rounds, log_likelihood=progress.log_likelihood,
            change=progress.change, disagreement=progress.disagreement, waiting_for=waiting,
            paused=standing.paused or None,
            neighbours={self._names[q]: self._names[q] in linked for q in self._near.all},
            checkpoints=self._store.checkpoints(), privacy=self._privacy, certificate_ends=self._ends.isoformat(),
        )  # fmt: skip


def check_certificate(folder: SiteFolder) -> dt.datetime:
    """When the certificate in a site's folder ends; refused where the neighbours would refuse it."""
    d, site = folder.description, folder.site
    files = (folder.key, folder.certificate, folder.authorities)
    return certificates.check(*files, d.common_name(site), d.host(site))
