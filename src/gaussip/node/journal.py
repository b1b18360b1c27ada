"""What a site writes before it sends: a run killed at any instant, or cut off from power, then resumes exactly.

Before a message is first sent, it and the memory it was made from lie in files mapped into memory, which outlive the
process. Records are checked by a sum, so that one cut short is not taken for one; two are kept by turns, so that
there is always a whole one. Every so many exchanges everything is forced to disk, and the memory goes to two places
of its own, which are not touched until the next time: after a power failure the site resumes there, and the
neighbours, which keep as many messages and two more, send it again what it received since.

SQLite in WAL mode, with a commit in every exchange, would do the same. An exchange then takes 32 us in place of 5
(`python benchmarks/journal.py`), little beside a round of 3 ms. The files here stay because they never grow, a full
disk shows when a run begins, and what survives a power failure is known by construction and tested.
"""

import mmap
import os
import struct
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from gaussip.arrays.trees import leaves
from gaussip.errors import FileError
from gaussip.files import sync_folder, whole

_HEADER = struct.Struct("<IIq")  # sum, length, number
_ROOM = 64  # spare bytes: whole numbers in a record grow


class Ring:
    """Records of bounded size in the slots of a mapped file; number n lies in slot n modulo their count."""

    def __init__(self, path: Path, size: int, slots: int) -> None:
        self._room = -(-(size + _ROOM + _HEADER.size) // 64) * 64
        try:
            if not path.exists():
                _allocate(path, self._room * slots)
            with open(path, "r+b") as file:
                self._map = mmap.mmap(file.fileno(), 0)
        except OSError as error:
            raise FileError(f"cannot keep the journal {path}: {error.strerror or error}") from error
        self._slots = len(self._map) // self._room

    def write(self, number: int, data: bytes, slot: int | None = None) -> None:
        """Keep a record; an old one in its slot is gone."""
        place = (number % self._slots if slot is None else slot) * self._room
        if len(data) + _HEADER.size > self._room:
            raise FileError(f"a record of {len(data)} bytes does not fit into the journal")
        head = _HEADER.pack(zlib.crc32(data, number & 0xFFFFFFFF), len(data), number)
        begin = place + _HEADER.size
        self._map[begin : begin + len(data)] = data
        self._map[place:begin] = head

    def read(self, slot: int) -> tuple[int, bytes] | None:
        """The whole record in a slot, if there is one."""
        place = slot * self._room
        check, length, number = _HEADER.unpack_from(self._map, place)
        if not 0 < length <= self._room - _HEADER.size:
            return None
        data = self._map[place + _HEADER.size : place + _HEADER.size + length]
        return (number, data) if zlib.crc32(data, number & 0xFFFFFFFF) == check else None

    def at(self, number: int) -> bytes | None:
        """The record of that number, if it is still there."""
        record = self.read(number % self._slots)
        return record[1] if record is not None and record[0] == number else None

    def records(self) -> dict[int, bytes]:
        """All whole records."""
        return dict(record for slot in range(self._slots) if (record := self.read(slot)) is not None)

    def flush(self) -> None:
        """Force everything to disk."""
        self._map.flush()

    def close(self) -> None:
        """Let go of the file."""
        self._map.close()


def _allocate(path: Path, size: int) -> None:
    """A file of that size whose blocks are all there, whole or not at all: a full disk shows now, not later."""
    partial = path.with_name(f".{path.name}.part")
    try:
        with open(partial, "wb") as file:
            file.write(bytes(size))
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


class Entry(NamedTuple):
    """Where a site stands before an exchange."""

    exchange: int  #: the number of the exchange that is to come, counted from 1
    phase: str
    message: bytes  #: what it sends in it
    to: tuple[int, ...]  #: who gets that; nobody, where it only waits
    bytes_sent: int  #: so far, this message included
    memory: list[Any]  #: of the phase, packed; see `packed`


class _Sent(msgspec.Struct, array_like=True):
    to: list[int]
    message: bytes


class _Kept(msgspec.Struct, array_like=True):
    exchange: int
    phase: str
    bytes_sent: int
    memory: list[Any]


class Journal:
    """A site's journal in a folder.

    Parameters
    ----------
    phases : the names of all phases, in their order
    every : exchanges between two times that everything is forced to disk
    ahead : by how many exchanges a neighbour may be behind
    """

    RUNNING, SAFE = 2, 2  # slots of either kind

    def __init__(self, folder: Path, phases: Sequence[str], every: int, ahead: int) -> None:
        self._folder, self._every, self._slots = folder, every, every + 2 + ahead
        self._rings: dict[str, tuple[Ring, Ring]] = {}
        self._synced = 0
        self._forced: set[str] = set()  # phases with a record that survives a power failure
        self._lock = threading.Lock()  # a neighbour may ask for messages at any time
        for phase in phases:
            if self._path(phase, "state").exists() and self._path(phase, "messages").exists():
                state, _ = self._open(phase, 0, 0)
                if any(state.read(self.RUNNING + slot) for slot in range(self.SAFE)):
                    self._forced.add(phase)
        self.flush()  # a process killed before it could leaves records that are not on disk yet

    def _path(self, phase: str, what: str) -> Path:
        return self._folder / f"{phase}-{what}.ring"

    def _open(self, phase: str, size: int, longest: int) -> tuple[Ring, Ring]:
        """The records and messages of a phase, of at most these sizes; zero where the files are there."""
        if phase not in self._rings:
            note = self._folder / f"{phase}-size.json"
            if not size:
                size, longest = msgspec.json.decode(note.read_bytes(), type=tuple[int, int])
            else:
                with whole(note) as partial:
                    partial.write_bytes(msgspec.json.encode((size, longest)))
            self._rings[phase] = (
                Ring(self._path(phase, "state"), size, self.RUNNING + self.SAFE),
                Ring(self._path(phase, "messages"), longest, self._slots),
            )
        return self._rings[phase]

    def write(self, entry: Entry, longest: int, room: int = 0) -> bool:
        """Keep an entry before its message is sent; whether everything was forced to disk just now.

        Parameters
        ----------
        longest : bytes that no message of the phase exceeds
        room : bytes that an entry of the phase may grow to, where it does not keep its size
        """
        record = msgspec.msgpack.encode(_Kept(entry.exchange, entry.phase, entry.bytes_sent, entry.memory))
        sync = entry.exchange % self._every == 0
        with self._lock:
            new = entry.phase not in self._forced
            size = max(len(record) + 9 * len(entry.memory), room)
            state, messages = self._open(entry.phase, size, longest + 9 * len(entry.to) + _ROOM)
            messages.write(entry.exchange, msgspec.msgpack.encode(_Sent(list(entry.to), entry.message)))
            state.write(entry.exchange, record, entry.exchange % self.RUNNING)
            if sync or new:
                state.write(entry.exchange, record, self.RUNNING + self._synced % self.SAFE)
                self._synced += 1
                self._forced.add(entry.phase)
        if sync or new:
            self.flush()
        return sync or new

    def flush(self) -> None:
        """Force everything to disk."""
        try:
            for rings in self._rings.values():
                for ring in rings:
                    ring.flush()
        except OSError as error:
            raise FileError(f"cannot force the journal in {self._folder} to disk: {error.strerror}") from error

    def last(self) -> Entry | None:
        """The newest entry that is whole, with all messages since the last that was forced to disk.

        Without those, neighbours who lost power too could not get again what they need.
        """
        whole_ones: dict[int, bytes] = {}
        safe = 0
        for state, _ in self._rings.values():  # in the order of the phases
            whole_ones |= state.records()
            safe_ones = [(kept[0], slot) for slot in range(self.SAFE) if (kept := state.read(self.RUNNING + slot))]
            if safe_ones:
                safe, slot = max(safe_ones)
                self._synced = 1 + slot  # the newest safe record is not the next to be overwritten
        for number in sorted(whole_ones, reverse=True):
            if number < 1 or any(self.message(n) is None for n in range(max(safe, 1), number)):
                continue
            if (sent := self.message(number)) is not None:
                record = msgspec.msgpack.decode(whole_ones[number], type=_Kept)
                return Entry(record.exchange, record.phase, *sent, record.bytes_sent, record.memory)
        return None

    def message(self, exchange: int) -> tuple[bytes, tuple[int, ...]] | None:
        """What was sent in an exchange, and to whom, if it is still kept."""
        with self._lock:
            for _, messages in self._rings.values():
                if (record := messages.at(exchange)) is not None:
                    sent = msgspec.msgpack.decode(record, type=_Sent)
                    return sent.message, tuple(sent.to)
        return None

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            for rings in self._rings.values():
                for ring in rings:
                    ring.close()
            self._rings = {}


def packed(tree: Any) -> list[Any]:
    """The leaves of a tree as a record keeps them."""
    return [
        (leaf.dtype.str, leaf.shape, leaf.tobytes()) if isinstance(leaf, (np.ndarray, np.generic)) else leaf
        for leaf in leaves(tree)
    ]


def unpacked(memory: Sequence[Any]) -> list[Any]:
    """The leaves of which `packed` gives these."""
    return [
        np.frombuffer(leaf[2], dtype=leaf[0]).reshape(leaf[1]).copy() if isinstance(leaf, (list, tuple)) else leaf
        for leaf in memory
    ]
