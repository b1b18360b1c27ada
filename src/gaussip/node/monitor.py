"""How a site stands, told once a second and aloud when something changes; and watching its links and certificate."""

from __future__ import annotations

import datetime as dt
import random
import threading
import time
from typing import TYPE_CHECKING, Any

from gaussip.errors import CertificateError, FederationError, PausedError
from gaussip.exchange.neighbourhood import Neighbours
from gaussip.federation import certificates
from gaussip.federation.folders import SiteFolder
from gaussip.phases.state import NAMES, PHASES

if TYPE_CHECKING:
    from gaussip.node.runner import SiteRun

SOON = 2.0  # seconds after which it is said aloud for whom a site waits
AGAIN = 60.0  # and again
SLOWEST_ASK = 2.0
SILENT = 10.0  # seconds for which a linked neighbour that was called by name may say nothing: the link is dead
SILENT_AT_MOST = 600.0
SHORT = dt.timedelta(days=3)  # before a certificate ends, it is said aloud


class Reporter:
    """A thread beside a site's run."""

    def __init__(self, run: SiteRun, folder: SiteFolder, names: tuple[str, ...], near: Neighbours) -> None:
        self._run, self._folder, self._names, self._near = run, folder, names, near
        d = folder.description
        self._expected = {d.common_name(names[q]): names[q] for q in near.all}
        self.linked: list[str] = []  #: authenticated names of those a link leads to
        self.paused = ""  #: why, where a message was refused
        self.refused_call = ""  #: why the engine last refused a call
        self.finished = False
        self._missing: set[int] = set()
        self._waited = 0.0
        self._told, self._told_at = frozenset[int](), 0.0
        self._asked, self._pace = 0.0, 0.2
        self._others: set[int] = set()
        self._since: dict[int, float] = {}  # when a link was first seen
        self._silent = SILENT
        self._trouble: BaseException | None = None
        self._ends = certificates.check(*self._files, *self._name_and_host)
        self._seen = self._half = self._stamp()
        self._warned: dt.datetime | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="gaussip-reporter", daemon=True)

    @property
    def _files(self) -> tuple[Any, Any, Any]:
        return self._folder.key, self._folder.certificate, self._folder.authorities

    def _stamp(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns for path in self._files if path.exists())

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def stop(self) -> None:
        """Report for the last time."""
        self._stop.set()
        self._thread.join()
        self._write_status(running=False)

    def raise_trouble(self) -> None:
        """Raise in the main thread what went wrong in this one."""
        for trouble in (self._trouble, self._run.service.trouble):
            if trouble is not None:
                raise trouble

    def may_ask(self) -> bool:
        """Whether it is time to ask missing neighbours again: often at first, then every two seconds."""
        if not self._missing:
            self._pace = 0.2
        if time.monotonic() - self._asked < self._pace:
            return False
        self._asked = time.monotonic()
        self._pace = min(1.5 * self._pace, SLOWEST_ASK)
        return True

    @property
    def waits(self) -> bool:
        """Whether it was said, or may be, that the site waits."""
        return bool(self._missing or self.paused)

    def waits_for(self, q: int) -> bool:
        """Whether the site waits for that neighbour."""
        return q in self._missing

    def waiting(self, missing: set[int], waited: float, patience: float | None) -> None:
        """Say aloud for whom the site waits, and give up where the operator has set a limit."""
        self._missing, self._waited = missing, waited
        if patience is not None and waited > patience:
            raise PausedError(
                f"waited {waited:.0f} s for {self._who(missing)}; nothing is lost: the same command goes "
                "on when they are back. To go on without a site for good, see gaussip site go-on --help"
            )
        if not missing:
            if self._told or self.paused:
                self._run.records.event("goes on")
            self._told, self.paused = frozenset(), ""
            return
        late = time.monotonic() - self._told_at > AGAIN
        if waited > SOON and (frozenset(missing) != self._told or late):
            self._told, self._told_at = frozenset(missing), time.monotonic()
            self._run.records.event(
                "waiting", sites=sorted(self._names[q] for q in missing), why=self._who(missing),
                seconds=round(waited), paused=self.paused or None,
            )  # fmt: skip

    def _who(self, missing: set[int]) -> str:
        by_reason: dict[str, list[str]] = {}
        for q in sorted(missing):
            by_reason.setdefault(self._why(q), []).append(self._names[q])
        return "; ".join(f"{', '.join(names)} ({why})" for why, names in by_reason.items())

    def _why(self, q: int) -> str:
        name = self._folder.description.common_name(self._names[q])
        if q in self._run.service.others():
            return "it has another description: compare federation.toml and amended.json"
        if name not in self.linked:
            hint = f"; a call was refused here: {self.refused_call}" if self.refused_call else ""
            return f"no link: it is down, cannot be reached, or one of us has a certificate the other refuses{hint}"
        if q in self._run.service.at:
            return f"linked, at exchange {self._run.service.at[q]}"
        return "linked, but it has not answered"

    def _watch(self) -> None:
        while True:
            try:
                self._look()
                self._write_status(running=True)
            except BaseException as error:  # whatever it is, the main thread must end with it
                self._trouble = error
                return
            if self._stop.wait(1.0):
                return

    def _look(self) -> None:
        """Links that came and went, strangers, and a renewed certificate."""
        now, before = self._run.links.linked(), self.linked
        self.linked = now
        for name in sorted(set(now) - set(before)):
            known = self._expected.get(name)
            if known is None:
                self._run.records.event(
                    "stranger", certificate=name, why="a valid certificate, but no neighbour: it hears nothing here"
                )
            else:
                self._run.records.event("linked", site=known, certificate=name)
        for name in sorted(set(before) - set(now)):
            self._run.records.event("unlinked", site=self._expected.get(name), certificate=name)
        self._revive(now)
        for q in self._run.service.others() - self._others:
            self._others.add(q)
            self._run.records.event("another description", site=self._names[q], why="it and this site cannot go on")
        stamp = self._stamp()
        if stamp != self._seen:
            self._take_up(stamp)
        left = self._ends - dt.datetime.now(dt.UTC)
        if left < SHORT and self._ends != self._warned:
            self._warned = self._ends
            self._run.records.event("certificate ends soon", at=f"{self._ends:%Y-%m-%d %H:%M} UTC")

    def _revive(self, linked: list[str]) -> None:
        """Open the links anew where one stands but carries nothing: the engine notices only those that broke.

        A neighbour that is alive answers a hello at once, whatever it does or waits for.
        """
        awaited = set(self._near.hearers) - self._run.service.done if self.finished else self._missing
        name, now = self._folder.description.common_name, time.monotonic()
        here = {q for q in self._near.all if name(self._names[q]) in linked}
        self._since = {q: self._since.get(q, now) for q in here}
        silence = {q: now - max(self._since[q], self._run.heard_at[q]) for q in awaited & here}
        if silence and all(self._run.heard_at[q] >= self._since[q] for q in silence):
            self._silent = SILENT
        for q in silence:
            self._run.service.say_hello(q)
        dead = sorted(q for q, seconds in silence.items() if seconds > self._silent)
        if dead:
            self._silent = min(random.uniform(1.5, 2.5) * self._silent, SILENT_AT_MOST)  # unlike the other's
            self._since = {}
            self._reopen()
            self._run.records.event(
                "links opened anew", sites=[self._names[q] for q in dead], why="linked, but silent"
            )

    def _reopen(self) -> None:
        try:
            self._run.links.reopen()
        except (FederationError, PausedError) as error:
            raise PausedError(str(error)) from error

    def _take_up(self, stamp: tuple[int, ...]) -> None:
        """Use a certificate that was renewed."""
        try:
            self._ends = certificates.check(*self._files, *self._name_and_host)
        except CertificateError as error:
            if stamp == self._half:  # not only half of the files are there
                self._seen = stamp
                self._run.records.event("certificate not taken up", why=str(error))
            self._half = stamp
            return
        self._seen = stamp
        self._reopen()
        self._run.records.event("certificate renewed", until=f"{self._ends:%Y-%m-%d %H:%M} UTC")

    @property
    def _name_and_host(self) -> tuple[str, str | None]:
        d, site = self._folder.description, self._folder.site
        return d.common_name(site), d.host(site)

    def _write_status(self, *, running: bool) -> None:
        run, program = self._run, self._run.program
        linked = {self._expected.get(name) for name in self.linked}
        waiting = self._missing if self._waited > SOON and not self.finished else set()
        state = "paused" if self.paused else "waiting" if waiting else "finished" if self.finished else "running"
        run.records.status(
            site=self._folder.site, federation=self._folder.description.name,
            run=self._folder.run.name, state=state if running or self.finished else "stopped",
            phase=NAMES[PHASES.index(program.phase)], exchange=program.exchanges,
            round=program.round, max_rounds=run.task.max_rounds,
            log_likelihood=program.log_likelihood, change=program.change, disagreement=program.disagreement,
            waiting_for={self._names[q]: self._why(q) for q in sorted(waiting)}, paused=self.paused or None,
            neighbours={self._names[q]: self._names[q] in linked for q in self._near.all},
            checkpoints=run.keeping.checkpoints(), certificate_ends=self._ends.isoformat(),
        )  # fmt: skip
