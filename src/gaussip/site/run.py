"""A site's run from its folder and its rows to its model: resumed at any time, exactly."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from gaussip import __version__
from gaussip.errors import CollapseError, DisagreementError, FileError, PausedError
from gaussip.exchange import wire
from gaussip.exchange.neighbours import Neighbours
from gaussip.federation import certificates
from gaussip.federation.folders import SiteFolder
from gaussip.parameters import Theta
from gaussip.site.journal import Entry, Journal, leaves_of, tree_of
from gaussip.site.keeping import Keeping
from gaussip.site.links import Links
from gaussip.site.mailbox import Mailbox
from gaussip.site.program import FIT, Program
from gaussip.site.records import Records
from gaussip.site.reporter import SOON, Reporter
from gaussip.site.service import Service
from gaussip.site.task import Own, refuse_few

GRACE = 1.0  # seconds that a finished site stays to tell late neighbours that it is done
LINGER = 600.0  # seconds that it stays for neighbours who have not said that they are


class End(NamedTuple):
    """How a run ended at a site."""

    theta: Theta
    rounds: int
    converged: bool
    log_likelihood: float
    change: float
    disagreement: float
    exchanges: int


class SiteRun:
    """One site's run; the caller holds the site's folder (`gaussip.site.lock`).

    Parameters
    ----------
    tell : called with each event
    keep : called with what the run ended with, before the site stays for others
    watch : called after each round with the program
    """

    def __init__(
        self,
        folder: SiteFolder,
        own: Own,
        *,
        tell: Callable[[dict[str, Any]], None],
        keep: Callable[[End], None],
        watch: Callable[[Program], None] = lambda _: None,
        patience: float | None = None,
    ) -> None:
        self._folder, self._keep, self._watch, self._patience = folder, keep, watch, patience
        d = folder.description
        self.task = d.task()
        self._names = self.task.sites
        self._me = self._names.index(folder.site)
        self._near = Neighbours(self.task.W, self._me)
        self._digest = d.digest()
        self._run = self._digest[:12]
        self._id = bytes.fromhex(self._digest[:16])
        certificates.check(folder.key, folder.certificate, folder.authorities, d.common_name(folder.site))
        refuse_few(own, self.task)
        self.keeping = Keeping(folder.run)
        self.keeping.refuse_other_rows(own)
        self.program = Program(self.task, self._me, own, self._beginning())
        self.records = Records(folder.path, tell)
        window = d.fsync_every + 2 + self.task.diameter
        self._journal = Journal(folder.run, d.fsync_every, self.task.diameter)
        limit = self.task.longest_message
        self._mailbox = Mailbox(self._near.heard, self._id, limit, window, self.refused)
        neighbours = {self._names[q] for q in self._near.all}
        self.links = Links(folder, {self._names[q] for q in self._near.heard}, neighbours, limit, self._receive)
        self.service = Service(
            self._me, self._digest, limit, self._tell_one, self._journal, self._mailbox, self.refused
        )
        self.reporter = Reporter(self, folder, self._names, self._near)

    def _beginning(self) -> Theta | None:
        """The site's own start where operators agreed to go on from a checkpoint of another run."""
        before = self._folder.description.going_on_from
        run, _, round = before[-1].partition("@") if before else ("", "", "0")
        if int(round) == 0:
            return None
        return Keeping(self._folder.path / "runs" / run).checkpoint(int(round))

    def _receive(self, sender: str, data: bytes, alone: bool) -> None:
        """The engine's threads only enqueue."""
        index = self._names.index(sender)
        if alone:
            self.service.receive(index, data)
        else:
            self._mailbox.deliver(index, data)

    def _tell_one(self, other: int, data: bytes) -> None:
        self.links.tell(self._names[other], data)

    def refused(self, sender: int, why: str, number: int | None) -> None:
        """A message is not taken in, and everybody can see who sent it."""
        name = self._names[sender]
        reason = f"a message from {name} was refused: {why}"
        if number is not None and number > self.program.exchanges:
            self.reporter.paused = reason
        self.records.event(
            "refused", site=name, certificate=self._folder.description.common_name(name), exchange=number, why=why
        )

    def __call__(self) -> End:
        """Run to the end, from wherever the last run of this site stopped."""
        ended = self.keeping.end()
        try:
            self.records.event(
                "started", site=self._folder.site, run=self._run, version=__version__,
                exchange=self._resume() if ended is None else ended["exchanges"],
            )  # fmt: skip
            if ended is not None and ended["acknowledged"]:
                end = self._end(ended)
                self._keep(end)
                return end
            with ExitStack() as stack:
                stack.callback(self.links.close)
                self.links.open()
                for thread in (self.service, self.reporter):
                    thread.start()
                    stack.callback(thread.stop)
                if ended is None:
                    self._meet()
                    self._rounds()
                    ended = self._finish()
                if ended["failure"] is None:
                    self._keep(self._end(ended))
                self._linger(ended)
                return self._end(ended)
        except FileError as error:
            raise PausedError(f"{error} (nothing is lost: the same command goes on)") from error
        finally:
            self._journal.close()
            self.records.close()

    def _resume(self) -> int:
        """Put back what the journal kept; the exchange that is to come."""
        entry = self._journal.last()
        self._first: Entry | None = entry
        if entry is None:
            return 1
        program = self.program
        if entry.phase == FIT:
            program.begin_fit(self.keeping.agreed())
            program.memory = tree_of(entry.leaves, program.memory)
        else:
            program.memory = tree_of(entry.leaves, (program.memory[0],) * (1 + entry.phase))
            program.phase = entry.phase
        program.exchanges = entry.exchange - 1
        self.service.newest = entry.exchange
        for exchange in range(self.records.last_audited(self._run) + 1, entry.exchange + 1):
            kept = self._journal.message(exchange)
            if kept is not None:  # the audit of what was sent just before a crash
                self._audit(exchange, kept, recovered=True)
        self.records.write_audit()
        return entry.exchange

    def _audit(self, exchange: int, data: bytes, recovered: bool = False) -> None:
        self.records.sent(self._run, exchange, len(data), wire.digest(data), self.reporter.hearing, recovered)

    def _meet(self) -> None:
        """Wait for the neighbours, and see that they run the same thing.

        A site that goes on needs only those it hears: others may be done with it, and gone.
        """
        began, others = time.monotonic(), self._near.all if self._first is None else self._near.heard
        while True:
            absent = {q for q in others if q not in self.service.hellos}
            self.reporter.waiting(absent, time.monotonic() - began, self._patience)
            for q, hello in dict(self.service.hellos).items():
                if hello.description != self._digest:
                    self.service.say_hello(q)  # so that it learns the same
                    raise DisagreementError(
                        f"{self._names[q]} has another description ({hello.description[:12]}, here "
                        f"{self._digest[:12]}): compare federation.toml, and amended.json if there is one, at both"
                    )
                if hello.version.split(".")[:2] != __version__.split(".")[:2]:
                    raise DisagreementError(
                        f"{self._names[q]} runs gaussip {hello.version}, this site {__version__}: the first two "
                        "numbers must be the same; install the same version at both"
                    )
            if not absent:
                break
            self.reporter.raise_trouble()
            for q in absent:
                self.service.say_hello(q)
            self.service.news.wait(0.5)
            self.service.news.clear()
        self.reporter.waiting(set(), 0.0, None)
        self.records.event("met", sites=[self._names[q] for q in others])

    def _rounds(self) -> None:
        program, journal = self.program, self._journal
        d = self._folder.description
        if self._first is not None:  # at least the last two messages go out again
            for exchange in (self._first.exchange - 1, self._first.exchange):
                if (kept := journal.message(exchange)) is not None:
                    self.links.tell_all(kept)
        gc.collect()
        gc.freeze()  # what is there now stays: nobody need look at it again and again
        while not program.over:
            number = program.exchanges + 1
            mine = program.message()
            if self._first is not None:
                self._first = None  # its message is kept and sent already
            else:
                data = wire.encode(wire.Round(self._id, self._me, number, wire.parts_of(mine)))
                forced = journal.write(Entry(number, program.phase, data, leaves_of(program.memory)))
                self.service.newest = number
                self.links.tell_all(data)
                self._audit(number, data)
                if forced:
                    self.records.write_audit()
            heard = self._mailbox.wait(number, mine, program.check, self._idle)
            if self.reporter.waits:
                self.reporter.waiting(set(), 0.0, None)
            surveying = program.phase != FIT
            program.absorb(mine, self._near.combine(mine, heard))
            if surveying and program.phase == FIT:
                assert program.agreed is not None
                self.keeping.write_agreed(program.agreed)
                self.records.event("agreed on a start", exchange=program.exchanges)
            elif program.phase == FIT and program.round and program.round % d.checkpoint_every == 0:
                self.keeping.write_checkpoint(program.round, program.estimate())
            self.reporter.raise_trouble()
            self._watch(program)

    def _idle(self, missing: set[int], waited: float) -> None:
        """Nothing came for a moment: ask, and say aloud for whom the site waits."""
        self.reporter.raise_trouble()
        number = self.program.exchanges + 1
        if self.reporter.may_ask():
            for q in missing:
                if self.service.gone.get(q, 0) > number:
                    raise PausedError(
                        f"{self._names[q]} no longer has what it sent in exchange {number}: this site lost more than "
                        "can be told again. Agree with all to go back to a common checkpoint: gaussip site go-on"
                    )
                self.service.ask(q, number)
        self.reporter.waiting(missing, waited, self._patience)

    def _finish(self) -> dict[str, Any]:
        """Write the model, and that the run is over."""
        program = self.program
        end: dict[str, Any] = {
            "acknowledged": False, "rounds": program.round, "exchanges": program.exchanges,
            "converged": program.converged, "log_likelihood": program.log_likelihood, "change": program.change,
            "disagreement": program.disagreement, "failure": None,
        }  # fmt: skip
        if program.failure is not None:
            error = program.failure
            end["failure"] = {"site": error.site, "component": error.component, "cause": error.cause}
        else:
            self.keeping.write_checkpoint(program.round, program.estimate())
        self._journal.flush()
        self.records.write_audit()
        self.keeping.write_end(**end)
        self.records.event("finished", round=program.round, converged=program.converged, failure=end["failure"])
        return end

    def _linger(self, end: dict[str, Any]) -> None:
        """Stay until the neighbours have what they need of this site."""
        service = self.service
        service.finished, service.newest = True, end["exchanges"]
        self.reporter.finished = True
        began, told = time.monotonic(), False
        while not set(self._near.hearers) <= service.done:
            self.reporter.raise_trouble()
            if not told and time.monotonic() - began > SOON:
                told = True
                late = sorted(self._names[q] for q in set(self._near.hearers) - service.done)
                self.records.event("done, but stays", until_these_are_done=late)
            for q in self._near.all:
                service.say_done(q)
            service.news.wait(1.0)
            service.news.clear()
            waited = time.monotonic() - began
            if waited > (self._patience or LINGER):
                late = sorted(self._names[q] for q in set(self._near.hearers) - service.done)
                self.records.event("left", without_word_of=late)
                return
        for q in self._near.all:
            service.say_done(q, answer=False)
        self.keeping.write_end(**{**end, "acknowledged": True})
        time.sleep(GRACE)

    def _end(self, end: dict[str, Any]) -> End:
        if end["failure"] is not None:
            failure = end["failure"]
            raise CollapseError(
                failure["site"], failure["component"], end["rounds"], failure["cause"],
                "All sites stopped; try fewer components, another start or a larger reg_covar",
            )  # fmt: skip
        return End(self.keeping.checkpoint(end["rounds"]), *(end[name] for name in End._fields[1:]))
