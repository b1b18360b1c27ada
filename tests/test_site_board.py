"""What the threads of a site share, what its log of rounds keeps, and what its store must hold."""

from __future__ import annotations

import time

import pytest

from gaussip.errors import ModelFileError
from gaussip.exchange import wire
from gaussip.node.board import Board, Standing
from gaussip.node.journal import Entry, Journal
from gaussip.node.run_store import RunStore
from gaussip.phases.program import Progress

PROGRESS = Progress("surveying", 0, 0, 0, float("nan"), float("inf"), float("nan"), float("nan"), 0)


def test_only_news_ends_a_wait():
    """Otherwise two finished sites would answer each other as fast as they can."""
    board = Board(Standing(PROGRESS))

    def waited():
        began = time.monotonic()
        board.wait(0.2)
        return time.monotonic() - began >= 0.19

    hello = wire.Hello(b"12345678", 1, "digest", "0.1.0", True)
    board.put("hellos", 1, hello)
    assert not waited()
    board.put("hellos", 1, hello)
    board.put("last_heard", 1, 5.0)
    assert waited()
    board.put("done", 1, True)
    assert not waited()
    board.trouble(ValueError("broken"))
    assert not waited()
    with pytest.raises(ValueError, match="broken"):
        board.raise_trouble()
    assert board.read().with_another_description("other") == {1}
    assert board.read().last_heard == {1: 5.0}


def test_a_result_that_is_missing_is_named(tmp_path):
    store = RunStore(tmp_path)
    assert store.known_result("start") is None
    with pytest.raises(ModelFileError, match=r"there is no file .*start\.npz"):
        store.result("start")


def test_a_phase_whose_beginning_was_not_forced_is_forced_the_next_time(tmp_path):
    """Killed after the file was made and before its first record: the first record still goes to a safe place."""
    journal = Journal(tmp_path, ("survey", "fit"), 8, 1, 100)
    journal._open("fit", 200)
    journal.close()
    again = Journal(tmp_path, ("survey", "fit"), 8, 1, 100)
    assert again.write(Entry(5, "fit", b"message", 0, [1.0]))
    assert not again.write(Entry(6, "fit", b"message", 0, [1.0]))
    again.close()
