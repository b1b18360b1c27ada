"""What a site leaves for people and programs: events, an audit of what was sent, and its current state."""

import datetime as dt
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from gaussip.errors import FileError
from gaussip.files import json_ready


def written(seconds: float) -> str:
    """A time as it is written everywhere."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Lines:
    """A file of JSON lines that only grows; a line cut short by a crash is removed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o640)
            self._remove_cut_line()
        except OSError as error:
            raise FileError(f"cannot write {path}: {error.strerror}") from error

    def _remove_cut_line(self) -> None:
        size = end = os.fstat(self._file).st_size
        while end and os.pread(self._file, 1, end - 1) != b"\n":
            end -= 1
        if end < size:
            os.ftruncate(self._file, end)

    def write(self, records: Iterable[dict[str, Any]]) -> None:
        """Append records, one line each."""
        data = b"".join(json.dumps(json_ready(record)).encode() + b"\n" for record in records)
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise FileError(
                f"cannot write {self.path}: {error.strerror}; make room, then run the same command to resume"
            ) from error

    def sync(self) -> None:
        """Force everything to disk."""
        os.fsync(self._file)

    def last(self, without: str = "") -> dict[str, Any]:
        """The last record that does not have a key, empty if there is none among the last lines."""
        size = os.fstat(self._file).st_size
        first = max(0, size - 65536)
        tail = os.pread(self._file, size - first, first).splitlines()[first > 0 :]  # the first may be cut
        records: Iterator[dict[str, Any]] = map(json.loads, reversed(tail))
        return next((record for record in records if without not in record), {})

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


class Logs:
    """A site's events, audit and status in its folder.

    Parameters
    ----------
    report : called with each event, for a person who looks on
    """

    def __init__(self, folder: Path, report: Callable[[dict[str, Any]], None]) -> None:
        self._folder, self._report = folder, report
        self._events, self._audit = Lines(folder / "events.jsonl"), Lines(folder / "audit.jsonl")
        self._unwritten: list[tuple[float, str, int, int, str, list[str] | None, str]] = []
        self._lock = threading.Lock()
        self._closed = False

    def event(self, what: str, **details: Any) -> None:
        """Something happened."""
        record = {"time": written(time.time()), "event": what, **details}
        with self._lock:
            if self._closed:  # the engine's threads may be late
                return
            self._events.write([record])
        self._report(record)

    def sent(self, run: str, exchange: int, size: int, digest: str, to: list[str] | None, mark: str = "") -> None:
        """A message went out; written with the next `write_audit`. A mark: ``again``, or ``recovered``."""
        with self._lock:
            self._unwritten.append((time.time(), run, exchange, size, digest, to, mark))

    def write_audit(self) -> None:
        """Append what was sent since the last time."""
        with self._lock:  # the thread that answers neighbours adds to it too
            unwritten, self._unwritten = self._unwritten, []
        self._audit.write(
            {"time": written(at), "run": run, "exchange": exchange, "bytes": size, "sha256": digest, "to": to,
             **({mark: True} if mark else {})}
            for at, run, exchange, size, digest, to, mark in unwritten
        )  # fmt: skip

    def last_audited(self, run: str) -> int:
        """The last exchange whose own line is in the audit, zero if that is of another run."""
        last = self._audit.last(without="again")
        return int(last["exchange"]) if last.get("run") == run else 0

    def status(self, **details: Any) -> None:
        """The site's current state, whole or not at all."""
        target = self._folder / "status.json"
        partial = target.with_name(f".status.{os.getpid()}.part")
        try:
            partial.write_text(
                json.dumps(json_ready({**details, "updated": written(time.time()), "pid": os.getpid()}), indent=2)
                + "\n"
            )
            os.replace(partial, target)
        except OSError as error:
            raise FileError(f"cannot write {target}: {error.strerror}") from error

    def close(self) -> None:
        """Write what is left, and let go of the files."""
        with self._lock:
            self._closed = True
        self.write_audit()
        self._events.close()
        self._audit.close()


def read_status(folder: Path) -> dict[str, Any] | None:
    """The state that a site last reported."""
    try:
        status: dict[str, Any] = json.loads((folder / "status.json").read_text())
        if not isinstance(status, dict) or "state" not in status:
            raise ValueError("it is not a site's status")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read {folder / 'status.json'}: {error}") from error
    return status
