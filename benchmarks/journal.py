"""The journal of a real site against SQLite: exchanges written per second, in one run and in turns.

    python benchmarks/journal.py [--folder DIR]     # DIR: on the disk to measure

A record is what a site writes before each exchange: 4 kB of memory and a message of 1 kB. Every 32nd is forced to
disk. The journal keeps records in files mapped into memory, which outlive a killed process. For that SQLite needs a
commit in each exchange; in WAL mode with synchronous=NORMAL a commit forces nothing to disk, and a checkpoint at
every 32nd exchange does. With synchronous=FULL, its default, every commit is forced to disk.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from gaussip.node.journal import Entry, Journal
from results import Table, report

EVERY, AHEAD, EXCHANGES, REPEATS = 32, 8, 3200, 5
LEAVES = [("<f8", [n], np.random.default_rng(n).bytes(8 * n)) for n in (3, 18, 108, 383)]  # 4 kB
MESSAGE = bytes(1024)


def journal(folder: Path) -> Callable[[int], object]:
    """A function that writes the exchange of a number."""
    kept = Journal(folder, ("fit",), EVERY, AHEAD)
    return lambda number: kept.write(Entry(number, "fit", MESSAGE, (1, 2), 0, LEAVES), len(MESSAGE))


def sqlite(synchronous: str, folder: Path) -> Callable[[int], object]:
    """The same in two tables, with the journal's slots: two records by turns, and as many messages."""
    base = sqlite3.connect(folder / "journal.db", isolation_level=None)
    base.execute("PRAGMA journal_mode=WAL")
    base.execute(f"PRAGMA synchronous={synchronous}")
    base.execute("PRAGMA wal_autocheckpoint=0")
    for name in ("state", "messages"):
        base.execute(f"CREATE TABLE {name} (slot INTEGER PRIMARY KEY, exchange INTEGER, data BLOB)")

    def write(number: int) -> None:
        record = msgspec.msgpack.encode((number, 1, LEAVES))
        base.execute("BEGIN")
        base.execute("REPLACE INTO messages VALUES (?, ?, ?)", (number % (EVERY + 2 + AHEAD), number, MESSAGE))
        base.execute("REPLACE INTO state VALUES (?, ?, ?)", (number % 2, number, record))
        base.execute("COMMIT")
        if number % EVERY == 0:
            base.execute("PRAGMA wal_checkpoint(RESTART)")

    return write


CONTENDERS: dict[str, Callable[[Path], Callable[[int], object]]] = {
    "journal": journal,
    "SQLite, synchronous=NORMAL": partial(sqlite, "NORMAL"),
    "SQLite, synchronous=FULL": partial(sqlite, "FULL"),
}


def microseconds(make: Callable[[Path], Callable[[int], object]], at: Path | None) -> tuple[float, float]:
    """Mean and median time of an exchange: with its share of what forces records to disk, and without."""
    times = []
    with tempfile.TemporaryDirectory(dir=at) as scratch:
        write = make(Path(scratch))
        for number in range(1, EVERY + EXCHANGES + 1):
            began = time.perf_counter()
            write(number)
            times.append(1e6 * (time.perf_counter() - began))
    times = times[EVERY:]  # the first ones warm up
    return statistics.mean(times), statistics.median(times)


def main() -> None:
    """Measure by turns, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to write; else the system's folder for temporary files")
    at = parser.parse_args().folder
    taken = [{name: microseconds(make, at) for name, make in CONTENDERS.items()} for _ in range(REPEATS)]
    rows = []
    for name in CONTENDERS:
        mean, median = (statistics.median(run[name][which] for run in taken) for which in (0, 1))
        ratios = [statistics.median(run[name][which] / run["journal"][which] for run in taken) for which in (0, 1)]
        rows.append([name, 1e6 / mean, mean, ratios[0], median, ratios[1]])
    about = (
        f"Exchanges of 4 kB of memory and a message of 1 kB; medians of {REPEATS} runs of {EXCHANGES:,} each. The "
        "mean contains the forcing to disk, the median does not (but for synchronous=FULL)."
    )
    columns = ["", "exchanges a second", "mean, us", "times the journal's", "median, us", "times the journal's"]
    report("journal", [Table("Journal and SQLite", about, columns, rows)])


if __name__ == "__main__":
    main()
