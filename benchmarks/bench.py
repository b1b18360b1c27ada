"""gaussip against what users would pick instead, and against this machine's limits: one run, one report.

Only ratios measured in the same run mean anything on a shared machine. ``--out FILE`` also writes the report,
``--quick`` leaves the sweeps out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np

import gpu
from machine import Contender, cpu_roof, description, interleaved
from problem import Workload, compiled, mnem, pomegranate, problem, reference, scikit_learn

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


def against_others(cores: int) -> list[str]:
    """Milliseconds of everybody, in turns, for each workload."""
    one, every = cpu_roof(1), cpu_roof(cores)
    lines = [
        f"One core copies {one.bytes_per_second / 1e9:.1f} GB/s and multiplies matrices at "
        f"{one.flops_per_second / 1e9:.0f} GFLOP/s; {cores} cores multiply at {every.flops_per_second / 1e9:.0f}.\n",
        "Milliseconds. scikit-learn and pomegranate: one EM iteration; gaussip: the hot function in NumPy and "
        f"compiled, and a whole MNEM round. [1] is one thread, [{cores}] are {cores}. Roof: the limit of one core.\n",
        f"| N | M | p | K | scikit-learn [1] | [{cores}] | pomegranate [{cores}] | NumPy [1] | compiled [1] "
        f"| [{cores}] | round [{cores}] | roof [1] |",
        "|" + "---:|" * 12,
    ]
    ratios = [
        "\nTimes faster, and the fraction of one core's limit that compiled [1] reaches.\n",
        f"| N | M | p | K | NumPy [1] over scikit-learn [{cores}] | compiled [1] over NumPy [1] "
        f"| compiled [{cores}] over NumPy [1] | round [{cores}] over scikit-learn [{cores}] "
        f"| round [{cores}] over scikit-learn [1] | of the limit |",
        "|" + "---:|" * 10,
    ]
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
        whole, roof = t["round"] / ROUNDS, 1e3 * one.seconds(work.bytes, work.flops)
        pom = f"{t['pomegranate']:.1f}" if other is not None else "-"
        sizes = " | ".join(f"{size:,}" for size in work)
        times = (sk1, sk, pom, t["numpy"], t["compiled1"], t["compiled"], whole, roof)
        lines.append(f"| {sizes} | " + " | ".join(x if isinstance(x, str) else f"{x:.3g}" for x in times) + " |")
        factors = (sk / t["numpy"], t["numpy"] / t["compiled1"], t["numpy"] / t["compiled"], sk / whole, sk1 / whole)
        ratios.append(f"| {sizes} | " + " | ".join(f"{x:.1f}" for x in factors) + f" | {roof / t['compiled1']:.0%} |")
        print(lines[-1], ratios[-1], sep="\n", file=sys.stderr, flush=True)
    return lines + ratios


def growth(cores: int) -> list[str]:
    """How the compiled hot function grows with each size: times, and the exponent fitted to them."""
    lines = ["| size | values | compiled, ms | exponent |", "|---|---|---|---:|"]
    for name, works in SWEEPS.items():
        times = [1e3 * interleaved({"it": Contender(compiled(problem(work)), cores, 5)}, 5)["it"] for work in works]
        field = {"N": "n_rows", "p": "n_features", "K": "n_components", "M": "n_sites"}[name]
        sizes = [getattr(work, field) for work in works]
        exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        shown = ", ".join(f"{t:.3g}" for t in times)
        lines.append(f"| {name} | {', '.join(f'{s:,}' for s in sizes)} | {shown} | {exponent:.2f} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def busy(cores: int) -> list[str]:
    """One thread and all of them while other programs keep every core busy."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        given = problem(PAPER)
        taken = interleaved({"one": Contender(mnem(given, 300)), "all": Contender(mnem(given, 300), cores)}, 7)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    one, every = (1e3 * taken[name] / 300 for name in ("one", "all"))
    return [f"Beside {cores} other programs a round takes {one:.2f} ms with one thread, {every:.2f} ms with {cores}."]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the report to this Markdown file")
    parser.add_argument("--quick", action="store_true", help="no sweeps")
    parser.add_argument("--gpu", action="store_true", help="the GPU alone")
    chosen = parser.parse_args()
    about = description()
    cores = int(about["cores"])
    report = ["# Benchmark\n", ", ".join(f"{name} {value}" for name, value in about.items()) + ".\n"]
    if not chosen.gpu:
        report += ["## Against other programs\n", *against_others(cores), "\n## On a busy machine\n", *busy(cores)]
        if not chosen.quick:
            report += ["\n## Growth\n", *growth(cores)]
    if gpu.available():
        report += ["\n## GPU\n", *gpu.lines()]
    text = "\n".join(report) + "\n"
    print(text)
    if chosen.out is not None:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
