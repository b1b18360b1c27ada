"""Waiting for neighbours: log which and why, ask them again, and give up where the operator has set a limit."""

import time

from gaussip.errors import PausedError
from gaussip.federation.description import Description
from gaussip.node.board import Board
from gaussip.node.logs import Logs

SOON = 2.0  # seconds after which a wait is logged
AGAIN = 60.0  # and logged again
FIRST_ASK, SLOWEST_ASK = 0.2, 2.0  # seconds between two questions to a neighbour


class Waiting:
    """The waits of the main thread.

    Parameters
    ----------
    patience : seconds; None for no limit
    """

    def __init__(self, description: Description, patience: float | None, board: Board, logs: Logs) -> None:
        self._description, self._names, self._digest = description, description.names, description.digest()
        self.patience = patience
        self._board, self._logs = board, logs
        self._missing: frozenset[int] = frozenset()
        self._logged, self._logged_at = frozenset[int](), 0.0
        self._asked, self._pace = 0.0, FIRST_ASK

    def wait_for(self, missing: set[int], waited: float) -> None:
        """The site has waited so many seconds for these."""
        self._missing = frozenset(missing)
        if self.patience is not None and waited > self.patience:
            raise PausedError(
                f"waited {waited:.0f} s for {self._who()}; nothing is lost: the same command resumes the run when "
                "they are back. To go on without a site for good, see gaussip site go-on --help"
            )
        if not missing:
            self._over()
            return
        reasons = {self._names[q]: self._why(q) for q in sorted(missing)} if waited > SOON else {}
        self._board.update(missing=self._missing, waiting_for=reasons)
        late = time.monotonic() - self._logged_at > AGAIN
        if reasons and (self._missing != self._logged or late):
            self._logged, self._logged_at = self._missing, time.monotonic()
            self._logs.event(
                "waiting", sites=list(reasons), why=self._who(), seconds=round(waited),
                paused=self._board.read().paused or None,
            )  # fmt: skip

    def end(self) -> None:
        """Nobody is missing any more."""
        if self._missing or self._board.read().paused:
            self.wait_for(set(), 0.0)

    def _over(self) -> None:
        if self._logged or self._board.read().paused:
            self._logs.event("goes on")
        self._logged = frozenset()
        self._board.update(missing=frozenset(), waiting_for={}, paused="")

    def may_ask(self) -> bool:
        """Whether it is time to ask missing neighbours again: often at first, then every two seconds."""
        if not self._missing:
            self._pace = FIRST_ASK
        if time.monotonic() - self._asked < self._pace:
            return False
        self._asked = time.monotonic()
        self._pace = min(1.5 * self._pace, SLOWEST_ASK)
        return True

    def _who(self) -> str:
        by_reason: dict[str, list[str]] = {}
        for q in sorted(self._missing):
            by_reason.setdefault(self._why(q), []).append(self._names[q])
        return "; ".join(f"{', '.join(names)} ({why})" for why, names in by_reason.items())

    def _why(self, q: int) -> str:
        standing = self._board.read()
        if q in standing.with_another_description(self._digest):
            return "it has another description: compare federation.toml and amended.json"
        if self._description.common_name(self._names[q]) not in standing.linked:
            hint = f"; a call was refused here: {standing.refused_call}" if standing.refused_call else ""
            return f"no link: it is down, cannot be reached, or one of us has a certificate the other refuses{hint}"
        position = standing.positions.get(q)
        return "linked, but it has not answered" if position is None else f"linked, at exchange {position}"
