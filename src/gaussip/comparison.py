"""Several algorithms on the same rows from the same start, and a small simulation study of them.

A collapse of one algorithm is recorded as its result; the others go on.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip import algorithms
from gaussip.arrays import NDArray, out_of_memory, to_device, to_numpy
from gaussip.data.generate import Dataset, Setting, draw, paper_start, streams
from gaussip.errors import FewerAtATimeWarning, PooledTargetWarning, SettingError
from gaussip.history import Progress
from gaussip.networks import mixing_weights
from gaussip.parameters import Theta, pack
from gaussip.rows import Rows
from gaussip.simulation import Run, place, simulate

SEMI = "semi-"


class Method(NamedTuple):
    """An algorithm with its step, and whether it may see the labels."""

    algorithm: str
    eta: float
    semi: bool

    @property
    def name(self) -> str:
        """As people write it: ``semi-MNEM``."""
        return SEMI * self.semi + (
            self.algorithm.capitalize() if self.algorithm == "local" else self.algorithm.upper()
        )

    def run(self, start: Theta, rows: Rows, W: Any, **settings: Any) -> Run:
        """Simulate the method; a collapse ends it quietly."""
        chosen = algorithms.make(self.algorithm, self.eta)
        return simulate(chosen, start, rows, W, record_collapse=True, **settings)


def parse_method(text: str, eta: float) -> Method:
    """A method as written on the command line: ``mnem``, ``semi-mnem``, ``ngd=0.003``."""
    name, _, step = text.strip().lower().partition("=")
    try:
        chosen = float(step) if step else eta
    except ValueError:
        raise SettingError(f"{text!r}: after '=' stands the step eta, for instance ngd=0.003") from None
    algorithm = name.removeprefix(SEMI)
    made = algorithms.make(algorithm, chosen)  # refuses unknown names and impossible steps
    return Method(algorithm, made.eta, name.startswith(SEMI))


class Score(NamedTuple):
    """One method's line in a simulation study."""

    method: Method
    log_mse: float  #: natural log of the mean over replicates and sites of ||theta - theta_0||^2; NaN if none is left
    standard_error: float  #: of log_mse over replicates
    mse: NDArray  #: (R,), of each replicate, NaN where it collapsed
    rounds: int
    collapsed: int  #: replicates in which a component collapsed
    collapse: str | None  #: what happened in the first of them
    seconds: float


def simulation_study(
    setting: Setting,
    methods: Sequence[Method],
    *,
    network: str = "circle",
    mixing: str = "row",
    weighting: str = "rows",
    max_rounds: int = 3000,
    tol: float = 1e-8,
    noise: float = 0.1,
    replicates: int = 1,
    seed: int = 0,
    device: str = "cpu",
    watch: Callable[[Method, Progress], None] | None = None,
) -> list[Score]:
    """Draw data sets, fit each by every method from the paper's start, and score the estimates.

    All replicates and sites of a method advance together, or as many replicates as fit into a GPU's memory. Seeds
    are spawned per replicate, so that a replicate's numbers do not depend on how many others there are.
    """
    if replicates < 1 or max_rounds < 1:
        raise SettingError("replicates and rounds must be at least 1")
    if not 0 <= noise < np.inf:
        raise SettingError(f"noise={noise:g} must be a finite number of at least 0")
    drawn, begins = [], []
    for sequence in np.random.SeedSequence(seed).spawn(replicates):
        drawn.append(draw(setting, sequence))
        begins.append(paper_start(drawn[-1].truth, noise, streams(sequence, 5)[-1]))  # the data take the first four
    W = mixing_weights(network, range(setting.n_sites), mixing, seed)
    truth = pack(_per_replicate([data.truth for data in drawn]))

    def run(method: Method, some: slice) -> Run:
        follow = None if watch is None else lambda now: watch(method, now)
        rows = _stacked(drawn[some], setting, method.semi, device)
        begin = place(_per_replicate(begins[some]), device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PooledTargetWarning)  # a study compares what networks do
            found = method.run(begin, rows, W, max_rounds=max_rounds, tol=tol, weighting=weighting, watch=follow)
        return found._replace(theta=Theta(*map(to_numpy, found.theta)))

    scores, together, told = [], replicates, False
    for method in methods:
        began = time.perf_counter()
        runs: list[Run] = []
        while (done := sum(len(one.collapsed) for one in runs)) < replicates:
            try:
                runs.append(run(method, slice(done, done + together)))
            except RuntimeError as error:
                if not out_of_memory(error) or together == 1:
                    raise
                together = -(-together // 2)
                continue
            if together < replicates and not told:
                told = True
                warnings.warn(
                    f"the GPU's memory does not hold all replicates: {together} at a time, for the same numbers",
                    FewerAtATimeWarning,
                    stacklevel=2,
                )
        estimates = np.concatenate([pack(one.theta) for one in runs])
        mse = np.mean(np.sum((estimates - truth) ** 2, axis=(-2, -1)), axis=-1)
        scores.append(_score(method, mse, runs, time.perf_counter() - began))
    return scores


def _score(method: Method, mse: NDArray, runs: Sequence[Run], seconds: float) -> Score:
    collapsed = np.concatenate([run.collapsed for run in runs]) > 0
    mse = np.where(collapsed, np.nan, mse)
    left = mse[np.isfinite(mse)]
    mean = left.mean() if left.size else np.nan
    error = left.std(ddof=1) / np.sqrt(left.size) / mean if left.size > 1 else np.nan
    return Score(
        method=method,
        log_mse=float(np.log(mean)),
        standard_error=float(error),
        mse=mse,
        rounds=max(run.n_rounds for run in runs),
        collapsed=int(collapsed.sum()),
        collapse=next((str(run.collapse) for run in runs if run.collapse is not None), None),
        seconds=seconds,
    )


def _stacked(drawn: Sequence[Dataset], setting: Setting, semi: bool, device: str) -> Rows:
    def of(data: Dataset) -> Rows:
        values = [to_device(x, device) for x in data.by_site(data.X)]
        return Rows.of_sites(values, data.by_site(data.labels) if semi else None, None, setting.n_components)

    return Rows.stack([of(data) for data in drawn])


def _per_replicate(thetas: Sequence[Theta]) -> Theta:
    """Thetas of replicates as one with leading axes (R, 1), the same for all sites of a replicate."""
    return Theta(*(np.stack(parts)[:, None] for parts in zip(*thetas, strict=True)))
