"""MNEM with a step that starts large and is halved when progress stalls: soon near the answer, then close to it."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from gaussip.arrays import NDArray
from gaussip.errors import DiagnosisWarning, SettingError
from gaussip.estimator import NetworkGaussianMixture
from gaussip.fitting import seeds_of

LARGEST = 0.5
BLOCK = 20  # rounds between two looks, at least


def fit_shrinking(
    mixture: NetworkGaussianMixture,
    X: Any,
    y: Any = None,
    *,
    sites: Any,
    sample_weight: Any = None,
    times: int = 4,
) -> NetworkGaussianMixture:
    """Fit by MNEM with the steps ``times`` * eta, half of that, and so on down to the mixture's own eta.

    A step is halved when the sites' average is nearer to where that step leads than the sites are to each other: then
    its bias, not the way, is what is left. The last step ends by the mixture's ``tol``; all share ``max_rounds``.

    Parameters
    ----------
    mixture : with algorithm="mnem" and the last step; not changed
    times : a power of two; the first step is at most 0.5

    Returns
    -------
    A fitted mixture, with the rounds and the history of all steps.
    """
    if mixture.algorithm != "mnem":
        raise SettingError(f"steps shrink for algorithm='mnem', not {mixture.algorithm!r}")
    if times < 1 or times & (times - 1):
        raise SettingError(f"times={times} must be a power of two: 1, 2, 4, ...")
    while times > 1 and times * mixture.eta > LARGEST:
        times //= 2
    found: NetworkGaussianMixture = clone(mixture)
    if not isinstance(mixture.random_state, Integral):  # or every block would draw another random network
        found.random_state = seeds_of(mixture.random_state, 0)[0]
    parts: list[dict[str, NDArray]] = []
    done = 0
    with warnings.catch_warnings():
        for unfinished in (ConvergenceWarning, DiagnosisWarning):
            warnings.simplefilter("ignore", unfinished)
        for halvings in reversed(range(times.bit_length())):
            eta = mixture.eta * 2**halvings
            last = halvings == 0
            while done < mixture.max_rounds:
                block = max(BLOCK, round(1 / eta))
                left = mixture.max_rounds - done
                found.set_params(eta=eta, max_rounds=left if last else min(block, left), warm_start=done > 0)
                found.fit(X, y, sites=sites, sample_weight=sample_weight)
                parts.append(found.history_)
                done += found.n_rounds_
                if last or stalled(found.history_, eta):
                    break
    found.set_params(**mixture.get_params())
    found.history_ = _joined(parts)
    found.n_rounds_ = done
    found._warn_if_not_converged()
    found._warn_of_findings()
    return found


def stalled(history: dict[str, NDArray], eta: float) -> bool:
    """Whether the way left, by the rate of the last rounds, is shorter than the sites are apart."""
    change = history["change"]
    if len(change) < 2 or change[-1] == 0:
        return True
    half = len(change) // 2
    fall = 1 - (change[-1] / change[half]) ** (1 / (len(change) - 1 - half)) if change[half] > 0 else 1.0
    return bool(fall > 0 and change[-1] * eta / fall < history["disagreement"][-1])


def _joined(parts: list[dict[str, NDArray]]) -> dict[str, NDArray]:
    """Histories one after the other: rounds and bytes go on counting."""
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    for name in ("round", "bytes"):
        before = np.cumsum([0, *(part[name][-1] for part in parts[:-1])])
        found[name] = np.concatenate([part[name] + start for part, start in zip(parts, before, strict=True)])
    return found
