"""Choosing eta, the step of MNEM: the largest whose bias is small against the statistical error."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from gaussip.algorithms import make
from gaussip.algorithms.base import warn_if_not_pooled
from gaussip.arrays import to_numpy
from gaussip.errors import DataError, SettingError, Text
from gaussip.estimator import NetworkGaussianMixture
from gaussip.estimator.preparation import check_settings, prepared
from gaussip.inference.information import parameter_names
from gaussip.mixture.covariance_types import FULL, named
from gaussip.mixture.theta import Theta
from gaussip.networks import measures
from gaussip.rows.checks import feature_names
from gaussip.rows.moments import shrinkage_of
from gaussip.rows.problem import Problem, seeds_of
from gaussip.rows.streaming import on_disk
from gaussip.settings import check, default
from gaussip.starts.given import Given, Regularised, starts
from gaussip.step_size.outlook import CLOSE, Outlook

ETAS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # shown in the table
FINE = tuple(np.geomspace(1e-5, 1.0, 26).tolist())  # tried for a budget of rounds
SMALLEST = 1e-6
FAR = 10.0  # standard errors of bias: larger steps are not tried
SAME = 1.05  # two steps with a smaller ratio count as equal


class Trial(NamedTuple):
    """The prediction for one eta."""

    eta: float
    rounds: float  #: until the sites are within a tenth of the standard error of their limit
    bias: float  #: root mean square over sites, in standard errors of the pooled estimate
    mse: float  #: against the truth, over that of the pooled estimate; with a budget, at its end
    worst: float | None  #: the largest bias of any parameter at any site, in its standard errors


class Worst(NamedTuple):
    """The parameter with the largest bias, in its standard errors."""

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
    rate: float  #: of EM on the pooled rows: the paper's L_max


class Step(NamedTuple):
    """A recommended eta, and the prediction for it."""

    eta: float
    rounds: int  #: until the sites are within a tenth of the standard error of their limit, or the budget if less
    tol: float  #: the change of the sites' average there: a run that stops by it is as near, or nearer
    bias: float  #: root mean square over sites, in standard errors of the pooled estimate
    mse: float  #: against the truth, over that of the pooled estimate
    worst: Worst | None  #: the parameter and site with the largest bias; None with more than a thousand parameters
    trials: list[Trial]  #: this and others, until the bias is many standard errors or there is no fixed point
    least_bias: float  #: the bias that remains as eta goes to zero; zero on a balanced network
    standard_error: float  #: of the pooled estimate, over (alpha, mu, vech Sigma), in units of the components' spread
    terms: Terms
    pooled: Theta  #: the estimate that the bias is measured from

    @property
    def max_rounds(self) -> int:
        """Enough for a run to stop by tol, even where the sites' differences take long to even out."""
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

    The recommended eta is the largest whose bias adds at most the share ``extra`` to the mean squared error; with a
    budget of rounds, the one with the least mean squared error at its end. MNEM's bias is computed exactly, from its
    fixed point. All sites' rows must be in this process.

    Parameters
    ----------
    mixture : NetworkGaussianMixture
        The settings of the fit: components, network, start and the rest. Its ``algorithm``, ``eta``, ``max_rounds``
        and ``tol`` are ignored. A fitted one with ``warm_start=True`` starts from its estimate.
    X, y, sites, sample_weight : as for its ``fit``
    rounds : the budget of rounds; None if only the mean squared error matters
    extra : share of the pooled estimate's mean squared error that the bias may add
    watch : called with a text and the number of etas tried so far

    Examples
    --------
    >>> import numpy as np
    >>> from gaussip import NetworkGaussianMixture
    >>> from gaussip.step_size import choose_eta
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-2, 1, (200, 2)), rng.normal(2, 1, (200, 2))])
    >>> sites = np.repeat(["A", "B", "C", "D"], 100)  # two sites have one group, two the other
    >>> mixture = NetworkGaussianMixture(2, algorithm="mnem", network="circle", random_state=0)
    >>> step = choose_eta(mixture, X, sites=sites)
    >>> fitted = mixture.set_params(eta=step.eta, tol=step.tol, max_rounds=step.max_rounds).fit(X, sites=sites)
    """
    check(rounds=rounds, extra=extra)
    watch("fitting the pooled rows", 0)
    settings, problem, begin = _prepared(mixture, X, y, sites, sample_weight)
    warn_if_not_pooled(make("mnem", 1.0), problem.W, settings.weighting, problem.sites.tolist())
    outlook = _best_outlook(settings, problem, begin)
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
        worst=_worst(settings, problem, outlook, eta),
        trials=sorted({*trials, chosen}),
        least_bias=least if least > 1e-4 else 0.0,
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
    settings = clone(mixture).set_params(device="cpu")
    check_settings(settings)
    if named(settings.covariance_type) != FULL:
        raise SettingError(
            Text("the step is predicted for full covariances, not for {covariance_type:{name!r}}",
                 name=settings.covariance_type),
            setting="covariance_type", remedy=Text("use {algorithm:'masked'}, which has no step"),
        )  # fmt: skip
    seeds = seeds_of(settings.random_state, settings.n_init)
    problem = prepared(settings, X, y, sites, sample_weight, seeds[0])
    if len(problem.sites) < 2:
        raise DataError(f"all rows are of site {problem.sites[0]!r}: eta needs at least two sites to average over")
    if settings.warm_start and hasattr(mixture, "weights_"):
        return settings, problem, [mixture._theta()]
    given = Given(settings.weights_init, settings.means_init, settings.covariances_init)
    regularised = Regularised(float(settings.reg_covar), float(settings.shrinkage), settings.min_count)
    begin = starts(problem, settings.n_components, settings.init_params, seeds[1:], given, regularised)
    return settings, problem, begin


def _best_outlook(settings: NetworkGaussianMixture, problem: Problem, begin: list[Theta]) -> Outlook:
    """The outlook of the start with the best likelihood; starts that fail are skipped as long as one works."""
    outlooks, fault = list[Outlook](), None
    for start in begin:
        try:
            reg_covar, shrinkage = float(settings.reg_covar), shrinkage_of(float(settings.shrinkage), start)
            outlooks.append(Outlook(problem.rows, problem.W, start, settings.weighting, reg_covar, shrinkage))
        except DataError as error:
            fault = error
    if fault is not None and not outlooks:
        raise fault
    return max(outlooks, key=Outlook.log_likelihood)


def _trial(outlook: Outlook, eta: float, budget: int | None) -> Trial:
    bias, farthest = outlook.bias(eta), outlook.farthest(eta)
    left = 0.0 if budget is None else outlook.course.distance_after(budget, eta)
    return Trial(eta, outlook.rounds(eta), bias, 1 + bias**2 + left**2, None if farthest is None else farthest.errors)


def _worst(settings: NetworkGaussianMixture, problem: Problem, outlook: Outlook, eta: float) -> Worst | None:
    """The farthest parameter by name."""
    farthest = outlook.farthest(eta)
    if farthest is None:
        return None
    k, classes = farthest.component, problem.classes.tolist()
    return Worst(
        site=str(problem.sites[farthest.site]),
        component=str(classes[k]) if k < len(classes) else f"component {k}",
        parameter=parameter_names(feature_names(settings))[farthest.parameter],
        errors=farthest.errors,
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
    """The eta with the least mean squared error after this many rounds, to two digits."""
    errors = []
    for eta in FINE:
        errors.append(_trial(outlook, eta, budget).mse)
        if outlook.bias(eta) > FAR:
            break
    best = int(np.argmin(errors))
    around = np.log([FINE[max(best - 1, 0)], FINE[min(best + 1, len(FINE) - 1)]])
    options = {"xatol": math.log(SAME)}
    refined = minimize_scalar(
        lambda x: _trial(outlook, math.exp(x), budget).mse, bounds=around, method="bounded", options=options
    )
    return _rounded_down(min(1.0, math.exp(refined.x) if refined.fun < errors[best] else FINE[best]))


def _rounded_down(eta: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(eta) + 1e-9) - 1)
    return float(f"{math.floor(eta / unit + 1e-6) * unit:.2g}")
