"""What this machine is, and what it can do: copy bandwidth and the rate of matrix products, measured."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

PAUSE = 0.2  # seconds before a contender's turn: the threads of the last one stay awake for a while


class Roof(NamedTuple):
    """Limits of a machine, or of one of its cores."""

    bytes_per_second: float  #: read and written by a copy
    flops_per_second: float  #: of a float64 matrix product

    def seconds(self, n_bytes: float, flops: float) -> float:
        """The least time for so many bytes and operations."""
        return max(n_bytes / self.bytes_per_second, flops / self.flops_per_second)


class Contender(NamedTuple):
    """Some work, and the threads it may use."""

    work: Callable[[], object]
    threads: int = 1  #: gaussip's and the BLAS's
    calls: int = 1  #: in a row, timed together


def interleaved(
    contenders: Mapping[str, Contender], repeats: int, which: Callable[[list[float]], float] = statistics.median
) -> dict[str, float]:
    """Median seconds of a call of each contender, taken in turns: a slow moment of the machine hits all alike.

    With ``which=min``, the least: what a call takes when nothing else runs.
    """
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, (work, threads, calls) in contenders.items():
            os.environ["GAUSSIP_THREADS"] = str(threads)
            time.sleep(PAUSE)
            with threadpool_limits(threads):
                work()  # to warm up
                began = time.perf_counter()
                for _ in range(calls):
                    work()
                taken[name].append((time.perf_counter() - began) / calls)
    return {name: which(times) for name, times in taken.items()}


def cpu_roof(threads: int) -> Roof:
    """Measured with so many threads of the BLAS; the copy is one thread's."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((1500, 1500)) for _ in range(2))
    source = np.zeros(2**25)
    target = np.ones_like(source)
    work = {"product": lambda: a @ b, "copy": lambda: np.copyto(target, source)}
    taken = interleaved({name: Contender(call, threads, 2) for name, call in work.items()}, 5)
    return Roof(2 * source.nbytes / taken["copy"], 2 * 1500**3 / taken["product"])


def description() -> dict[str, str]:
    """The processor, its cores and the versions of what is compared."""
    import scipy
    import sklearn

    import gaussip

    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    about = {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": str(cores),
        "python": platform.python_version(),
        "gaussip": gaussip.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
    for name in ("numba", "torch", "pomegranate"):
        try:
            about[name] = str(__import__(name).__version__)
        except ImportError:
            about[name] = "not installed"
    return about
