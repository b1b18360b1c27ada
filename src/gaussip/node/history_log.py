"""What a site keeps of its rounds, so that a later diagnosis can say why a fit failed.

All rounds up to 1000 are kept, then every tenth, every hundredth. After a crash some are run again, with the same
numbers; of these the last is read.
"""

import json
from pathlib import Path

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import FileError
from gaussip.node.logs import Lines
from gaussip.phases.program import Progress

FILE = "history.jsonl"
FIELDS = ("round", "passes", "log_likelihood", "change", "disagreement", "step", "restarts", "exchanges", "bytes")


class HistoryLog:
    """The rounds of a run in its folder."""

    def __init__(self, folder: Path) -> None:
        self._lines = Lines(folder / FILE)
        self._last = 0

    def wants(self, number: int, ended: bool) -> bool:
        """Whether a round that just ended is to be kept: one of those numbers, or the last."""
        return number != self._last and number > 0 and (ended or is_kept(number))

    def add(self, progress: Progress, bytes_sent: int) -> None:
        """Keep a round."""
        self._last = progress.round
        values = {name: getattr(progress, name) for name in FIELDS[:-1]}
        self._lines.write([{**values, "bytes": bytes_sent}])

    def sync(self) -> None:
        """Force what was kept to disk."""
        self._lines.sync()

    def close(self) -> None:
        """Close the file."""
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
        return {
            name: np.array([rounds[number].get(name, np.nan) for number in sorted(rounds)], float) for name in FIELDS
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} cannot be read: {error}") from error
