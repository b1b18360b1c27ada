"""Gaussian differential privacy: what releases with Gaussian noise add up to.

A release whose numbers change by at most mu standard deviations of their noise (in the Euclidean norm) when one
neighbour is added or removed is mu-GDP; releases add up to mu = sqrt(sum mu_t^2), also when each is chosen from those
before (Dong, Roth and Su 2022). For every epsilon, mu-GDP is (epsilon, delta)-differential privacy with

    delta = Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from scipy.special import log_ndtr

LEAST_MU, MOST_MU = 1e-6, 1e3


def delta_of(epsilon: float, mu: float) -> float:
    """The least delta at which mu-GDP is (epsilon, delta)-differential privacy."""
    return float(np.exp(_log_delta(epsilon, mu)))


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu whose guarantee is (epsilon, delta)."""
    return _root(lambda mu: _log_delta(epsilon, mu) - np.log(delta), LEAST_MU, MOST_MU, 1e-13)


def epsilon_of(mu: float, delta: float) -> float:
    """The least epsilon of mu-GDP at a delta; zero where even that is enough."""
    if mu <= 0 or delta_of(0.0, mu) <= delta:
        return 0.0
    most = mu * (mu + 2 * math.sqrt(2 * math.log(1 / delta)))  # beyond the Gaussian tail bound
    return _root(lambda epsilon: _log_delta(epsilon, mu) - np.log(delta), 0.0, most, 1e-12)


def together(mus: Iterable[float]) -> float:
    """The mu of several releases about the same rows."""
    return math.sqrt(math.fsum(mu * mu for mu in mus))


def _root(function: Callable[[float], float], low: float, high: float, within: float) -> float:
    from scipy.optimize import brentq  # only for private fits

    return float(brentq(function, low, high, xtol=within))


def _log_delta(epsilon: float, mu: float) -> float:
    """Finite where delta itself underflows."""
    first, second = log_ndtr(-epsilon / mu + mu / 2), epsilon + log_ndtr(-epsilon / mu - mu / 2)
    return float(first + np.log(-np.expm1(min(second - first, -1e-300))))
