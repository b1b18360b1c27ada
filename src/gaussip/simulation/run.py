"""All sites in one process: the rounds, and when to stop."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms import Algorithm, one_round
from gaussip.algorithms.base import SUMS, warn_if_not_pooled
from gaussip.algorithms.masked import support_error
from gaussip.algorithms.site import site_facts
from gaussip.algorithms.summed import LIMBS, size_of
from gaussip.arrays import NDArray, namespace, to_numpy
from gaussip.errors import CollapseError
from gaussip.exchange import Stacked
from gaussip.exchange.in_process import Sums
from gaussip.exchange.questions import NOTHING, Spent
from gaussip.mixture.theta import Theta, broadcast
from gaussip.mixture.validity import collapse_error, healthy
from gaussip.networks import two_way_weights
from gaussip.rows.moments import Shrinkage, moments
from gaussip.rows.rows import Rows
from gaussip.simulation.cuda_graphs import in_batches
from gaussip.simulation.history import History, Progress
from gaussip.simulation.rounds import Carry, Rounds


class Run(NamedTuple):
    """What a simulation ends with."""

    theta: Theta  #: each site's estimate, (..., M, K, ...)
    history: History
    n_rounds: int
    converged: NDArray  #: whether the last change was at most tol, per replicate
    collapse: CollapseError | None  #: the first collapse, where collapses are recorded and not raised
    collapsed: NDArray  #: round of the collapse per replicate, 0 where there was none
    carry: Carry | None = None  #: where the run stopped: what `simulate` resumes from


def simulate(
    algorithm: Algorithm,
    start: Theta,
    rows: Rows,
    W: Any,
    *,
    max_rounds: int,
    until_seen: int = 0,
    tol: float = 0.0,
    reg_covar: float = 0.0,
    shrinkage: Shrinkage | None = None,
    weighting: str = "rows",
    sites: Sequence[Any] | None = None,
    classes: Sequence[Any] = (),
    features: Sequence[str] | None = None,
    record_collapse: bool = False,
    marks: Sequence[int] = (),
    before: Spent = NOTHING,
    resume: Carry | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> Run:
    """Run an algorithm over all sites in this process.

    Parameters
    ----------
    start : Theta that broadcasts to the leading axes of ``rows``, the same or one for each site
    rows : Rows with leading axes (M,) or (R, M)
    W : (M, M) weights, dense or sparse
    until_seen : the most rounds where the rows were not looked at in ``max_rounds``: exact first surveys the network
    shrinkage : of covariances, with a target that broadcasts to the leading axes
    tol : stop when the change is at most this (in every replicate); 0 stops early only when nothing moves
    sites, classes, features : names, for errors; the first components are those of the classes
    record_collapse : go on (other replicates) or end quietly where a component collapses, instead of raising
    before : what the sites sent before the first round
    resume : the ``carry`` of a run with the same algorithm, start, rows and W, which this run continues bit by bit
    marks : rounds whose theta ``watch`` is to see
    watch : called after each round; on a GPU after every fifty and after marks, for each of them, with the theta of
        the last
    """
    names = range(rows.shape[-1]) if sites is None else sites
    if algorithm.two_way:
        W = two_way_weights(W, names, algorithm.name)
    warn_if_not_pooled(algorithm, W, weighting, names)
    start = broadcast(start, rows.shape)
    exchange = _exchange(algorithm, rows, W, start)
    measure = partial(moments, rows, reg_covar=reg_covar, shrinkage=shrinkage)
    rounds = Rounds(algorithm, exchange, measure, rows.mass, tol)
    carry = rounds.begin(start, algorithm.init(start, site_facts(rows.mass, W, weighting)))
    if resume is not None:
        carry = resume._replace(converged=carry.converged, collapsed=carry.collapsed)
    on_gpu = getattr(start.means, "is_cuda", False) and rows.in_memory
    driver = partial(in_batches, marks=marks) if on_gpu else Rounds.one_by_one
    seen_rounds: list[tuple[Any, ...]] = []
    collapse: CollapseError | None = None
    collapsed = np.zeros(rows.shape[:-1], dtype=int)
    converged = np.zeros(rows.shape[:-1], dtype=bool)
    number = 0
    with np.errstate(all="ignore"):  # a component that collapses divides by zero
        for look in driver(rounds, carry, max_rounds, until_seen):
            carry = look.carry
            number += 1
            for number, seen, sent in look.rounds:
                fresh = seen.collapsed & (collapsed == 0)
                if fresh.any():
                    collapsed = np.where(fresh, number, collapsed)
                    error = _explain(rounds, look.before, number, names, (classes, features), fresh)
                    if not record_collapse:
                        raise error
                    collapse = collapse or error
                converged = seen.converged
                seen_rounds.append((number, *seen[:5], *before.plus(sent)))
                if watch is not None:
                    watch(Progress(broadcast(carry.theta, rows.shape), *seen_rounds[-1]))
                if (converged | seen.collapsed).all():
                    break
            if (converged | (collapsed > 0)).all():
                break
    converged = np.asarray(converged & (collapsed == 0))
    history = History.of(seen_rounds)
    return Run(broadcast(carry.theta, rows.shape), history, number, converged, collapse, collapsed, carry)


def _exchange(algorithm: Algorithm, rows: Rows, W: Any, start: Theta) -> Stacked | Sums:
    if algorithm.source != SUMS:
        return Stacked(W, site_axis=len(rows.shape) - 1)
    K, p = start.means.shape[-2:]
    return Sums(W, LIMBS.words(K * p + 2), size_of(K, p, rows.incomplete))


def _explain(
    rounds: Rounds, carry: Carry, number: int, names: Sequence[Any], known: tuple[Any, Any], fresh: NDArray
) -> CollapseError:
    """The error for replicates that collapsed: the round is run again from where they stood before it."""
    sent = rounds.spent
    after, step = one_round(rounds.algorithm, carry.state, rounds.exchange, rounds.measure)
    rounds.exchange.exchanges, rounds.exchange.bytes_sent = sent  # nothing is sent a second time
    assert step is not None
    if (short := np.broadcast_to(to_numpy(step.info.short), fresh.shape) & fresh).any():
        replicate = tuple(np.argwhere(short)[0])
        return support_error(number, to_numpy(step.info.support)[replicate], rounds.algorithm, *known)
    reached = rounds.algorithm.estimate(after)
    for theta, sound in ((step.theta, step.moments.log_likelihood), (reached, None)):
        finite = healthy(theta) if sound is None else namespace(sound).isfinite(sound)
        unhealthy = fresh[..., None] & ~to_numpy(finite)
        if unhealthy.any():
            return collapse_error(number, [None] if rounds.algorithm.replicated else names, theta, unhealthy)
    raise AssertionError("a round gave other numbers when it was run again")
