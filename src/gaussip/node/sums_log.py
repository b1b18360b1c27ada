"""What a run keeps of its sums: its own parts, before they are sent, and the totals.

A part is made once. After a crash it is read back, also where the state before it is made again: the same mask must
never hide two different parts. Totals are what a phase is resumed from.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import FileError
from gaussip.files import sync_folder

PART, TOTAL = 1, 2
_HEADER = struct.Struct("<IBIQ")  # sum of what follows, kind, number, bytes


class SumsLog:
    """One file for each phase, to which records are added."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, int] = {}
        self._known: dict[str, dict[tuple[int, int], tuple[int, int]]] = {}  # where the words of a record lie

    def part(self, phase: str, number: int) -> NDArray | None:
        """The part that this site sent of a sum; None where it has sent none."""
        return self._read(phase, PART, number)

    def keep_part(self, phase: str, number: int, words: NDArray) -> None:
        """Keep a part, and all before it, on disk."""
        self._add(phase, PART, number, words)
        try:
            os.fsync(self._files[phase])
        except OSError as error:
            raise self._unkept(phase, error) from error

    def keep_total(self, phase: str, number: int, words: NDArray) -> None:
        """Keep a total; it is on disk before the next part is sent."""
        self._add(phase, TOTAL, number, words)

    def totals(self, phase: str, number: int) -> Iterator[NDArray]:
        """The first so many totals of a phase, one after the other."""
        known = self._opened(phase)
        missing = next((n for n in range(number) if (TOTAL, n) not in known), None)
        if missing is not None:
            raise FileError(
                f"{self._path(phase)} does not hold sum {missing + 1} of the {number} that the journal counts: "
                "restore it, or agree with the other sites to start over (gaussip site go-on DIR --from 0, at every "
                "site)"
            )
        return (total for n in range(number) if (total := self._read(phase, TOTAL, n)) is not None)

    def remove(self) -> None:
        """Remove everything: the run is over."""
        self.close()
        for path in self._folder.glob("*-sums.log"):
            path.unlink()

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files.values():
            os.close(file)
        self._files, self._known = {}, {}

    def _path(self, phase: str) -> Path:
        return self._folder / f"{phase}-sums.log"

    def _read(self, phase: str, kind: int, number: int) -> NDArray | None:
        place = self._opened(phase).get((kind, number))
        if place is None:
            return None
        return np.frombuffer(os.pread(self._files[phase], place[1], place[0]), "<i8").astype(np.int64)

    def _add(self, phase: str, kind: int, number: int, words: NDArray) -> None:
        before = self._read(phase, kind, number)
        if before is not None:
            if not np.array_equal(before, words):
                raise FileError(
                    f"{self._path(phase)} holds other words for sum {number + 1} than this site now has: agree with "
                    "the other sites to start over (gaussip site go-on DIR --from 0, at every site)"
                )
            return
        data = np.ascontiguousarray(words, "<i8").tobytes()
        head = _HEADER.pack(0, kind, number, len(data))[4:]
        record = zlib.crc32(data, zlib.crc32(head)).to_bytes(4, "little") + head + data
        file = self._files[phase]
        try:
            end = os.lseek(file, 0, os.SEEK_END)
            while record:
                record = record[os.write(file, record) :]
        except OSError as error:
            raise self._unkept(phase, error) from error
        self._known[phase][kind, number] = (end + _HEADER.size, len(data))

    def _opened(self, phase: str) -> dict[tuple[int, int], tuple[int, int]]:
        """The records of a phase; what a crash cut short is removed."""
        if phase in self._known:
            return self._known[phase]
        try:
            file = os.open(self._path(phase), os.O_RDWR | os.O_CREAT, 0o640)
            sync_folder(self._folder)
        except OSError as error:
            raise self._unkept(phase, error) from error
        self._files[phase], known, place = file, {}, 0
        size = os.fstat(file).st_size
        while place + _HEADER.size <= size:
            head = os.pread(file, _HEADER.size, place)
            check, kind, number, length = _HEADER.unpack(head)
            data = os.pread(file, length, place + _HEADER.size) if place + _HEADER.size + length <= size else b""
            if len(data) < length or zlib.crc32(data, zlib.crc32(head[4:])) != check:
                break
            known[kind, number] = (place + _HEADER.size, length)
            place += _HEADER.size + length
        os.ftruncate(file, place)
        self._known[phase] = known
        return known

    def _unkept(self, phase: str, error: OSError) -> FileError:
        return FileError(f"cannot keep {self._path(phase)}: {error.strerror or error}")
