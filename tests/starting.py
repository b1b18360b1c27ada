"""Starts that sites find together, for tests."""

from __future__ import annotations

import numpy as np

from gaussip.rows.problem import prepare
from gaussip.starts.given import Regularised, found


def held_of(X, sites, labels=None, weights=None, K=3):
    return prepare(X, labels, sites, weights, n_components=K, network="complete").held


def start_of(held, K=3, kind="kmeans", seed=0, min_count=5):
    return found(held, K, kind, [seed], Regularised(0.0, 0.0, min_count))[0]


def asked(computation, held, rounded=lambda total: total):
    """What a computation returns, and its questions: the sites' parts and the total."""
    questions, ask = [], next(computation)
    try:
        while True:
            parts = ask.part(held)
            total = rounded(ask.code.decode(ask.code.encode(parts, held.n_sites).sum(axis=0)))
            questions.append((parts, total))
            ask = computation.send(total)
    except StopIteration as end:
        return end.value, questions


def apart(theta, other):
    return max(np.abs(mine - theirs).max() for mine, theirs in zip(theta, other, strict=True))
