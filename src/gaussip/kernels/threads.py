"""Sharing one computation's tasks among threads, so that more of them never wait for each other in vain.

Every thread takes the next task off a counter. The calling thread works too, and ends when all tasks are done: a
helper that the operating system has not let run, on a machine whose cores are busy, is not waited for, and finds
nothing left when it comes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from gaussip.arrays import NDArray
from gaussip.errors import SettingError

VARIABLE = "GAUSSIP_THREADS"
AWAKE = 5000  # looks a helper takes for new work before it sleeps: some hundred microseconds
VAIN, REST = 8, 200  # so often in vain, helpers are not called so many times


@intrinsic
def _add(context: Any, counter: Any, place: Any, amount: Any) -> Any:
    """Add to an integer of an array in one step, as seen by all threads; returns what it was."""

    def codegen(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = target.make_array(signature.args[0])(target, builder, arguments[0]).data
        return builder.atomic_rmw("add", cgutils.gep_inbounds(builder, data, arguments[1]), arguments[2], "seq_cst")

    return types.int64(counter, types.int64, types.int64), codegen


@njit(nogil=True, cache=True)
def take(counter: NDArray) -> Any:
    """The number of the next task that nobody has taken."""
    return _add(counter, 0, 1)


@njit(nogil=True, cache=True)
def done(counter: NDArray) -> Any:
    """Count one task as done; returns how many were before."""
    return _add(counter, 1, 1)


@njit(cache=True)
def _finished(counter: NDArray) -> Any:
    return _add(counter, 1, 0)


@intrinsic
def _peek(context: Any, counter: Any) -> Any:
    """The first integer of an array, as another thread may have left it just now; gives the core a short rest."""

    def codegen(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if builder.module.triple.startswith("x86_64"):
            name, kind = "llvm.x86.sse2.pause", ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.globals.get(name) or ir.Function(builder.module, kind, name), [])
        data = target.make_array(signature.args[0])(target, builder, arguments[0]).data
        return builder.load_atomic(data, "acquire", 8)

    return types.int64(counter), codegen


@njit(nogil=True, cache=True)
def _await_change(counter: NDArray, seen: int, times: int) -> Any:
    """Look at a counter until it differs from what was seen, so many times at most; returns what it is."""
    for _ in range(times):
        if _peek(counter) != seen:
            break
    return _peek(counter)


def n_threads() -> int:
    """As many threads as CPUs this process may use, or GAUSSIP_THREADS."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isdecimal() or int(text) < 1:
        raise SettingError(f"the environment variable {VARIABLE}={text!r} must be a whole number of at least 1")
    return int(text)


class _Helpers:
    """Threads that wait for work; they end with the process.

    After a piece of work a helper stays awake for a moment, since waking takes longer than many a piece. Helpers that
    found nothing to do several times running, because others need the cores, are left alone for a while.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._given = np.zeros(1, dtype=np.int64)  # how often work was given
        self._count = 0
        self._lock = threading.Lock()
        self._vain = self._rest = 0

    def call(self, work: Callable[[], object], times: int) -> bool:
        """Have up to so many helpers call ``work`` when they come to it; False where they are left alone."""
        with self._lock:
            if self._rest:
                self._rest -= 1
                return False
            while self._count < times:
                threading.Thread(target=self._serve, daemon=True, name=f"gaussip-{self._count}").start()
                self._count += 1
        for _ in range(times):
            self._queue.put(work)
        self._given[0] += 1
        return True

    def helped(self, really: bool) -> None:
        """Tell whether the helpers called last did anything."""
        self._vain = 0 if really else self._vain + 1
        if self._vain >= VAIN:
            self._vain, self._rest = 0, REST

    def _serve(self) -> None:
        while True:
            self._queue.get()()
            while True:
                seen = int(self._given[0])
                try:
                    self._queue.get_nowait()()
                except Empty:
                    if _await_change(self._given, seen, AWAKE) == seen:
                        break


_helpers = _Helpers()


def _forget() -> None:
    """A forked process has none of its parent's threads."""
    global _helpers
    _helpers = _Helpers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def share(work: Callable[[], int], counter: NDArray, n_tasks: int, helpers: int) -> None:
    """Call ``work``, here and in helpers; returns when all tasks are done.

    ``work`` takes tasks until none is left, and returns how many it took.
    """
    asked = helpers > 0 and _helpers.call(work, helpers)
    mine = work()
    if asked:
        _helpers.helped(mine < n_tasks)
    while _finished(counter) < n_tasks:  # a helper is in the midst of its last task
        time.sleep(0)
