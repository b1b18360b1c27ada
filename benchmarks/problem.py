"""The workloads, and what is done to them: gaussip's kernels, and what users would pick instead."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from gaussip.algorithms import make
from gaussip.kernels import REFERENCE, kernel_for
from gaussip.mixture.sampling import sample
from gaussip.mixture.theta import Theta, width
from gaussip.networks import mixing_weights
from gaussip.rows.moments import moments
from gaussip.rows.rows import Rows
from gaussip.simulation.run import Run, simulate


class Workload(NamedTuple):
    """Rows over sites."""

    n_rows: int
    n_sites: int
    n_features: int
    n_components: int

    @property
    def flops(self) -> float:
        """Of the hot function: a multiplication and an addition for each coefficient and each sum, of each row."""
        return 4.0 * self.n_rows * self.n_components * width(self.n_features)

    @property
    def bytes(self) -> float:
        """Of the rows, read once."""
        return 8.0 * self.n_rows * self.n_features


class Problem(NamedTuple):
    """A workload's rows and parameters."""

    X: Any
    rows: Rows
    start: Theta
    work: Workload


def problem(work: Workload) -> Problem:
    """Rows of a mixture, dealt to the sites, and a start near it."""
    rng = np.random.default_rng(0)
    K, p = work.n_components, work.n_features
    means = 2.0 * rng.standard_normal((K, p)) / np.sqrt(p)
    spread = np.broadcast_to(0.9 * np.eye(p) + 0.1, (K, p, p))
    X, _ = sample(Theta(np.full(K, 1 / K), means, spread), work.n_rows, rng)
    start = Theta(np.full(K, 1 / K), means + 0.1 * rng.standard_normal((K, p)), np.array(spread))
    return Problem(X, Rows.of_sites(np.array_split(X, work.n_sites)), start, work)


def everywhere(given: Problem) -> Theta:
    """The start at every site."""
    M = given.work.n_sites
    return Theta(*(np.ascontiguousarray(np.broadcast_to(part, (M, *part.shape))) for part in given.start))


def reference(given: Problem) -> Callable[[], object]:
    """The hot function in NumPy."""
    return partial(moments, given.rows, everywhere(given), 0.0, REFERENCE)


def compiled(given: Problem) -> Callable[[], object]:
    """The hot function, compiled."""
    theta = everywhere(given)
    return partial(moments, given.rows, theta, 0.0, kernel_for(theta.means))


def mnem(given: Problem, rounds: int) -> Callable[[], object]:
    """``rounds`` rounds of MNEM, everything included."""
    W = mixing_weights("circle", range(given.work.n_sites)) if given.work.n_sites > 1 else np.ones((1, 1))
    return partial(simulate, make("mnem", 0.01), given.start, given.rows, W, max_rounds=rounds)


def em(given: Problem, rounds: int, *, accelerate: bool) -> Callable[[], Run]:
    """So many rounds of EM on all rows, everything included."""
    M = given.work.n_sites
    algorithm = make("em", 1.0, accelerate=accelerate)
    return partial(simulate, algorithm, given.start, given.rows, np.full((M, M), 1 / M), max_rounds=rounds, tol=1e-12)


def scikit_learn(given: Problem, iterations: int) -> Callable[[], object]:
    """EM iterations of scikit-learn's from the same start; one costs the difference of two fits, divided."""
    start = given.start

    def fit() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            GaussianMixture(
                len(start.weights), tol=0, max_iter=iterations, reg_covar=0, weights_init=start.weights,
                means_init=start.means, precisions_init=np.linalg.inv(start.covariances),
            ).fit(given.X)  # fmt: skip

    return fit


def pomegranate(given: Problem) -> Callable[[], object] | None:
    """One EM iteration of pomegranate's from the same start, or None where it is not installed."""
    try:
        import torch
        from pomegranate.distributions import Normal
        from pomegranate.gmm import GeneralMixtureModel
    except ImportError:
        return None
    X = torch.tensor(given.X)
    parts = [
        Normal(torch.tensor(mean), torch.tensor(covariance), covariance_type="full")
        for mean, covariance in zip(given.start.means, given.start.covariances, strict=True)
    ]
    model = GeneralMixtureModel(parts, priors=torch.tensor(given.start.weights))

    def iterate() -> None:
        model.summarize(X)
        model.from_summaries()

    return iterate
