"""All sites in one process: the rounds, and when to stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms import Algorithm, Site, one_round
from gaussip.arrays import Array, NDArray, namespace, to_device, to_numpy
from gaussip.collapse import Collapses, positive_definite
from gaussip.errors import CollapseError, PooledTargetWarning
from gaussip.exchange import Stacked
from gaussip.history import History, Progress, Recorder
from gaussip.moments import moments
from gaussip.networks import degree_shares, degrees, stationary_weights
from gaussip.parameters import Psi, Theta, pack, scale, to_psi, to_theta
from gaussip.rows import Rows
from gaussip.validation import check_choice

WEIGHTINGS = ("rows", "equal")


class Run(NamedTuple):
    """What a simulation ends with."""

    theta: Theta  #: each site's estimate, (..., M, K, ...)
    history: History
    n_rounds: int
    converged: NDArray  #: whether the last change was at most tol, per replicate
    collapse: CollapseError | None  #: the first collapse, where collapses are recorded and not raised
    collapsed: NDArray  #: round of the collapse per replicate, 0 where there was none


def site_facts(mass: Array, W: Any, weighting: str) -> Site:
    """What each site knows of itself: its share of the rows, its balance and its degree.

    Parameters
    ----------
    mass : (..., M), the sites' row weights
    W : (M, M) weights
    weighting : ``"rows"`` (every row counts alike: the target is the pooled estimate) or ``"equal"`` (every
        site counts alike, whatever its size: the paper's)
    """
    check_choice("weighting", weighting, WEIGHTINGS)
    xp = namespace(mass)

    def per_site(values: NDArray) -> Array:
        return xp.broadcast_to(xp.asarray(values, dtype=mass.dtype, device=mass.device), mass.shape)

    ones = xp.ones_like(mass)
    degree = per_site(degrees(W))
    if weighting == "equal":
        return Site(ones, ones, degree)
    return Site(mass / xp.mean(mass, axis=-1, keepdims=True), per_site(degree_shares(W)), degree)


def warn_if_not_pooled(algorithm: Algorithm, W: Any, weighting: str, sites: Sequence[Any]) -> None:
    """Say so where the network keeps ``weighting="rows"`` from aiming at the pooled estimate."""
    if weighting != "rows" or not algorithm.network_sets_target:
        return
    counted = len(sites) * stationary_weights(W) / degree_shares(W)
    if np.abs(counted - 1).max() > 1e-6:
        low, high = int(counted.argmin()), int(counted.argmax())
        warnings.warn(
            f"on this network a row does not count the same at every site: {counted[low]:.2f} times at site "
            f"{sites[low]!r}, {counted[high]:.2f} times at site {sites[high]!r}, so {algorithm.name} does not aim "
            "at the pooled estimate. Use a circle, a complete network, or a two-way network (ring, grid, "
            "random-regular, ...), or give a weight matrix whose columns sum to one.",
            PooledTargetWarning,
            stacklevel=3,
        )


def simulate(
    algorithm: Algorithm,
    start: Theta,
    rows: Rows,
    W: Any,
    *,
    max_rounds: int,
    tol: float = 0.0,
    reg_covar: float = 0.0,
    weighting: str = "rows",
    sites: Sequence[Any] | None = None,
    record_collapse: bool = False,
    watch: Callable[[Progress], None] | None = None,
) -> Run:
    """Run an algorithm over all sites in this process.

    Parameters
    ----------
    start : Theta that broadcasts to the leading axes of ``rows``, the same or one for each site
    rows : Rows with leading axes (M,) or (R, M)
    W : (M, M) weights, dense or sparse
    tol : stop when the change is at most this (in every replicate); 0 stops early only when nothing moves
    sites : names of the sites, for errors; 0..M-1 by default
    record_collapse : go on (other replicates) or end quietly where a component collapses, instead of raising
    watch : called after each round
    """
    names = range(rows.shape[-1]) if sites is None else sites
    warn_if_not_pooled(algorithm, W, weighting, names)
    start = _broadcast(start, rows.shape)
    exchange = Stacked(W)
    measure = partial(moments, rows, reg_covar=reg_covar)
    collapses = Collapses(rows.shape, names, record_collapse)
    recorder = Recorder(start, rows.mass, algorithm.eta)
    state = algorithm.init(start, site_facts(rows.mass, W, weighting))
    theta = start
    converged = np.zeros(rows.shape[:-1], dtype=bool)
    number = 0
    with np.errstate(all="ignore"):  # a component that collapses divides by zero
        for number in range(1, max_rounds + 1):
            after, at, found = one_round(algorithm, state, exchange, measure)
            if at is None or found is None:
                state = _keep(converged | (collapses.rounds > 0), state, after)
                continue
            reached = algorithm.estimate(after)
            collapses.check(number, at, namespace(rows.mass).isfinite(found.log_likelihood))
            collapses.check(number, reached, positive_definite(reached))
            done = converged | (collapses.rounds > 0)
            state, theta = _keep(done, state, after), _keep(done, theta, reached)
            now = recorder.record(number, theta, found, exchange.bytes_sent)
            if watch is not None:
                watch(now)
            converged = now.change <= tol
            if (converged | (collapses.rounds > 0)).all():
                break
    converged = np.asarray(converged & (collapses.rounds == 0))
    return Run(theta, recorder.history(), number, converged, collapses.first, collapses.rounds)


def _keep(done: NDArray, before: Any, after: Any) -> Any:
    """A State or Theta after a round, with the replicates that are done left as they were.

    So a replicate's result does not depend on which others run beside it, or for how long.
    """
    if not done.any() or (not hasattr(after, "shape") and not isinstance(after, tuple)):
        return after
    if isinstance(after, tuple):
        return type(after)(*(_keep(done, old, new) for old, new in zip(before, after, strict=True)))
    xp = namespace(after)
    mask = xp.asarray(done.reshape(done.shape + (1,) * (after.ndim - done.ndim)), device=after.device)
    return xp.where(mask, before, after)


def consensus(theta: Theta, mass: Array) -> Theta:
    """The sites' mass-weighted average in psi: (..., M) sites to (...)."""
    xp = namespace(mass)
    share = mass / xp.sum(mass, axis=-1, keepdims=True)
    psi = scale(to_psi(theta), share)
    axis = mass.ndim - 1
    return to_theta(Psi(*(xp.sum(part, axis=axis) for part in psi)))


def distance(theta: Theta, pooled: Theta) -> float:
    """M^(-1/2) times the norm of the sites' stacked psi minus the pooled psi, for sites (M,)."""
    apart = pack(to_psi(Theta(*map(to_numpy, theta)))) - pack(to_psi(Theta(*map(to_numpy, pooled))))
    return float(np.sqrt(np.mean(np.sum(apart**2, axis=-1))))


def place(theta: Theta, device: str) -> Theta:
    """A Theta on the device (NumPy for the CPU)."""
    return Theta(*(to_device(part, device) for part in theta))


def _broadcast(theta: Theta, shape: tuple[int, ...]) -> Theta:
    xp = namespace(theta.means)
    K, p = theta.means.shape[-2:]
    sizes = ((K,), (K, p), (K, p, p))
    return Theta(*(xp.broadcast_to(part, (*shape, *size)) for part, size in zip(theta, sizes, strict=True)))
