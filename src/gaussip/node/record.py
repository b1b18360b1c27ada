"""What a run keeps of what its program leads to: results, rounds, checkpoints, the ledger, and events about them."""

from collections.abc import Callable
from typing import Any

from gaussip.federation.folders import SiteFolder
from gaussip.node.history_log import HistoryLog
from gaussip.node.ledger import Ledger, attempt_of
from gaussip.node.logs import Logs
from gaussip.node.own_rows import report_facts
from gaussip.node.results import keep_intervals, keep_selection
from gaussip.node.run_store import RunStore
from gaussip.phases.fit import Fit
from gaussip.phases.fit_by_sums import FitBySums
from gaussip.phases.program import Program
from gaussip.phases.task import LocalData
from gaussip.privacy import Guarantee
from gaussip.starts.rare import about_left_out


class Record:
    """Of one run at one site; ``rows`` is the digest of its rows."""

    def __init__(
        self,
        folder: SiteFolder,
        local: LocalData,
        rows: str,
        program: Program,
        store: RunStore,
        history: HistoryLog,
        logs: Logs,
    ) -> None:
        self._folder, self._task, self._local, self._program = folder, program.task, local, program
        self._rows, self._store, self._history, self._logs, self._ledger = rows, store, history, logs, Ledger(folder)
        self._attempt = attempt_of(store.secret())
        self._checked = 0  # the round of the last checkpoint
        self._kept: dict[str, Any] = {}
        self._about: dict[str, Callable[[Any], None]] = {
            "keys": self._keys, "private": self._private, "groups": self._groups, "basis": self._basis,
            "facts": self._facts, "start": self._start,
        }  # fmt: skip

    def begin(self) -> None:
        """The neighbours are there: from now on the rows must stay the same."""
        self._keep_rows()
        if "keys" in self._program.results:
            self._charge()
        self._phase, self._kept = self._program.phase, dict(self._program.results)

    def after(self, bytes_sent: int) -> None:
        """Keep what an exchange led to, before the next message follows from it."""
        program, self._bytes_sent = self._program, bytes_sent
        fitting = isinstance(program.phase, Fit | FitBySums)
        was_fitting = isinstance(self._phase, Fit | FitBySums)
        if was_fitting and self._history.wants(program.round, program.over or not fitting):
            self._history.add(program.progress(), bytes_sent)
        for name, result in program.results.items():
            if self._kept.get(name) is not result:
                self._store.write_result(name, result)
                if name in self._about:
                    self._about[name](result)
                self._kept[name] = result
        every = self._folder.description.checkpoints_every
        if fitting and not program.over and program.round > self._checked and program.round % every == 0:
            self._checked = program.round
            self._store.write_checkpoint(program.round, program.estimate())
        self._phase = program.phase

    def end(self) -> None:
        """The program is over."""
        failure = self._program.failure
        if failure is not None and failure.spent is not None:
            self._settle(failure.spent)
        if self._task.intervals != "none" and failure is None:
            self._logs.event(keep_intervals(self._folder, self._program))
        self._history.sync()

    def _event(self, what: str, **details: Any) -> None:
        self._logs.event(what, exchange=self._program.exchanges, **details)

    def _keep_rows(self) -> None:
        mass = self._program.local.rows(self._task, self._task.n_components).mass
        self._store.keep_rows(self._rows, float(mass[0]))

    def _charge(self) -> None:
        """Enter a private run into the ledger, before its first sum."""
        if self._task.privacy is not None:
            self._ledger.charge(self._folder, self._task.privacy, self._attempt)

    def _settle(self, spent: Guarantee) -> None:
        self._ledger.settle(self._folder.run.name, self._attempt, spent)

    def _keys(self, keys: Any) -> None:
        self._charge()
        rows = zip(self._task.sites, keys.rows.tolist(), strict=True)
        known = {site: count for site, count in rows if count == count}
        self._event("exchanged keys", **({"rows": known} if known else {}))

    def _basis(self, basis: Any) -> None:
        self._event("agreed on a basis", components=len(basis.variances), digest=basis.digest()[:12])

    def _groups(self, groups: Any) -> None:
        if groups.few.any():
            self._keep_rows()
            own, all_rows = len(self._local.X) - len(self._program.local.X), float(groups.rows)
            self._logs.event("left rows out", own=own, why=about_left_out(all_rows, self._task.min_count))

    def _facts(self, facts: Any) -> None:
        report_facts(self._folder, self._local, facts, self._logs)

    def _private(self, private: Any) -> None:
        for number, change in enumerate(private.changes.tolist(), 1):
            seen = self._program.progress()._replace(round=number, passes=number, change=change)
            self._history.add(seen, self._bytes_sent)
        found = private.found(self._task)
        self._settle(found.guarantee)
        self._event("fitted with noise", guarantee=str(found.guarantee), beware=found.beware)

    def _start(self, start: Any) -> None:
        selection = self._program.selection
        if selection is not None and self._task.at_least is not None:
            chosen = keep_selection(self._folder, selection, self._task.numbers[-1])
            self._logs.event("agreed on a number of components", **chosen)
        self._event("agreed on a start")
