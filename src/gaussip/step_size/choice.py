"""Choosing eta, the step of MNEM: the largest whose bias is small against the statistical error."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from gaussip.algorithms import make
from gaussip.algorithms.base import warn_if_not_pooled
from gaussip.arrays import to_numpy
from gaussip.errors import DataError
from gaussip.estimator import NetworkGaussianMixture
from gaussip.inference.information import parameter_names
from gaussip.mixture.theta import Theta
from gaussip.networks import measures
from gaussip.rows.moments import shrinkage_of
from gaussip.rows.problem import Problem, seeds_of
from gaussip.rows.streaming import on_disk
from gaussip.settings import check, default
from gaussip.starts.given import Given, starts
from gaussip.step_size.outlook import CLOSE, Outlook

ETAS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # those shown
FINE = tuple(np.geomspace(1e-5, 1.0, 26).tolist())  # those looked at for a budget of rounds
SMALLEST = 1e-6
FAR = 10.0  # standard errors of bias beyond which larger steps are not looked at
SAME = 1.05  # steps whose ratio is below are one


class Trial(NamedTuple):
    """What is predicted of one eta."""

    eta: float
    rounds: float  #: until the sites are within a tenth of the standard error of where they end
    bias: float  #: root mean square over sites, in standard errors of the pooled estimate
    mse: float  #: against the truth, over that of the pooled estimate; with a budget, when it is spent
    worst: float | None  #: bias of the single parameter that has most, over sites, in standard errors of its own


class Worst(NamedTuple):
    """The single parameter with the largest bias, in its own standard errors."""

    site: str
    component: str  #: its class, or number
    parameter: str
    errors: float


class Terms(NamedTuple):
    """The quantities of the paper's Theorem 1."""

    n_rows: float  #: N, or the sum of the row weights
    spectral_gap: float  #: of W
    se_w: float  #: SE(W), imbalance
    se_f: float  #: SE(F), heterogeneity, in units in which the start has unit variances
    rate: float  #: of EM on the pooled rows, for which L_max stands


class Step(NamedTuple):
    """A recommended eta, and what is predicted of it."""

    eta: float
    rounds: int  #: to within a tenth of the standard error of where the sites end, or the budget if that is less
    tol: float  #: the change of the sites' average there: a run that stops by it is that near, or nearer
    bias: float  #: root mean square over sites, in standard errors of the pooled estimate
    mse: float  #: against the truth, over that of the pooled estimate
    worst: Worst | None  #: the parameter and site with most bias; None with more than a thousand parameters
    trials: list[Trial]  #: this and others, up to where the bias is many standard errors or there is no fixed point
    least_bias: float  #: what is left of the bias as eta goes to zero; zero where the network is balanced
    exact_rounds: int | None  #: what algorithm="exact" needs instead; None on a one-way network
    standard_error: float  #: of the pooled estimate, over (alpha, mu, vech Sigma), in units of the components' spread
    terms: Terms
    pooled: Theta  #: the estimate that the bias is counted from

    @property
    def max_rounds(self) -> int:
        """By then a run stops by tol, also where the sites' differences wander about the network for long."""
        return 4 * self.rounds + math.ceil(10 / self.eta)


def choose_eta(
    mixture: NetworkGaussianMixture,
    X: Any,
    y: Any = None,
    *,
    sites: Any,
    sample_weight: Any = None,
    rounds: int | None = default("rounds"),
    extra: float = default("extra"),
    watch: Callable[[str, int], None] = lambda text, done: None,
) -> Step:
    """Choose the step of MNEM for a data set and a network.

    The largest eta is recommended whose bias adds at most the share ``extra`` to the mean squared error; with a
    budget of rounds, the one with the least mean squared error when it is spent. MNEM's bias is not bounded but
    computed, from its fixed point. All sites' rows must be in this process.

    Parameters
    ----------
    mixture : NetworkGaussianMixture
        What is to be fitted: components, network, start and the rest are taken from it. Its ``algorithm``, ``eta``,
        ``max_rounds`` and ``tol`` are not looked at. A fitted one with ``warm_start=True`` starts from its estimate.
    X, y, sites, sample_weight : as for its ``fit``
    rounds : the most rounds that there may be; None where only the mean squared error matters
    extra : share of the pooled estimate's mean squared error that the bias may add
    watch : called with a text and the number of etas looked at so far

    Examples
    --------
    >>> import numpy as np
    >>> from gaussip import NetworkGaussianMixture
    >>> from gaussip.selection import choose_eta
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-2, 1, (200, 2)), rng.normal(2, 1, (200, 2))])
    >>> sites = np.repeat(["A", "B", "C", "D"], 100)  # two sites see one group, two the other
    >>> mixture = NetworkGaussianMixture(2, algorithm="mnem", network="circle", random_state=0)
    >>> step = choose_eta(mixture, X, sites=sites)
    >>> fitted = mixture.set_params(eta=step.eta, tol=step.tol, max_rounds=step.max_rounds).fit(X, sites=sites)
    """
    check(rounds=rounds, extra=extra)
    watch("fitting the pooled rows", 0)
    mine, problem, begin = _prepared(mixture, X, y, sites, sample_weight)
    warn_if_not_pooled(make("mnem", 1.0), problem.W, mine.weighting, problem.sites.tolist())
    outlook = _best_outlook(mine, problem, begin)
    least = outlook.bias(0.0)
    trials = []
    for number, eta in enumerate(ETAS, 1):
        watch(f"eta={eta:g}", number)
        if outlook.bias(eta) > max(FAR, 3 * least):
            break
        trials.append(_trial(outlook, eta, rounds))
    eta = _largest(outlook, extra) if rounds is None else _best_within(outlook, int(rounds))
    chosen = _trial(outlook, eta, rounds)
    needed = math.ceil(chosen.rounds)
    network = measures(problem.W)
    return Step(
        eta=eta,
        rounds=max(1, needed if rounds is None else min(needed, int(rounds))),
        tol=outlook.course.change_at(CLOSE),
        bias=chosen.bias,
        mse=chosen.mse,
        worst=_worst(mine, problem, outlook, eta),
        trials=sorted({*trials, chosen}),
        least_bias=least if least > 1e-4 else 0.0,
        exact_rounds=outlook.exact_rounds(),
        standard_error=outlook.standard_error,
        terms=Terms(
            n_rows=float(to_numpy(problem.rows.mass).sum()),
            spectral_gap=network.spectral_gap,
            se_w=network.se_w,
            se_f=outlook.heterogeneity(),
            rate=outlook.rate,
        ),
        pooled=outlook.pooled,
    )


def _prepared(
    mixture: NetworkGaussianMixture, X: Any, y: Any, sites: Any, sample_weight: Any
) -> tuple[NetworkGaussianMixture, Problem, list[Theta]]:
    """The settings, the checked problem, and the starts that a fit would take."""
    if sites is None or on_disk(X):
        raise DataError("choose_eta needs all rows in one table in memory, and sites, which names the site of each")
    mine = clone(mixture).set_params(device="cpu")
    mine._check_settings()
    seeds = seeds_of(mine.random_state, mine.n_init)
    problem = mine._prepared(X, y, sites, sample_weight, seeds[0])
    if len(problem.sites) < 2:
        raise DataError(f"all rows are of site {problem.sites[0]!r}: one site has nobody to average with, and no eta")
    if mine.warm_start and hasattr(mixture, "weights_"):
        return mine, problem, [mixture._theta()]
    given = Given(mine.weights_init, mine.means_init, mine.covariances_init)
    settled = (float(mine.reg_covar), float(mine.shrinkage))
    return mine, problem, starts(problem, mine.n_components, mine.init_params, seeds[1:], given, *settled)


def _best_outlook(mine: NetworkGaussianMixture, problem: Problem, begin: list[Theta]) -> Outlook:
    """Of the start that leads to the best likelihood; one start that holds is enough."""
    found, fault = list[Outlook](), None
    for start in begin:
        try:
            shrinkage = shrinkage_of(float(mine.shrinkage), start)
            found.append(Outlook(problem.rows, problem.W, start, mine.weighting, float(mine.reg_covar), shrinkage))
        except DataError as error:
            fault = error
    if fault is not None and not found:
        raise fault
    return max(found, key=Outlook.log_likelihood)


def _trial(outlook: Outlook, eta: float, budget: int | None) -> Trial:
    bias, farthest = outlook.bias(eta), outlook.farthest(eta)
    left = 0.0 if budget is None else outlook.course.distance_after(budget, eta)
    return Trial(eta, outlook.rounds(eta), bias, 1 + bias**2 + left**2, None if farthest is None else farthest.errors)


def _worst(mine: NetworkGaussianMixture, problem: Problem, outlook: Outlook, eta: float) -> Worst | None:
    """The farthest parameter by name."""
    found = outlook.farthest(eta)
    if found is None:
        return None
    features = getattr(mine, "feature_names_in_", [f"column {j}" for j in range(mine.n_features_in_)])
    k, classes = found.component, problem.classes.tolist()
    return Worst(
        site=str(problem.sites[found.site]),
        component=str(classes[k]) if k < len(classes) else f"component {k}",
        parameter=parameter_names([str(name) for name in features])[found.parameter],
        errors=found.errors,
    )


def _largest(outlook: Outlook, extra: float) -> float:
    """The largest eta whose mean squared error is at most 1 + extra times the least there is, to two digits."""
    mse = {eta: 1 + outlook.bias(eta) ** 2 for eta in (0.0, *ETAS)}
    allowed = (1 + extra) * min(mse.values())

    def small(eta: float) -> bool:
        return 1 + outlook.bias(eta) ** 2 <= allowed

    low = max(eta for eta in mse if mse[eta] <= allowed)
    if low == ETAS[-1]:
        return low
    high = min(eta for eta in ETAS if eta > low)
    if low == 0:
        low = high
        while not small(low) and low > SMALLEST:
            high, low = low, low / 4
    while high / low > SAME:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if small(middle) else (low, middle)
    return _rounded_down(low)


def _best_within(outlook: Outlook, budget: int) -> float:
    """The eta with the least mean squared error after so many rounds, to two digits."""
    found = []
    for eta in FINE:
        found.append(_trial(outlook, eta, budget).mse)
        if outlook.bias(eta) > FAR:
            break
    best = int(np.argmin(found))
    around = np.log([FINE[max(best - 1, 0)], FINE[min(best + 1, len(FINE) - 1)]])
    options = {"xatol": math.log(SAME)}
    refined = minimize_scalar(
        lambda x: _trial(outlook, math.exp(x), budget).mse, bounds=around, method="bounded", options=options
    )
    return _rounded_down(min(1.0, math.exp(refined.x) if refined.fun < found[best] else FINE[best]))


def _rounded_down(eta: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(eta) + 1e-9) - 1)
    return float(f"{math.floor(eta / unit + 1e-6) * unit:.2g}")
