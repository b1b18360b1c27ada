"""Sharing one computation's tasks among threads, so that no thread waits for another that is not running.

Every thread takes the next task off a counter. The calling thread works too, and ends when all tasks are done: a
helper that the operating system has not let run, on a machine whose cores are busy, is not waited for, and finds
nothing left when it comes. Helpers stay awake for a moment after a piece of work, within compiled code and without
Python's lock, since waking up takes longer than many a piece.

Numba's ``prange``, which waits for every thread, is as fast where the cores are free, and 6 to 16 times slower where
other programs run on them (`python benchmarks/bench.py --parts by-hand`).
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gaussip.arrays import NDArray
from gaussip.errors import SettingError
from gaussip.kernels.cpu.compiling import compiled

VARIABLE = "GAUSSIP_THREADS"
AWAKE = 10_000  # looks a helper takes for the next piece of work before it leaves: some hundred microseconds
HELPER_WORK = 2**21  # some 30 microseconds of one thread
VAIN, REST = 8, 200  # so often in vain, helpers are not called so many times
NEXT, WELCOME, DONE, INSIDE = 0, 1, 8, 16  # places in a team's counters, on three lines of the cache
PIECE = 32  # bits: the number of the piece of work stands above that of the next task


def _counter(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    data = target.make_array(signature.args[0])(target, builder, arguments[0]).data
    return builder.gep(data, [arguments[1]])


@intrinsic
def _add(context: Any, counters: Any, place: Any, amount: Any) -> Any:
    """Add to a counter in one step, as seen by all threads; returns what it was."""

    def codegen(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _counter(target, builder, signature, arguments), arguments[2], "seq_cst")

    return types.int64(counters, types.int64, types.int64), codegen


@intrinsic
def _look(context: Any, counters: Any, place: Any) -> Any:
    """A counter as another thread may have left it just now; gives the core a short rest before."""

    def codegen(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if builder.module.triple.startswith("x86_64"):
            name, kind = "llvm.x86.sse2.pause", ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.globals.get(name) or ir.Function(builder.module, kind, name), [])
        return builder.load_atomic(_counter(target, builder, signature, arguments), "acquire", 8)

    return types.int64(counters, types.int64), codegen


@intrinsic
def _swap(context: Any, counters: Any, place: Any, old: Any, new: Any) -> Any:
    """Replace a counter if it is still what it was; returns whether it was."""

    def codegen(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _counter(target, builder, signature, arguments)
        return builder.extract_value(builder.cmpxchg(pointer, arguments[2], arguments[3], "seq_cst", "monotonic"), 1)

    return types.boolean(counters, types.int64, types.int64, types.int64), codegen


@compiled(nogil=True)
def take(counters: NDArray, n_tasks: int) -> Any:
    """The piece of work and the next of its tasks that nobody has taken; task -1 where none is left."""
    while True:
        now = _look(counters, NEXT)
        piece, task = now >> PIECE, now & ((1 << PIECE) - 1)
        if task >= n_tasks:
            return piece, -1
        if _swap(counters, NEXT, now, now + 1):
            return piece, task


@compiled(nogil=True)
def done(counters: NDArray) -> Any:
    """Count one task as done."""
    return _add(counters, DONE, 1)


@compiled(nogil=True)
def another(counters: NDArray, piece: int, looks: int) -> Any:
    """Wait for the piece of work after ``piece``, so many looks at most; whether it came, and wants helpers."""
    for _ in range(looks):
        if _look(counters, NEXT) >> PIECE != piece:
            return _look(counters, WELCOME) > 0
    return False


@compiled()
def _open(counters: NDArray) -> None:
    """Begin the next piece of work; all tasks of the last are done."""
    _add(counters, DONE, -_look(counters, DONE))
    now = _look(counters, NEXT)
    _add(counters, NEXT, (((now >> PIECE) + 1) << PIECE) - now)


@compiled(nogil=True)
def _all_done(counters: NDArray, n_tasks: int, looks: int) -> Any:
    for _ in range(looks):  # noqa: SIM110, a generator would not compile
        if _look(counters, DONE) >= n_tasks:
            return True
    return False


@compiled()
def _enter(counters: NDArray, amount: int) -> None:
    _add(counters, INSIDE, amount)


def n_threads() -> int:
    """As many threads as CPUs this process may use, or GAUSSIP_THREADS."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isdecimal() or int(text) < 1:
        raise SettingError(f"the environment variable {VARIABLE}={text!r} must be a whole number of at least 1")
    return int(text)


def helpers_for(n_tasks: int, work: int) -> int:
    """How many helpers so much work is worth: numbers in the rows times sums of a row."""
    return min(n_threads(), n_tasks, work // HELPER_WORK) - 1


class _Helpers:
    """Threads that wait for somebody to help; they end with the process."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._count = 0
        self._lock = threading.Lock()

    def call(self, work: Callable[[], object], times: int) -> None:
        """Have up to so many helpers call ``work`` when they come to it.

        No more work waits than there are helpers: what nobody came to is over, and would keep its rows in memory.
        """
        with self._lock, contextlib.suppress(RuntimeError):  # where no thread can be started, there is no help
            while self._count < times:
                threading.Thread(target=self._serve, daemon=True, name=f"gaussip-{self._count}").start()
                self._count += 1
        for _ in range(min(times, self._count)):
            while self.queue.qsize() >= self._count:
                with contextlib.suppress(Empty):
                    self.queue.get_nowait()
            self.queue.put(work)

    def _serve(self) -> None:
        while True:
            self.queue.get()()


_helpers = _Helpers()


def _forget() -> None:
    """A forked process has none of its parent's threads."""
    global _helpers
    _helpers = _Helpers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class Team:
    """The calling thread and its helpers at one computation that is done again and again on the same arrays."""

    def __init__(self) -> None:
        self.counters = np.zeros(24, dtype=np.int64)  #: what `take` and `done` count with
        self.lock = threading.Lock()  #: held by the caller during a piece of work
        self._owner = os.getpid()
        self._vain = self._rest = 0

    def share(self, work: Callable[[int], int], n_tasks: int, helpers: int) -> None:
        """Call ``work``, here and in helpers; returns when all tasks are done.

        ``work(looks)`` takes tasks until none is left, looks for the next piece so many times, and so on; it returns
        how many it took. Helpers that took none several times running, because others need the cores, are left alone
        for a while.
        """
        counters = self.counters
        if helpers <= 0 and not counters[INSIDE]:
            counters[WELCOME] = 0
            _open(counters)
            work(0)
            while not _all_done(counters, n_tasks, AWAKE):  # a helper came from an earlier piece of work
                time.sleep(0)
            return
        if self._owner != os.getpid():  # a forked process: the helpers inside are not here
            self._owner = os.getpid()
            counters[INSIDE] = 0
        if self._rest:
            self._rest -= 1
            helpers = 0
        counters[WELCOME] = helpers
        _open(counters)
        missing = helpers - int(counters[INSIDE])
        if missing > 0:
            _helpers.call(partial(self._help, work), missing)
        mine = work(0)
        if helpers > 0:
            self._vain = self._vain + 1 if mine == n_tasks else 0
            if self._vain >= VAIN:
                self._vain, self._rest = 0, REST
        while not _all_done(counters, n_tasks, AWAKE):  # a helper is in the midst of its last task
            time.sleep(0)

    def _help(self, work: Callable[[int], int]) -> None:
        _enter(self.counters, 1)
        try:
            work(AWAKE)
        finally:
            _enter(self.counters, -1)
