"""Which component of a site collapsed, and whether there is a way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gaussip.algorithms.stopping import Together
from gaussip.errors import CollapseError
from gaussip.mixture.theta import Theta
from gaussip.mixture.validity import collapse_error, healthy
from gaussip.phases.task import Task
from gaussip.rows.moments import Moments

TOLD = "it told all sites, which stopped together"  #: what the others know of it


def is_lost(task: Task, state: Any) -> bool:
    """Whether a collapse here is not over: not told to all yet, or without a way back."""
    pending = max(state.seen[0], state.told[0]) > 0
    lost = not bool(healthy(task.algorithm.estimate(state)))
    return lost or (pending and isinstance(task.algorithm, Together))


def explained(
    task: Task, index: int, state: Any, theta: Theta, measure: Callable[[Theta], Moments], round: int
) -> CollapseError | None:
    """The collapse at this site, if a component did, in a round that took moments at theta from this state."""
    inner = getattr(task.algorithm, "algorithm", task.algorithm)
    inside = getattr(state, "inner", state)
    tried = [theta, inner.estimate(inner.update(inside, measure(theta)))]
    if callable(getattr(inside, "theta", None)):  # exact, which goes back before it gives up
        tried.append(inside.theta(inside.x))
    for one in tried:
        if not healthy(one):
            whole = Theta(*(part[None] for part in one))
            return collapse_error(round, [task.sites[index]], whole, np.array([True]))
    return None
