"""A site's run from its folder and its rows to its model: resumed at any time, exactly."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from gaussip import __version__
from gaussip.errors import DisagreementError, FileError, GaussipError, PausedError
from gaussip.exchange import wire
from gaussip.exchange.neighbourhood import Neighbours
from gaussip.federation.folders import SiteFolder
from gaussip.files import write_json
from gaussip.node.history_log import Past
from gaussip.node.inbox import Mailbox
from gaussip.node.journal import Entry, Journal, leaves_of
from gaussip.node.links import Links
from gaussip.node.logs import Records
from gaussip.node.model import INTERVALS_FILE, SELECTION_FILE, keep_intervals
from gaussip.node.monitor import Reporter
from gaussip.node.responder import Service
from gaussip.node.resuming import resume
from gaussip.node.run_store import Keeping, digest_of
from gaussip.node.shutdown import End, end_of, finish, stay_for_others
from gaussip.phases.program import Program
from gaussip.phases.state import FACTS, FIT, REDUCE, Begin
from gaussip.phases.task import Own, refuse_few
from gaussip.selection import Selection


class SiteRun:
    """One site's run; the caller holds the site's folder (`gaussip.node.lock`).

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
        self._folder, self._keep, self._watch, self.patience = folder, keep, watch, patience
        d = folder.description
        self.task = d.task()
        self.names = self.task.sites
        self._me = self.names.index(folder.site)
        self.near = Neighbours(self.task.W, self._me)
        self.reporter = Reporter(self, folder, self.names, self.near)  # looks at the certificate
        self._digest = d.digest()
        self._run = self._digest[:12]
        self._id = bytes.fromhex(self._digest[:16])
        refuse_few(own, self.task)
        self.keeping = Keeping(folder.run)
        self._rows = digest_of(own)
        self.keeping.refuse_other_rows(self._rows)
        self.keeping.make()
        self.program = Program(self.task, self._me, own, self._beginning(), self.keeping.secret())
        self.records, self._past = Records(folder.path, tell), Past(folder.run)
        window = d.fsync_every + 2 + self.task.diameter
        self.journal = Journal(folder.run, d.fsync_every, self.task.diameter, self.task.longest_message)
        limit = self.task.longest_message
        self._mailbox = Mailbox(self.near.heard, self._id, limit, window, self.refused)
        neighbours = {self.names[q] for q in self.near.all}
        self._hearers = [d.common_name(self.names[q]) for q in self.near.hearers]
        self.links = Links(folder, {self.names[q] for q in self.near.heard}, neighbours, limit, self._receive)
        self.service = Service(
            self._me, self._digest, limit, self._tell_one, self.journal, self._mailbox, self.refused,
            sent=lambda exchange, data, to: self._audit(exchange, data, [d.common_name(self.names[to])], "again"),
            remember=lambda done: self.keeping.write_done(self.names[q] for q in done),
        )  # fmt: skip
        self.heard_at = dict.fromkeys(self.near.all, 0.0)  #: when each neighbour was last heard, whatever it said
        self.service.done = {self.names.index(name) for name in self.keeping.done() if name in self.names}

    def _beginning(self) -> Begin | None:
        """What the run begins with where operators agreed to go on from a checkpoint of another."""
        before = self._folder.description.going_on_from
        run, _, round = before[-1].partition("@") if before else ("", "", "0")
        if int(round) == 0:
            return None
        kept = Keeping(self._folder.path / "runs" / run)
        basis = kept.basis()[0] if self._folder.description.reduce is not None else None
        if basis is not None:
            self.keeping.write_basis(basis, 0)
        return Begin(kept.checkpoint(int(round)), kept.agreed().target, basis)

    def _receive(self, sender: str, data: bytes, alone: bool) -> None:
        """The engine's threads only enqueue."""
        index = self.names.index(sender)
        self.heard_at[index] = time.monotonic()
        if alone:
            self.service.receive(index, data)
        else:
            self._mailbox.deliver(index, data)

    def _tell_one(self, other: int, data: bytes) -> None:
        self.links.tell(self.names[other], data)

    def refused(self, sender: int, why: str, number: int | None) -> None:
        """A message is not taken in, and everybody can see who sent it."""
        name = self.names[sender]
        reason = f"a message from {name} was refused: {why}"
        if (number or 0) > self.program.exchanges or self.reporter.waits_for(sender):
            self.reporter.paused = reason
        self.records.event(
            "refused", site=name, certificate=self._folder.description.common_name(name), exchange=number, why=why
        )

    def call_refused(self, why: str) -> None:
        """The engine refused a call: nobody's name is known, but why."""
        self.reporter.refused_call = why
        self.records.event("call refused", why=why)

    def __call__(self) -> End:
        """Run to the end, from wherever the last run of this site stopped."""
        ended = self.keeping.end()
        try:
            self.records.event(
                "started", site=self._folder.site, run=self._run, version=__version__,
                exchange=self._resume() if ended is None else ended["exchanges"],
            )  # fmt: skip
            if ended is not None and ended["acknowledged"]:
                end = end_of(self.keeping, ended)
                self._keep(end)
                return end
            with ExitStack() as stack:
                stack.callback(self.links.close)
                self.links.open()
                for thread in (self.service, self.reporter):
                    thread.start()
                    stack.callback(thread.stop)
                if ended is None:
                    try:
                        self._meet()
                        self._rounds()
                    except GaussipError as error:
                        self.reporter.paused = str(error)  # for `gaussip site status`
                        raise
                    if self.task.intervals != "none" and self.program.failure is None:
                        self.records.event(keep_intervals(self._folder, self.program))
                    ended = finish(self)
                if ended["failure"] is None:
                    self._keep(end_of(self.keeping, ended))
                stay_for_others(self, ended)
                return end_of(self.keeping, ended)
        except FileError as error:
            raise PausedError(f"{error} (nothing is lost: the same command goes on)") from error
        finally:
            self.journal.close()
            self._past.close()
            self.records.close()

    def _resume(self) -> int:
        """Put back what the journal kept; the exchange that is to come."""
        entry = self.journal.last()
        self._first: Entry | None = entry
        if entry is None:
            for name in (SELECTION_FILE, INTERVALS_FILE):  # of a run before
                (self._folder.path / name).unlink(missing_ok=True)
            return 1
        resume(self.program, entry, self.keeping)
        self.service.newest = entry.exchange
        for exchange in range(self.records.last_audited(self._run) + 1, entry.exchange + 1):
            kept = self.journal.message(exchange)
            if kept is not None:  # the audit of what was sent just before a crash
                self._audit(exchange, kept, self._hearers, "recovered")
        self.records.write_audit()
        return entry.exchange

    def _audit(self, exchange: int, data: bytes, to: list[str], mark: str = "") -> None:
        self.records.sent(self._run, exchange, len(data), wire.digest(data), to, mark)

    def _meet(self) -> None:
        """Wait for the neighbours, and see that they run the same thing.

        A site that goes on needs only those it hears: others may be done with it, and gone.
        """
        began, others = time.monotonic(), self.near.all if self._first is None else self.near.heard
        while True:
            absent = {q for q in others if q not in self.service.hellos}
            self.reporter.waiting(absent, time.monotonic() - began, self.patience)
            for q, hello in dict(self.service.hellos).items():
                if hello.description != self._digest:
                    self.service.say_hello(q)  # so that it learns the same
                    raise DisagreementError(
                        f"{self.names[q]} has another description ({hello.description[:12]}, here "
                        f"{self._digest[:12]}): compare federation.toml, and amended.json if there is one, at both"
                    )
                if hello.version.split(".")[:2] != __version__.split(".")[:2]:
                    raise DisagreementError(
                        f"{self.names[q]} runs gaussip {hello.version}, this site {__version__}: the first two "
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
        self.records.event("met", sites=[self.names[q] for q in others])

    def _rounds(self) -> None:
        program, journal = self.program, self.journal
        d = self._folder.description
        if self._first is not None:  # at least the last two messages go out again
            for exchange in (self._first.exchange - 1, self._first.exchange):
                if (kept := journal.message(exchange)) is not None:
                    self.links.tell_all(kept)
        self.keeping.keep_rows(self._rows)  # from now on they must stay the same
        gc.collect()
        gc.freeze()  # what is there now stays: nobody need look at it again and again
        while not program.over:
            number = program.exchanges + 1
            mine = program.message()
            if self._first is not None:
                self._first = None  # its message is kept and sent already
            else:
                data = wire.encode(wire.Round(self._id, self._me, number, wire.parts_of(mine)))
                entry = Entry(number, program.phase, data, leaves_of(program.memory))
                forced = journal.write(entry, program.room)
                self.service.newest = number
                self.links.tell_all(data)
                self._audit(number, data, self._hearers)
                if forced:
                    self.records.write_audit()
            heard = self._mailbox.wait(number, mine, program.check, self._idle)
            if self.reporter.waits:
                self.reporter.waiting(set(), 0.0, None)
            phase = program.phase
            program.absorb(mine, self.near.combine(mine, heard))
            self._past.add(program)
            if program.new_sum is not None:
                self.keeping.add_sum(phase, program.new_sum)
            if phase == REDUCE and program.phase == FACTS:
                assert program.basis is not None
                self.keeping.write_basis(program.basis, program.exchanges)
                self.records.event(
                    "agreed on a basis", exchange=program.exchanges, components=len(program.basis.variances),
                    digest=program.basis.digest()[:12],
                )  # fmt: skip
            if phase != FIT and program.phase == FIT:
                assert program.agreed is not None
                if program.selection is not None and self.task.at_least is not None:
                    self._tell_selection(program.selection)
                self.keeping.write_agreed(program.agreed)
                self.records.event("agreed on a start", exchange=program.exchanges)
            elif program.phase == FIT and program.round and program.round % d.checkpoint_every == 0:
                self.keeping.write_checkpoint(program.round, program.estimate())
            self.reporter.raise_trouble()
            self._watch(program)

    def _tell_selection(self, found: Selection) -> None:
        """The number of components that all sites chose."""
        margin = found.margin if len(found.lines) > 1 else None
        told = {"components": found.n_components, "criterion": found.criterion, "margin": margin}
        last = found.n_components == self.task.numbers[-1] and len(found.lines) > 1
        beware = "the last that was looked at: a larger at_most may be better" if last else None
        lines = [line._asdict() for line in found.lines]
        write_json(self._folder.path / SELECTION_FILE, {**told, "ended": found.ended, "lines": lines})
        self.records.event("agreed on a number of components", **told, beware=beware)

    def _idle(self, missing: set[int], waited: float) -> None:
        """Nothing came for a moment: ask, and say aloud for whom the site waits."""
        self.reporter.raise_trouble()
        number = self.program.exchanges + 1
        if self.reporter.may_ask():
            for q in missing:
                if self.service.gone.get(q) == number:
                    raise PausedError(
                        f"{self.names[q]} no longer has what it sent in exchange {number}: this site lost more than "
                        "can be told again. Agree with all to go back to a common checkpoint: gaussip site go-on"
                    )
                self.service.ask(q, number)
        self.reporter.waiting(missing, waited, self.patience)
