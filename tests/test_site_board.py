"""What the threads of a site share, what its log of rounds keeps, and what its store must hold."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from gaussip.errors import ModelFileError
from gaussip.exchange import wire
from gaussip.node.board import Board, Standing
from gaussip.node.journal import Entry, Journal
from gaussip.node.model import _history
from gaussip.node.run_store import RunStore
from gaussip.phases.fit import Fitted
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


def test_a_damaged_history_does_not_hold_back_the_model(tmp_path):
    """The model then holds the last round, and a warning says so."""
    (tmp_path / "history.jsonl").write_text('{"round": 1\n{"round": 2}\n')
    theta = (np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    end = Fitted(*theta, True, 30, 10, -1.5, 1e-7, 1e-3, 0.9, 1)
    with pytest.warns(UserWarning, match=r"history\.jsonl cannot be read: .*; the model holds the last round alone"):
        history = _history(SimpleNamespace(run=tmp_path), end)
    assert {name: values.tolist() for name, values in history.items() if name != "bytes"} == {
        "round": [30], "log_likelihood": [-1.5], "change": [1e-7], "disagreement": [1e-3], "step": [0.9],
        "restarts": [1],
    }  # fmt: skip
