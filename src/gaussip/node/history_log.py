"""What a site keeps of its rounds, so that it can be told later why a fit failed: every round at first, then fewer.

A round is kept if its number has at most three digits that count: all up to 1000, then every tenth, every hundredth.
After a crash some are run again, with the same numbers; of these the last is read, but for what it does not know: a
site that goes on has no log-likelihood before its next pass over the rows.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import FileError
from gaussip.node.logs import Lines
from gaussip.phases.program import Program
from gaussip.phases.state import FIT, INTERVALS, Fitted

FILE = "history.jsonl"
FIELDS = ("round", "step", "log_likelihood", "change", "disagreement", "undone")


class Past:
    """The rounds of a run in its folder."""

    def __init__(self, folder: Path) -> None:
        self._lines = Lines(folder / FILE)
        self._last = 0

    def add(self, program: Program) -> None:
        """Keep the round that just ended, if it is one of those."""
        number, ended = program.round, program.over or program.phase == INTERVALS
        if program.phase < FIT or number == self._last or not (ended or is_kept(number)):
            return
        self._last = number
        state = program.memory.state if isinstance(program.memory, Fitted) else program.memory
        values = (
            number,
            getattr(state, "total", number),  # exact takes several rounds for a step
            program.log_likelihood,
            program.change,
            program.disagreement,
            int(getattr(state, "restarts", 0)),
        )
        self._lines.write([dict(zip(FIELDS, values, strict=True))])

    def close(self) -> None:
        """Let go of the file."""
        self._lines.close()


def is_kept(number: int) -> bool:
    """Whether a round is one of those that are kept."""
    return number % int(10 ** max(0, len(str(number - 1)) - 3)) == 0


def read(folder: Path) -> dict[str, NDArray]:
    """What was kept, by field, in the order of rounds; NaN where nothing was known."""
    path = folder / FILE
    try:
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        records = [json.loads(line) for line in lines if line.endswith("\n")]  # the last may just be written
        rounds: dict[int, dict[str, float]] = {}
        for record in records:
            known = {name: record[name] for name in FIELDS if record[name] is not None}
            rounds.setdefault(int(record["round"]), {}).update(known)
        found = {
            name: np.array([rounds[number].get(name, np.nan) for number in sorted(rounds)], float) for name in FIELDS
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} cannot be read: {error}") from error
    return found
