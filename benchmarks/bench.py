"""gaussip against what users would pick instead, and against this machine's limits: one run, one report.

    python benchmarks/bench.py                  # all parts
    python benchmarks/bench.py --parts by-hand  # or some of them: others likelihood by-hand busy growth missing gpu

Only ratios measured in the same run mean anything on a shared machine.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import gpu
import missing
from gaussip.rows.moments import moments
from gaussip.rows.rows import Rows
from gaussip.studies.simulation_model import Setting, draw, paper_start
from machine import Contender, cpu_roof, description, interleaved
from plain import PLAIN, PRANGE
from problem import Problem, Workload, compiled, em, everywhere, mnem, pomegranate, problem, reference, scikit_learn
from results import Table, report

PAPER = Workload(30_000, 20, 6, 3)
WORKLOADS = (
    PAPER,
    Workload(30_000, 20, 2, 3),
    Workload(30_000, 20, 12, 3),
    Workload(30_000, 1, 6, 3),
    Workload(300_000, 20, 6, 3),
    Workload(30_000, 20, 6, 10),
    Workload(15_000, 8, 50, 3),
    Workload(15_000, 1, 95, 4),
)
SWEEPS: dict[str, list[Workload]] = {
    "N": [PAPER._replace(n_rows=n) for n in (10_000, 30_000, 100_000, 300_000, 1_000_000)],
    "p": [PAPER._replace(n_features=p) for p in (2, 4, 8, 16, 32, 64)],
    "K": [PAPER._replace(n_components=k) for k in (2, 4, 8, 16, 32)],
    "M": [PAPER._replace(n_rows=100_000, n_sites=m) for m in (1, 4, 16, 64, 256)],
}
SHORT, LONG, ROUNDS = 2, 8, 100
NEAR = 1e-9  # of log-likelihood a row


def against_others(cores: int) -> list[Table]:
    """Milliseconds of everybody, in turns, for each workload."""
    single, every = cpu_roof(1), cpu_roof(cores)
    times, ratios = [], []
    for work in WORKLOADS:
        given = problem(work)
        few = max(1, int(2e8 / work.flops))
        contenders = {
            "sk1 short": Contender(scikit_learn(given, SHORT)),
            "sk1 long": Contender(scikit_learn(given, LONG)),
            "sk short": Contender(scikit_learn(given, SHORT), cores),
            "sk long": Contender(scikit_learn(given, LONG), cores),
            "numpy": Contender(reference(given), 1, few),
            "compiled1": Contender(compiled(given), 1, 3 * few),
            "compiled": Contender(compiled(given), cores, 3 * few),
            "round": Contender(mnem(given, ROUNDS), cores),
        }
        other = pomegranate(given)
        if other is not None:
            contenders["pomegranate"] = Contender(other, cores)
        t = {name: 1e3 * s for name, s in interleaved(contenders, 15 if work.flops < 3e8 else 5).items()}
        sk1, sk = ((t[f"{name} long"] - t[f"{name} short"]) / (LONG - SHORT) for name in ("sk1", "sk"))
        whole, roof = t["round"] / ROUNDS, 1e3 * single.seconds(work.bytes, work.flops)
        compiled_times = (t["numpy"], t["compiled1"], t["compiled"], whole, roof)
        times.append([*work, sk1, sk, t.get("pomegranate", ""), *compiled_times])
        factors = (sk / t["numpy"], t["numpy"] / t["compiled1"], t["numpy"] / t["compiled"], sk / whole, sk1 / whole)
        ratios.append([*work, *factors, roof / t["compiled1"]])
        print(times[-1], ratios[-1], sep="\n", file=sys.stderr, flush=True)
    sizes = ["N", "M", "p", "K"]
    return [
        Table(
            "Against other programs",
            f"One core copies {single.bytes_per_second / 1e9:.1f} GB/s and multiplies matrices at "
            f"{single.flops_per_second / 1e9:.0f} GFLOP/s; {cores} cores multiply at "
            f"{every.flops_per_second / 1e9:.0f}. Milliseconds. scikit-learn and pomegranate: one EM iteration; "
            f"gaussip: the hot function in NumPy and compiled, and a whole MNEM round. [1] is one thread, [{cores}] "
            f"are {cores}. Roof: the limit of one core.",
            [*sizes, "scikit-learn [1]", f"[{cores}]", f"pomegranate [{cores}]", "NumPy [1]", "compiled [1]",
             f"[{cores}]", f"round [{cores}]", "roof [1]"],
            times,
        ),
        Table(
            "Times faster",
            "And the fraction of one core's limit that compiled [1] reaches.",
            [*sizes, f"NumPy [1] over scikit-learn [{cores}]", "compiled [1] over NumPy [1]",
             f"compiled [{cores}] over NumPy [1]", f"round [{cores}] over scikit-learn [{cores}]",
             f"round [{cores}] over scikit-learn [1]", "of the limit"],
            ratios,
        ),
    ]  # fmt: skip


def to_a_likelihood(cores: int) -> list[Table]:
    """A whole fit to one likelihood, by accelerated EM, plain EM and scikit-learn, from one start."""
    lines = []
    for n_rows, delta in itertools.product((30_000, 300_000), (2.0, 1.0)):
        data = draw(Setting(n_rows=n_rows, n_sites=1, delta=delta), 1)
        start, rows = paper_start(data.truth, 0.3, np.random.default_rng(1)), Rows.of_sites([data.X])
        given = Problem(data.X, rows, start, Workload(n_rows, 1, data.X.shape[1], 3))
        top = em(given, 1000, accelerate=True)().history.log_likelihood.max()
        counts = {}
        for quick, most in ((True, 1000), (False, 5000)):
            heights = em(given, most, accelerate=quick)().history.log_likelihood
            counts[quick] = 1 + int(np.argmax(heights >= top - NEAR))
        few = (
            20 if n_rows < 100_000 else 3
        )  # a fit of milliseconds, right after scikit-learn's, is slowed by its threads
        contenders = {
            "quick": Contender(em(given, counts[True], accelerate=True), cores, few),
            "plain": Contender(em(given, counts[False], accelerate=False), cores, few),
            **{
                f"{name} {length}": Contender(scikit_learn(given, length), threads)
                for name, threads in (("one", 1), ("all", cores)) for length in (SHORT, LONG)
            },
        }  # fmt: skip
        t = interleaved(contenders, 9 if n_rows < 100_000 else 3)
        iteration = min((t[f"{name} {LONG}"] - t[f"{name} {SHORT}"]) / (LONG - SHORT) for name in ("one", "all"))
        theirs = counts[False] * iteration
        milliseconds = [1e3 * seconds for seconds in (theirs, t["plain"], t["quick"])]
        lines.append([n_rows, delta, counts[False], counts[True], *milliseconds, theirs / t["quick"]])
        print(lines[-1], file=sys.stderr, flush=True)
    return [
        Table(
            "To one likelihood",
            f"The paper's model on one machine, from one start, until the log-likelihood is within {NEAR:g} a row of "
            "its maximum. Milliseconds; scikit-learn's are its EM iteration, at its better number of threads, "
            "times the iterations of EM.",
            ["N", "Delta", "iterations of EM", "accelerated", "scikit-learn, ms", "plain EM, ms", "accelerated, ms",
             "times faster than scikit-learn"],
            lines,
        )
    ]  # fmt: skip


@contextlib.contextmanager
def burners(count: int) -> Iterator[None]:
    """So many other programs that keep cores busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in running:
            burner.kill()
            burner.wait()


def by_hand(cores: int) -> list[Table]:
    """The hot function of the paper's size in plain Numba, under prange, and as it is."""
    given = problem(PAPER)
    theta = everywhere(given)
    works: dict[str, Callable[[], object]] = {
        "plain Numba, prange": partial(moments, given.rows, theta, 0.0, PLAIN),
        "gaussip's vectors, prange": partial(moments, given.rows, theta, 0.0, PRANGE),
        "gaussip's vectors and threads": compiled(given),
    }
    contenders = {
        f"{name} {threads}": Contender(work, threads) for name, work in works.items() for threads in (1, cores)
    }
    free = interleaved(contenders, 400, min)
    with burners(cores):
        busy = interleaved({name: work._replace(calls=20) for name, work in contenders.items()}, 9)
    *_, best = works
    measured = [(taken, str(threads)) for taken in (free, busy) for threads in (1, cores)]
    rows = []
    for name in works:
        seconds = [taken[f"{name} {threads}"] for taken, threads in measured]
        ratios = [taken[f"{name} {threads}"] / taken[f"{best} {threads}"] for taken, threads in measured]
        rows.append([name, *(1e3 * s for s in seconds), *ratios])
    columns = ["free [1]", f"free [{cores}]", "busy [1]", f"busy [{cores}]"]
    return [
        Table(
            "By hand and in plain Numba",
            f"The hot function, {PAPER.n_rows:,} rows at {PAPER.n_sites} sites, p = {PAPER.n_features}, K = "
            f"{PAPER.n_components}: milliseconds, and how many times those of the last line. [1] is one thread, "
            f"[{cores}] are {cores}. Free: the fastest of 400 calls; busy: medians beside {cores} other programs.",
            ["", *columns, *(f"{name}, times" for name in columns)],
            rows,
        )
    ]


def busy(cores: int) -> list[Table]:
    """One thread and all of them while other programs keep every core busy."""
    given = problem(PAPER)
    with burners(cores):
        taken = interleaved({"one": Contender(mnem(given, 300)), "all": Contender(mnem(given, 300), cores)}, 7)
    rows = [[threads, 1e3 * taken[name] / 300] for threads, name in ((1, "one"), (cores, "all"))]
    return [Table("On a busy machine", f"Beside {cores} other programs.", ["threads", "MNEM round, ms"], rows)]


def growth(cores: int) -> list[Table]:
    """How the compiled hot function grows with each size: times, and the exponent fitted to them."""
    rows = []
    for name, works in SWEEPS.items():
        times = [1e3 * interleaved({"it": Contender(compiled(problem(work)), cores, 5)}, 5)["it"] for work in works]
        field = {"N": "n_rows", "p": "n_features", "K": "n_components", "M": "n_sites"}[name]
        sizes = [getattr(work, field) for work in works]
        exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        values, milliseconds = (", ".join(f"{x:,.4g}" for x in numbers) for numbers in (sizes, times))
        rows.append([name, values, milliseconds, float(exponent)])
        print(rows[-1], file=sys.stderr, flush=True)
    return [Table("Growth", "", ["size", "values", "compiled, ms", "exponent"], rows)]


PARTS: dict[str, Callable[[int], list[Table]]] = {
    "others": against_others,
    "likelihood": to_a_likelihood,
    "by-hand": by_hand,
    "busy": busy,
    "growth": growth,
    "missing": missing.tables,
    "gpu": lambda cores: gpu.tables() if gpu.available() else [],
}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parts = parser.parse_args().parts
    cores = int(description()["cores"])
    tables = [table for part in parts for table in PARTS[part](cores)]
    report("hot-function" if len(parts) == len(PARTS) else "-".join(parts), tables)


if __name__ == "__main__":
    main()
