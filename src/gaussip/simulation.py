"""All sites in one process: the rounds, and when to stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms import Algorithm, Site, one_round
from gaussip.arrays import Array, NDArray, namespace, to_device, to_numpy
from gaussip.batches import in_batches
from gaussip.collapse import collapse_error, healthy
from gaussip.errors import CollapseError, PooledTargetWarning
from gaussip.exchange import Stacked
from gaussip.history import History, Progress
from gaussip.moments import Shrinkage, moments
from gaussip.networks import degree_shares, degrees, listening, stationary_weights, two_way_weights
from gaussip.parameters import Theta, to_psi, to_theta
from gaussip.rounds import Carry, Rounds
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
    hears = xp.asarray(listening(W), dtype=mass.dtype, device=mass.device)
    place = xp.broadcast_to(xp.arange(hears.shape[0], device=mass.device), mass.shape)
    known = (per_site(degrees(W)), place, xp.broadcast_to(hears, (*mass.shape, hears.shape[0])))
    if weighting == "equal":
        return Site(ones, ones, *known)
    return Site(mass / xp.mean(mass, axis=-1, keepdims=True), per_site(degree_shares(W)), *known)


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
    shrinkage: Shrinkage | None = None,
    weighting: str = "rows",
    sites: Sequence[Any] | None = None,
    record_collapse: bool = False,
    marks: Sequence[int] = (),
    watch: Callable[[Progress], None] | None = None,
) -> Run:
    """Run an algorithm over all sites in this process.

    Parameters
    ----------
    start : Theta that broadcasts to the leading axes of ``rows``, the same or one for each site
    rows : Rows with leading axes (M,) or (R, M)
    W : (M, M) weights, dense or sparse
    shrinkage : of covariances, with a target that broadcasts to the leading axes
    tol : stop when the change is at most this (in every replicate); 0 stops early only when nothing moves
    sites : names of the sites, for errors; 0..M-1 by default
    record_collapse : go on (other replicates) or end quietly where a component collapses, instead of raising
    marks : rounds whose theta ``watch`` is to see
    watch : called after each round; on a GPU after every fifty and after marks, for each of them, with the theta of
        the last
    """
    names = range(rows.shape[-1]) if sites is None else sites
    if algorithm.two_way:
        W = two_way_weights(W, names, algorithm.name)
    warn_if_not_pooled(algorithm, W, weighting, names)
    start = _broadcast(start, rows.shape)
    exchange = Stacked(W, site_axis=len(rows.shape) - 1)
    measured = partial(moments, rows, reg_covar=reg_covar, shrinkage=shrinkage)
    rounds = Rounds(algorithm, exchange, measured, rows.mass, tol)
    carry = rounds.begin(start, algorithm.init(start, site_facts(rows.mass, W, weighting)))
    on_gpu = getattr(start.means, "is_cuda", False) and rows.in_memory
    driver = partial(in_batches, marks=marks) if on_gpu else Rounds.one_by_one
    seen_rounds: list[tuple[Any, ...]] = []
    collapse: CollapseError | None = None
    collapsed = np.zeros(rows.shape[:-1], dtype=int)
    converged = np.zeros(rows.shape[:-1], dtype=bool)
    number = 0
    with np.errstate(all="ignore"):  # a component that collapses divides by zero
        for look in driver(rounds, carry, max_rounds):
            carry = look.carry
            number += 1
            for number, seen, sent in look.rounds:
                fresh = seen.collapsed & (collapsed == 0)
                if fresh.any():
                    collapsed = np.where(fresh, number, collapsed)
                    error = _explain(rounds, look.before, number, names, fresh)
                    if not record_collapse:
                        raise error
                    collapse = collapse or error
                converged = seen.converged
                seen_rounds.append((number, *seen[:3], sent))
                if watch is not None:
                    watch(Progress(carry.theta, *seen_rounds[-1]))
                if (converged | seen.collapsed).all():
                    break
            if (converged | (collapsed > 0)).all():
                break
    converged = np.asarray(converged & (collapsed == 0))
    return Run(carry.theta, History.of(seen_rounds), number, converged, collapse, collapsed)


def _explain(rounds: Rounds, carry: Carry, number: int, names: Sequence[Any], fresh: NDArray) -> CollapseError:
    """The error for replicates that collapsed: the round is run again from where they stood before it."""
    sent = rounds.exchange.bytes_sent
    after, at, found = one_round(rounds.algorithm, carry.state, rounds.exchange, rounds.measured)
    rounds.exchange.bytes_sent = sent  # nothing is sent a second time
    assert at is not None
    assert found is not None
    for theta, sound in ((at, found.log_likelihood), (rounds.algorithm.estimate(after), None)):
        finite = healthy(theta) if sound is None else namespace(sound).isfinite(sound)
        unhealthy = fresh[..., None] & ~to_numpy(finite)
        if unhealthy.any():
            return collapse_error(number, names, theta, unhealthy)
    raise AssertionError("a round gave other numbers when it was run again")


def consensus(theta: Theta, mass: Array) -> Theta:
    """The sites' mass-weighted average in psi: (..., M) sites to (...)."""
    xp = namespace(mass)
    share = mass / xp.sum(mass, axis=-1, keepdims=True)
    return to_theta(xp.sum(share[..., None, None] * to_psi(theta), axis=-3))


def distance(theta: Theta, pooled: Theta) -> float:
    """M^(-1/2) times the norm of the sites' stacked psi minus the pooled psi, for sites (M,)."""
    apart = to_psi(Theta(*map(to_numpy, theta))) - to_psi(Theta(*map(to_numpy, pooled)))
    return float(np.sqrt(np.mean(np.sum(apart**2, axis=(-2, -1)))))


def place(theta: Theta, device: str) -> Theta:
    """A Theta on the device (NumPy for the CPU)."""
    return Theta(*(to_device(part, device) for part in theta))


def _broadcast(theta: Theta, shape: tuple[int, ...]) -> Theta:
    xp = namespace(theta.means)
    K, p = theta.means.shape[-2:]
    sizes = ((K,), (K, p), (K, p, p))
    return Theta(*(xp.broadcast_to(part, (*shape, *size)) for part, size in zip(theta, sizes, strict=True)))
