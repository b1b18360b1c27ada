"""Methods side by side on data sets of the paper's model, from the same starts.

A collapse of one method is recorded as its result; the others continue.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray, out_of_memory, to_device, to_numpy
from gaussip.errors import FewerAtATimeWarning, SettingError
from gaussip.mixture.theta import Theta, pack, per_replicate, place, to_psi
from gaussip.networks import mixing_weights
from gaussip.rows.rows import Rows
from gaussip.simulation.history import Progress
from gaussip.simulation.run import Run
from gaussip.studies.methods import Method
from gaussip.studies.simulation_model import Dataset, Setting, draw, paper_start, streams


class Trace(NamedTuple):
    """A method's errors along the rounds that were marked, for R data sets."""

    rounds: NDArray  #: (L,), 0 is the start
    mse: NDArray  #: (L, R), mean over sites of ||theta - theta_0||^2, NaN once a component collapsed
    distance: NDArray  #: (L, R), of the sites' psi from the pooled estimate; NaN where none was given
    bytes: NDArray  #: (L,), sent by all sites of a data set so far
    theta: Theta  #: the sites' last estimates, (R, M, ...)
    n_rounds: int
    collapsed: NDArray  #: (R,), the round of a collapse, 0 where there was none
    collapse: str | None  #: what happened in the first of them


class Trial:
    """Data sets of one setting with their starts and their network.

    Seeds are spawned per replicate, so that a replicate's numbers do not depend on how many others there are; data
    sets of settings that differ only in how rows are dealt or labelled hold the same rows.

    Parameters
    ----------
    noise : standard deviation of the starting means about the truth
    device : all replicates and sites of a method advance together there, or as many replicates as fit into memory
    """

    def __init__(
        self,
        setting: Setting,
        *,
        network: str = "circle",
        mixing: str = "row",
        weighting: str = "rows",
        noise: float = 0.1,
        replicates: int = 1,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        if replicates < 1:
            raise SettingError("replicates must be at least 1")
        if not 0 <= noise < np.inf:
            raise SettingError(f"noise={noise:g} must be a finite number of at least 0")
        self.setting, self.weighting, self.device = setting, weighting, device
        self.data: list[Dataset] = []
        self.begins: list[Theta] = []  #: the starts
        for sequence in np.random.SeedSequence(seed).spawn(replicates):
            self.data.append(draw(setting, sequence))
            stream = streams(sequence, 5)[-1]  # the data take the first four
            self.begins.append(paper_start(self.data[-1].truth, noise, stream))
        self.W = mixing_weights(network, range(setting.n_sites), mixing, seed)
        self._truth = pack(per_replicate([data.truth for data in self.data]))
        self._together, self._warned = replicates, False

    def rows_of(self, replicate: int, labels: bool, device: str) -> Rows:
        """The rows of one data set, (M,), with their labels where they may be seen."""
        data = self.data[replicate]
        values = [to_device(x, device) for x in data.by_site(data.X)]
        return Rows.of_sites(values, data.by_site(data.labels) if labels else None, None, self.setting.n_components)

    def run(
        self,
        method: Method,
        *,
        max_rounds: int,
        tol: float,
        marks: Sequence[int] = (),
        pooled: NDArray | None = None,
        watch: Callable[[Progress], None] | None = None,
    ) -> Trace:
        """Fit every data set by the method, and look at its estimates after the marked rounds and the last.

        ``pooled`` (R, K, f) is the psi that distances are taken to.
        """
        if max_rounds < 1:
            raise SettingError("rounds must be at least 1")
        wanted = sorted({0, max_rounds, *(mark for mark in marks if mark <= max_rounds)})
        R = len(self.data)
        traces: list[Trace] = []
        while (done := sum(len(trace.collapsed) for trace in traces)) < R:
            some = slice(done, done + self._together)
            try:
                traces.append(self._some(method, some, wanted, tol, None if pooled is None else pooled[some], watch))
            except RuntimeError as error:
                if not out_of_memory(error) or self._together == 1:
                    raise
                self._together = -(-self._together // 2)
                continue
            if self._together < R and not self._warned:
                self._warned = True
                warnings.warn(
                    "the GPU's memory does not hold all replicates: "
                    f"{self._together} at a time, for the same numbers",
                    FewerAtATimeWarning,
                    stacklevel=2,
                )
        return _joined(traces)

    def _some(
        self,
        method: Method,
        some: slice,
        marks: Sequence[int],
        tol: float,
        pooled: NDArray | None,
        watch: Callable[[Progress], None] | None,
    ) -> Trace:
        truth, looks = self._truth[some], []

        def look(theta: Theta, sent: int) -> None:
            here = Theta(*map(to_numpy, theta))
            mse = np.mean(np.sum((pack(here) - truth) ** 2, axis=(-2, -1)), axis=-1)
            if pooled is None:
                distance = np.full(len(truth), np.nan)
            else:
                apart = np.sum((to_psi(here) - pooled[:, None]) ** 2, axis=(-2, -1))
                distance = np.sqrt(np.mean(apart, axis=-1))
            looks.append((mse, distance, sent))

        begin = per_replicate(self.begins[some])
        look(begin, 0)
        last: tuple[Theta, int] = (begin, 0)

        def follow(now: Progress) -> None:
            nonlocal last
            while marks[len(looks)] < now.round:  # a round of exchange alone is not seen: nothing moved in it
                look(*last)
            last = (now.theta, now.bytes)
            if now.round == marks[len(looks)]:
                look(*last)
            if watch is not None:
                watch(now)

        rows = Rows.stack([self.rows_of(r, method.semi, self.device) for r in range(len(self.data))[some]])
        run: Run = method.run(
            place(begin, self.device), rows, self.W, max_rounds=marks[-1], marks=marks[1:], tol=tol,
            weighting=self.weighting, watch=follow,
        )  # fmt: skip
        final = Theta(*map(to_numpy, run.theta))
        while len(looks) < len(marks):  # all converged or collapsed: nothing moves any more
            look(final, last[1])
        mse, distance, sent = (np.asarray(part) for part in zip(*looks, strict=True))
        rounds = np.asarray(marks)
        gone = (run.collapsed > 0) & (rounds[:, None] >= run.collapsed)
        mse, distance = (np.where(gone, np.nan, part) for part in (mse, distance))
        what = None if run.collapse is None else str(run.collapse)
        return Trace(rounds, mse, distance, sent, final, run.n_rounds, run.collapsed, what)


class Score(NamedTuple):
    """One method's line in a comparison."""

    method: Method
    log_mse: float  #: natural log of the mean over replicates and sites of ||theta - theta_0||^2; NaN if none is left
    standard_error: float  #: of log_mse over replicates
    mse: NDArray  #: (R,), of each replicate, NaN where it collapsed
    rounds: int
    collapsed: int  #: replicates in which a component collapsed
    collapse: str | None  #: what happened in the first of them
    seconds: float


def compare(
    trial: Trial,
    methods: Sequence[Method],
    *,
    max_rounds: int = 3000,
    tol: float = 1e-8,
    watch: Callable[[Method, Progress], None] | None = None,
) -> list[Score]:
    """Fit each data set by every method from the paper's start, and score the estimates."""
    scores = []
    for method in methods:
        began = time.perf_counter()
        follow = None if watch is None else lambda now, method=method: watch(method, now)
        trace = trial.run(method, max_rounds=max_rounds, tol=tol, watch=follow)
        scores.append(
            Score(
                method,
                *log_mean(trace.mse[-1]),
                mse=trace.mse[-1],
                rounds=trace.n_rounds,
                collapsed=int((trace.collapsed > 0).sum()),
                collapse=trace.collapse,
                seconds=time.perf_counter() - began,
            )
        )
    return scores


def log_mean(mse: NDArray) -> tuple[float, float]:
    """The natural log of the mean over the replicates that are left, and its standard error."""
    left = mse[np.isfinite(mse)]
    mean = left.mean() if left.size else np.nan
    error = left.std(ddof=1) / np.sqrt(left.size) / mean if left.size > 1 else np.nan
    return float(np.log(mean)), float(error)


def _joined(traces: Sequence[Trace]) -> Trace:
    """The traces of some replicates each as one."""
    first = traces[0]
    return first._replace(
        mse=np.concatenate([trace.mse for trace in traces], axis=1),
        distance=np.concatenate([trace.distance for trace in traces], axis=1),
        bytes=np.max([trace.bytes for trace in traces], axis=0),
        theta=Theta(*(np.concatenate(parts) for parts in zip(*(trace.theta for trace in traces), strict=True))),
        n_rounds=max(trace.n_rounds for trace in traces),
        collapsed=np.concatenate([trace.collapsed for trace in traces]),
        collapse=next((trace.collapse for trace in traces if trace.collapse is not None), None),
    )
