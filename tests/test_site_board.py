"""What the threads of a site share, what its log of rounds keeps, what its store must hold, and when it leaves."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from gaussip.errors import ModelFileError
from gaussip.exchange import wire
from gaussip.exchange.neighbourhood import Neighbours
from gaussip.node import shutdown
from gaussip.node.board import Board, Standing
from gaussip.node.journal import Entry, Journal
from gaussip.node.model import _history
from gaussip.node.responder import Responder
from gaussip.node.results import put_aside
from gaussip.node.run_store import RunStore
from gaussip.node.shutdown import stay_for_others
from gaussip.phases.fit import Fitted
from gaussip.phases.program import Progress

PROGRESS = Progress("counting", "", 0, 0, 0, float("nan"), float("inf"), float("nan"), float("nan"), 0)


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
    board.put("last_received", 1, 5.0)
    assert waited()
    board.put("done", 1, True)
    assert not waited()
    board.trouble(ValueError("broken"))
    assert not waited()
    with pytest.raises(ValueError, match="broken"):
        board.raise_trouble()
    assert board.read().with_another_description("other") == {1}
    assert board.read().last_received == {1: 5.0}


def test_a_result_that_is_missing_is_named(tmp_path):
    store = RunStore(tmp_path)
    assert store.known_result("start") is None
    with pytest.raises(ModelFileError, match=r"there is no file .*start\.npz"):
        store.result("start")


def test_a_phase_whose_beginning_was_not_forced_is_forced_the_next_time(tmp_path):
    """Killed after the file was made and before its first record: the first record still goes to a safe place."""
    journal = Journal(tmp_path, ("keys", "fit"), 8, 1)
    journal._open("fit", 200, 100)
    journal.close()
    again = Journal(tmp_path, ("keys", "fit"), 8, 1)
    assert again.write(Entry(5, "fit", b"message", (1,), 0, [1.0]), 100)
    assert not again.write(Entry(6, "fit", b"message", (1,), 0, [1.0]), 100)
    again.close()


def test_a_damaged_history_does_not_hold_back_the_model(tmp_path):
    """The model then holds the last round, and a warning says so."""
    (tmp_path / "history.jsonl").write_text('{"round": 1\n{"round": 2}\n')
    theta = (np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    end = Fitted(*theta, True, 30, 10, -1.5, 1e-7, 1e-3, 0.9, 1, 60.0)
    with pytest.warns(UserWarning, match=r"history\.jsonl cannot be read: .*; the model holds the last round alone"):
        history = _history(SimpleNamespace(run=tmp_path), end)
    assert {name: values.tolist() for name, values in history.items() if name not in ("bytes", "exchanges")} == {
        "round": [30], "log_likelihood": [-1.5], "change": [1e-7], "disagreement": [1e-3], "step": [0.9],
        "restarts": [1],
    }  # fmt: skip


class End:
    """A site that has finished, next to one other: what it sends reaches the other unless it is lost on the way."""

    def __init__(self, me, lost):
        near = Neighbours(sparse.csr_array([[0.0, 1.0], [1.0, 0.0]]), me)
        self.me, self.other, self.lost, self.left = me, None, lost, threading.Event()
        self.board = Board(Standing(PROGRESS))
        self.responder = Responder(
            me, "ab" * 16, 10_000, self.send, None, None, self.board, None, remember=lambda done: None
        )  # fmt: skip
        self.responder.start()
        store, logs = (SimpleNamespace(**{name: lambda *_, **__: None}) for name in ("write_end", "event"))
        arguments = ({"exchanges": 7}, ("s0", "s1"), near, self.responder, self.board, logs, store, None)
        self.thread = threading.Thread(target=lambda: (stay_for_others(*arguments), self.left.set()), daemon=True)

    def send(self, _, data):
        self.lost -= 1
        if self.lost < 0 and not self.other.left.is_set():
            self.other.responder.receive(self.me, data)


@pytest.mark.parametrize("lost", [(0, 0), (0, 3), (3, 0), (2, 4)])
def test_a_finished_site_leaves_only_when_its_neighbour_knows(lost, monkeypatch):
    """Otherwise the neighbour waits indefinitely: the last messages may be lost with a link that breaks."""
    monkeypatch.setattr(shutdown, "GRACE", 0.2)
    one, other = ends = [End(me, lost[me]) for me in range(2)]
    one.other, other.other = other, one
    for end in ends:
        end.thread.start()
    for end in ends:
        assert end.left.wait(20)
        assert end.board.read().done


def test_a_finished_site_does_not_stay_for_one_that_has_left(monkeypatch):
    """The neighbour is done, and its last answer was lost: nobody is left to answer."""
    monkeypatch.setattr(shutdown, "GRACE", 0.0)
    monkeypatch.setattr(shutdown, "SILENT", 0.5)
    one, other = End(0, 0), End(1, 0)
    one.other, other.other = other, one
    one.board.put("done", 1, False)
    other.left.set()
    one.thread.start()
    assert one.left.wait(20)


def test_results_put_aside_stay_together_after_a_crash(tmp_path):
    """A process that is killed between two files leaves the rest to the next one."""
    folder = SimpleNamespace(path=tmp_path, model=tmp_path / "model.npz", basis=tmp_path / "basis.npz")
    assert put_aside(folder) is None
    for times in (1, 2):
        (tmp_path / "earlier" / ".part").mkdir(parents=True)
        (tmp_path / "earlier" / ".part" / "model.npz").write_bytes(b"model")
        (tmp_path / "intervals.csv").write_bytes(b"intervals")
        aside = put_aside(folder)
        assert sorted(path.name for path in aside.iterdir()) == ["intervals.csv", "model.npz"]
        assert len(list((tmp_path / "earlier").iterdir())) == times
