"""A site's run from its folder and its rows to its model: resumed at any time, exactly."""

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
from gaussip.federation.identity import SiteIdentity
from gaussip.node.board import Board, Standing
from gaussip.node.durable import DurableExchange
from gaussip.node.history_log import HistoryLog
from gaussip.node.inbox import Inbox
from gaussip.node.journal import Entry, Journal, packed, unpacked
from gaussip.node.ledger import Ledger, attempt_of
from gaussip.node.links import Links
from gaussip.node.logs import Logs
from gaussip.node.monitor import Monitor, check_certificate
from gaussip.node.own_rows import report_own
from gaussip.node.record import Record
from gaussip.node.responder import Responder
from gaussip.node.results import put_aside
from gaussip.node.run_store import RunStore, digest_of
from gaussip.node.shutdown import end_of, finish, stay_for_others
from gaussip.node.stopped import status_of_run
from gaussip.node.sums_log import SumsLog
from gaussip.node.waiting import Waiting
from gaussip.phases.base import Resumed, run
from gaussip.phases.fit import Fitted
from gaussip.phases.private_fit import refuse_unbounded
from gaussip.phases.program import NAMES, Program, longest_message
from gaussip.phases.task import LocalData, refuse_few


class SiteRun:
    """One site's run; the caller holds the site's folder (`gaussip.node.lock`).

    Parameters
    ----------
    report : called with each event
    keep : called with what the run ended with, before the site stays for others
    watch : called after each exchange with the program
    """

    def __init__(
        self,
        folder: SiteFolder,
        local: LocalData,
        *,
        report: Callable[[dict[str, Any]], None],
        keep: Callable[[Fitted], None],
        watch: Callable[[Program], None] = lambda _: None,
        patience: float | None = None,
    ) -> None:
        self._folder, self._local, self._keep, self._watch = folder, local, keep, watch
        d, task = folder.description, folder.description.task()
        certificate_ends = check_certificate(folder)
        refuse_few(local, task)
        refuse_unbounded(task, local, task.sites.index(folder.site))
        self._task, self._names, self._digest = task, task.sites, d.digest()
        self._run = self._digest[:12]
        me = self._names.index(folder.site)
        self._near = Neighbours(task.W, me)
        self._store = RunStore(folder.run)
        rows = digest_of(local)
        self._store.refuse_other_rows(rows)
        self._store.make()
        self._sums = SumsLog(folder.run)
        Ledger(folder).refuse(task.privacy, folder.run.name, attempt_of(self._store.secret()))
        me_proved = SiteIdentity(
            bytes.fromhex(self._digest),
            folder.site,
            folder.key,
            folder.certificate,
            folder.authorities,
            d.common_name,
        )
        self._program = Program(task, me, local, self._resumed(), me_proved, self._store.secret(), self._sums)
        done = {self._names.index(name): False for name in self._store.done() if name in self._names}
        self._board = Board(Standing(self._program.progress(), done=done))
        self._logs, self._history = Logs(folder.path, report), HistoryLog(folder.run)
        self._record = Record(folder, local, rows, self._program, self._store, self._history, self._logs)
        identity, limit = bytes.fromhex(self._digest[:16]), longest_message(task)
        self._limit = limit
        ahead = 2 * task.network.longest_sum  # of another: up and down a tree, one may be in the sum after
        self._journal = Journal(folder.run, NAMES, d.fsync_every, ahead)
        self._inbox = inbox = Inbox(identity, limit, d.fsync_every + 2 + ahead, self._rejected)
        self._links = Links(
            folder, {self._names[q] for q in self._near.senders}, {self._names[q] for q in self._near.all}, limit,
            self._receive,
        )  # fmt: skip
        self._responder = Responder(
            me, self._digest, limit, lambda q, data: self._links.send(self._names[q], data), self._journal, inbox,
            self._board,
            resent=lambda number, data, to: self._audit(number, data, (to,), "again"),
            remember=lambda done: self._store.write_done(self._names[q] for q in done),
        )  # fmt: skip
        self._monitor = Monitor(
            folder, self._near, self._links, self._board, self._logs, self._store, certificate_ends,
            self._responder.say_hello,
        )  # fmt: skip
        self._waiting = Waiting(d, patience, self._board, self._logs)
        self._exchange = DurableExchange(
            identity, self._names, self._near, self._journal, self._links, inbox, self._responder,
            self._waiting, self._board, self._keep_before, self._program.fault, self._sent, self._synced,
            self._show_progress,
        )  # fmt: skip

    def _resumed(self) -> Resumed | None:
        """What the run starts from where operators agreed to continue a checkpoint of another."""
        before = self._folder.description.going_on_from
        run, _, round = before[-1].partition("@") if before else ("", "", "0")
        if int(round) == 0:
            return None
        earlier = RunStore(self._folder.path / "runs" / run)
        basis = earlier.result("basis") if self._folder.description.reduce is not None else None
        if basis is not None:
            self._store.write_result("basis", basis)
        return Resumed(earlier.checkpoint(int(round)), earlier.result("start").target, basis)

    def _receive(self, sender: str, data: bytes, alone: bool) -> None:
        """The engine's threads only enqueue."""
        index, data = self._names.index(sender), data[: self._limit + 1]  # a longer one is rejected
        self._board.put("last_received", index, time.monotonic())
        if alone:
            self._responder.receive(index, data)
        else:
            self._inbox.deliver(index, data)

    def _rejected(self, sender: int, why: str, number: int | None) -> None:
        """A message is not taken in, and everybody can see who sent it."""
        name = self._names[sender]
        if (number is not None and number >= self._board.read().newest) or sender in self._board.read().missing:
            self._board.update(paused=f"a message from {name} was refused: {why}")
        certificate = self._folder.description.common_name(name)
        self._logs.event("refused", site=name, certificate=certificate, exchange=number, why=why)

    def call_refused(self, why: str) -> None:
        """The engine refused a call: nobody's name is known, but why."""
        self._board.update(refused_call=why)
        self._logs.event("call refused", why=why)

    def __call__(self) -> Fitted:
        """Run to the end, from wherever the last run of this site stopped."""
        ended = self._store.end()
        try:
            first = self._restored() if ended is None else ended["exchanges"]
            self._logs.event("started", site=self._folder.site, run=self._run, version=__version__, exchange=first)
            if ended is not None and ended["acknowledged"]:
                end = end_of(self._store, ended)
                if status_of_run(self._folder) is None:
                    self._put_aside()
                self._keep(end)
                return end
            with ExitStack() as stack:
                stack.callback(self._links.close)
                self._links.open()
                for thread in (self._responder, self._monitor):
                    thread.start()
                    stack.callback(thread.stop)
                if ended is None:
                    ended = self._computed()
                if ended["failure"] is None:
                    self._keep(end_of(self._store, ended))
                stay_for_others(
                    ended, self._names, self._near, self._responder, self._board, self._logs,
                    self._store, self._waiting.patience,
                )  # fmt: skip
                return end_of(self._store, ended)
        except FileError as error:
            raise PausedError(f"{error} (nothing is lost: the same command resumes the run)") from error
        finally:
            self._journal.close()
            self._sums.close()
            self._history.close()
            self._logs.close()

    def _restored(self) -> int:
        """Put back what the journal kept; the exchange that is to come."""
        entry = self._journal.last()
        self._new = entry is None
        if entry is None:
            self._program.start()
            return 1
        self._program.resume(entry.phase, entry.exchange, unpacked(entry.memory), self._store.known_result)
        self._show_progress()
        self._exchange.resume(entry)
        for exchange in range(self._logs.last_audited(self._run) + 1, entry.exchange + 1):
            kept = self._journal.message(exchange)
            if kept is not None and kept[1]:  # the audit of what was sent just before a crash
                self._audit(exchange, *kept, "recovered")
        self._logs.write_audit()
        return entry.exchange

    def _put_aside(self) -> None:
        if (aside := put_aside(self._folder)) is not None:
            self._logs.event("kept the results of another run", at=str(aside))

    def _audit(self, exchange: int, data: bytes, to: tuple[int, ...], mark: str = "") -> None:
        names = [self._folder.description.common_name(self._names[q]) for q in to]
        self._logs.sent(self._run, exchange, len(data), wire.digest(data), names, mark)

    def _computed(self) -> dict[str, Any]:
        """Meet the neighbours, run the program, and keep its end."""
        try:
            if self._new:
                report_own(self._folder, self._task, self._local, self._logs)
            self._meet()
            if self._new:
                self._put_aside()
            self._exchange.send_again()
            self._record.begin()
            gc.collect()
            gc.freeze()  # what is there now stays: nobody need look at it again and again
            run(self._program, self._exchange, self._after)
        except GaussipError as error:
            self._board.update(paused=str(error))  # for `gaussip site status`
            raise
        finally:
            self._show_progress()
        self._record.end()
        return finish(self._program, self._store, self._journal, self._sums, self._logs)

    def _meet(self) -> None:
        """Wait for the neighbours, and see that they run the same thing.

        A site that resumes needs only those it receives from: others may be done with it, and gone.
        """
        began, others = time.monotonic(), self._near.all if self._new else self._near.senders
        while True:
            hellos = self._board.read().hellos
            absent = {q for q in others if q not in hellos}
            self._waiting.wait_for(absent, time.monotonic() - began)
            for q, hello in hellos.items():
                self._refuse_other_runs(q, hello)
            if not absent:
                break
            self._board.raise_trouble()
            for q in absent:
                self._responder.say_hello(q)
            self._board.wait(0.5)
        self._logs.event("met", sites=[self._names[q] for q in others])

    def _refuse_other_runs(self, q: int, hello: wire.Hello) -> None:
        if hello.description != self._digest:
            self._responder.say_hello(q)  # so that it learns the same
            raise DisagreementError(
                f"{self._names[q]} has another description ({hello.description[:12]}, here "
                f"{self._digest[:12]}): compare federation.toml, and amended.json if there is one, at both"
            )
        if hello.version.split(".")[:2] != __version__.split(".")[:2]:
            raise DisagreementError(
                f"{self._names[q]} runs gaussip {hello.version}, this site {__version__}: the first two "
                "numbers must be the same; install the same version at both"
            )

    def _keep_before(self, number: int, data: bytes, to: tuple[int, ...], bytes_sent: int) -> bool:
        """What the journal keeps before a message is sent; whether it forced everything to disk."""
        phase = self._program.phase
        entry = Entry(number, phase.name, data, to, bytes_sent, packed(phase.memory))
        return self._journal.write(entry, phase.longest, phase.room)

    def _sent(self, number: int, data: bytes, to: tuple[int, ...]) -> None:
        self._audit(number, data, to)

    def _synced(self) -> None:
        self._logs.write_audit()
        self._history.sync()

    def _after(self, program: Program) -> None:
        """Keep what an exchange led to before the next message follows from it."""
        self._record.after(self._exchange.bytes_sent)
        self._board.raise_trouble()
        if self._board.progress_wanted.is_set():
            self._show_progress()
        self._watch(program)

    def _show_progress(self) -> None:
        self._board.progress_wanted.clear()
        self._board.update(progress=self._program.progress())
