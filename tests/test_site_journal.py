"""The journal: whole after any cut, complete after a power failure, and bit for bit what was written."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussip.arrays.trees import rebuilt
from gaussip.errors import FileError
from gaussip.node.journal import Entry, Journal, Ring, packed, unpacked
from gaussip.node.logs import Lines

PHASES = ("keys", "fit")
LONGEST = 100  # bytes of a message


class Inner(NamedTuple):
    values: np.ndarray
    count: int


class Outer(NamedTuple):
    inner: Inner
    flag: np.ndarray
    number: float


def tree(seed):
    rng = np.random.default_rng(seed)
    return Outer(Inner(rng.normal(size=(3, 4)), seed), np.asarray(seed % 2 == 0), math.pi * seed)


def entry(n, phase="fit"):
    return Entry(n, phase, b"message %d" % n, (1, n), 10 * n, packed(tree(n)))


def memory_of(kept):
    return rebuilt(unpacked(kept.memory), tree(0))


def test_what_is_written_comes_back_bit_for_bit(tmp_path):
    journal = Journal(tmp_path, PHASES, every=4, ahead=1)
    for n in range(1, 11):
        journal.write(entry(n, phase="keys" if n < 4 else "fit"), LONGEST)
    journal.close()
    again = Journal(tmp_path, PHASES, every=4, ahead=1)
    last = again.last()
    assert (last.exchange, last.phase, last.message, last.to, last.bytes_sent) == (
        10, "fit", b"message 10", (1, 10), 100
    )  # fmt: skip
    found, wanted = memory_of(last), tree(10)
    np.testing.assert_array_equal(found.inner.values, wanted.inner.values)
    assert (found.inner.count, found.flag, found.number) == (10, True, wanted.number)
    assert found.flag.shape == ()
    assert [again.message(n) is not None for n in (1, 3, 4, 10, 11)] == [True, True, True, True, False]
    with pytest.raises(ValueError, match="more leaves than the structure has"):
        rebuilt([*unpacked(last.memory), 1], tree(0))


def test_old_messages_make_room_and_two_more_than_forced_are_kept(tmp_path):
    journal = Journal(tmp_path, PHASES, every=8, ahead=3)
    for n in range(1, 101):
        journal.write(entry(n), LONGEST)
    kept = [n for n in range(1, 101) if journal.message(n) is not None]
    assert kept == list(range(100 - 8 - 2 - 3 + 1, 101))
    journal.close()


@settings(max_examples=200, deadline=None)
@given(cut=st.integers(0, 400), n=st.integers(2, 20))
def test_a_process_killed_in_the_midst_of_a_write(cut, n, tmp_path_factory):
    """Whatever part of a record was copied when it died, the one before is there, or the new one is whole."""
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder, PHASES, every=4, ahead=1)
    for one in range(1, n):
        journal.write(entry(one), LONGEST)

    class CutError(Exception):
        pass

    left = cut

    class Dying:
        """A map that stops for ever after so many bytes."""

        def __init__(self, inner):
            self.inner = inner

        def __setitem__(self, place, data):
            nonlocal left
            whole = min(left, len(data))
            self.inner[place.start : place.start + whole] = data[:whole]
            left -= whole
            if whole < len(data):
                raise CutError

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def __len__(self):
            return len(self.inner)

    for ring in journal._rings["fit"]:
        ring._map = Dying(ring._map)
    try:
        journal.write(entry(n), LONGEST)
        died = False
    except CutError:
        died = True
    for ring in journal._rings["fit"]:
        ring._map = ring._map.inner
    again = Journal(folder, PHASES, every=4, ahead=1)
    last = again.last()
    assert last.exchange in ((n - 1, n) if died else (n,))
    np.testing.assert_array_equal(memory_of(last).inner.values, tree(last.exchange).inner.values)
    assert again.message(last.exchange) == (b"message %d" % last.exchange, (1, last.exchange))


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(5, 40))
def test_a_power_failure(seed, n, tmp_path_factory):
    """Any part of what was not forced to disk may be there or not: the last that was is there, with its messages."""
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder, PHASES, every=4, ahead=1)
    on_disk = {}
    for one in range(1, n + 1):
        forced = journal.write(entry(one), LONGEST)
        if forced:
            on_disk = {path: path.read_bytes() for path in folder.glob("*.ring")}
            safe = one
    for path, before in on_disk.items():
        now = path.read_bytes()
        pieces = [(before if rng.random() < 0.5 else now)[place : place + 64] for place in range(0, len(now), 64)]
        path.write_bytes(b"".join(pieces))
    again = Journal(folder, PHASES, every=4, ahead=1)
    last = again.last()
    assert safe <= last.exchange <= n
    for one in range(safe, last.exchange + 1):
        assert again.message(one) == (b"message %d" % one, (1, one))
    np.testing.assert_array_equal(memory_of(last).inner.values, tree(last.exchange).inner.values)
    for one in range(last.exchange, last.exchange + 9):  # and it goes on from there
        again.write(entry(one), LONGEST)
    assert again.last().exchange == last.exchange + 8


def test_a_record_that_does_not_fit_and_a_folder_that_is_not_there(tmp_path):
    ring = Ring(tmp_path / "a.ring", 100, 2)
    with pytest.raises(FileError, match="does not fit"):
        ring.write(1, bytes(1000))
    ring.close()
    with pytest.raises(FileError, match="cannot keep the journal"):
        Ring(tmp_path / "none" / "a.ring", 100, 2)


def test_a_line_cut_short_is_removed(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": 3, "b')
    lines = Lines(path)
    assert lines.last() == {"a": 2}
    lines.write([{"a": 3}, {"a": 1, "again": True}])
    assert lines.last(without="again") == {"a": 3}
    lines.write([{"a": float("nan")}])
    lines.close()
    assert path.read_text() == '{"a": 1}\n{"a": 2}\n{"a": 3}\n{"a": 1, "again": true}\n{"a": null}\n'
