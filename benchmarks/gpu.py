"""The GPU: the hot function, a round, and a whole study of 20,000 rounds, for 100 replicates of the paper's size."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from gaussip.algorithms import make
from gaussip.arrays import to_device
from gaussip.mixture.theta import Theta, place
from gaussip.networks import mixing_weights
from gaussip.rows.moments import moments
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate
from gaussip.studies.simulation_model import Setting, draw, paper_start
from machine import Roof
from problem import Workload
from results import Table

SHAPES = ((100, 20, 30_000), (1, 20, 3_000_000), (1, 1, 3_000_000), (1, 20, 30_000))


def available() -> bool:
    """Whether there is a CUDA device."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def seconds_of(work: Any, calls: int = 20, repeats: int = 7) -> float:
    """Median seconds of a call, by CUDA events around a graph of several, so that the host does not count."""
    import torch

    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            work()
    graph.replay()
    taken = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end) / 1e3 / calls)
    return float(np.median(taken))


def roof() -> Roof:
    """Copy bandwidth and float64 matrix product of the card."""
    import torch

    a, b = (torch.randn(4096, 4096, dtype=torch.float64, device="cuda") for _ in range(2))
    source = torch.zeros(2**28, dtype=torch.float64, device="cuda")
    target = torch.empty_like(source)
    return Roof(
        2 * 8 * 2**28 / seconds_of(lambda: torch.mul(source, 1.0, out=target), 3),
        2 * 4096**3 / seconds_of(lambda: a @ b, 3),
    )


def problem(replicates: int, n_sites: int, n_rows: int) -> tuple[Rows, Theta]:
    """The paper's model on the card."""
    setting = Setting(n_rows=n_rows, n_sites=n_sites, spread="homogeneous")
    drawn = [draw(setting, seed) for seed in range(replicates)]
    begins = [paper_start(data.truth, 0.1, np.random.default_rng(0)) for data in drawn]
    rows = Rows.stack([Rows.of_sites([to_device(x, "cuda") for x in data.by_site(data.X)]) for data in drawn])
    start = Theta(*(np.stack(parts)[:, None] for parts in zip(*begins, strict=True)))
    K, p = start.means.shape[-2:]
    sizes = ((K,), (K, p), (K, p, p))
    parts = (np.broadcast_to(part, (*rows.shape, *size)) for part, size in zip(start, sizes, strict=True))
    return rows, place(Theta(*map(np.ascontiguousarray, parts)), "cuda")


def tables() -> list[Table]:
    """The figures for each shape."""
    import torch

    limit, figures = roof(), []
    for replicates, n_sites, n_rows in SHAPES:
        rows, theta = problem(replicates, n_sites, n_rows)
        work = Workload(replicates * n_rows, n_sites, 6, 3)
        hot = seconds_of(lambda rows=rows, theta=theta: moments(rows, theta))
        W = mixing_weights("circle", range(n_sites)) if n_sites > 1 else np.ones((1, 1))

        def run(rounds: int, rows: Rows = rows, theta: Theta = theta, W: Any = W) -> float:
            torch.cuda.synchronize()
            began = time.perf_counter()
            simulate(make("mnem", 0.01), theta, rows, W, max_rounds=rounds, record_collapse=True)
            torch.cuda.synchronize()
            return time.perf_counter() - began

        run(60)
        of_a_round = (run(3001) - run(1001)) / 2000
        microseconds = [1e6 * s for s in (hot, limit.seconds(work.bytes, work.flops), of_a_round)]
        figures.append([replicates, n_sites, n_rows // n_sites, *microseconds, run(20_000) if replicates > 1 else ""])
    return [
        Table(
            "GPU",
            f"{torch.cuda.get_device_name()}, torch {torch.__version__}; copy {limit.bytes_per_second / 1e12:.2f} "
            f"TB/s, float64 product {limit.flops_per_second / 1e12:.1f} TFLOP/s.",
            ["replicates", "sites", "rows each", "moments, us", "roof, us", "MNEM round, us", "20,000 rounds, s"],
            figures,
        )
    ]
