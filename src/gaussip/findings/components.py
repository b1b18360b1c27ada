"""Findings about components: one that collapsed, one far wider, two that are the same, more than the rows support."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from gaussip.algorithms.base import ALONE
from gaussip.findings.evidence import Evidence
from gaussip.findings.finding import Finding, again
from gaussip.mixture.degenerate import Degenerate, degenerate
from gaussip.mixture.density import responsibilities
from gaussip.mixture.merging import bhattacharyya, merged
from gaussip.mixture.sampling import sample
from gaussip.mixture.theta import Theta, at, broadcast, overall, width

WIDE = 1e3  # times another component's variance: thirty times its standard deviation
MOST = 0.5  # of the rows
SAME = 0.01  # Bhattacharyya distance of components that overlap by 99%
DRAWS = 20_000  # rows drawn to estimate the cost of merging two components


def collapsed_component(evidence: Evidence) -> Finding | None:
    """A component with fewer rows than a covariance needs, or that nothing but reg_covar keeps from collapsing."""
    theta = _theta(evidence)
    K, p = theta.means.shape
    if K == 1:
        return None
    everywhere, behind = broadcast(theta, (1,)), evidence.mass.sum(keepdims=True)
    if evidence.sites is not None:
        everywhere = evidence.sites
        behind = evidence.mass if evidence.kind.source == ALONE else np.full(len(evidence.mass), behind[0])
    rows = behind[:, None] * everywhere.weights
    found = [{one.component: one for one in degenerate(at(everywhere, m), evidence.floor)} for m in range(len(rows))]
    lost = (rows < p + 0.5) | np.array([[k in here for k in range(K)] for here in found])
    if not lost.any():
        return None
    m, k = (int(i) for i in np.unravel_index(np.where(lost, rows, np.inf).argmin(), rows.shape))
    site = "" if lost[:, k].all() else str(evidence.names[m])
    where = f" at site {site}" if site else ""
    one = found[m].get(k) or Degenerate(k, float(everywhere.weights[m, k]), (), False, np.nan)
    names = [evidence.feature(j) for j in range(p)]
    few = one.few(float(behind[m]), p)
    why = "Are there outliers?" if few else "Are rows repeated, or values filled in? Has a feature few values?"
    blamed = [] if few else [names[j] for j in one.features]
    return Finding(
        "collapsed component",
        {"component": k, **({"site": site} if site else {}), "rows": float(rows[m, k]),
         **({"features": blamed, "standard deviation against that of all rows": one.ratio} if blamed else {})},
        f"{_first(evidence.named(k))} has collapsed{where} and describes no group: "
        f"{one.cause(float(behind[m]), names)}. {why}",
        f"look at its rows; if they are correct: {_fewer(evidence, k)}",
        (evidence.rounds, evidence.rounds), "log_likelihood",
    )  # fmt: skip


def _fewer(evidence: Evidence, k: int) -> str:
    """A component less; if each class needs the only one that it has, a reg_covar with an effect, but small."""
    theta, free = _theta(evidence), np.flatnonzero(evidence.class_of_component < 0)
    fewer = _without(evidence, k) or (_without(evidence, int(free[0])) if free.size else None)
    if fewer is not None:
        return fewer
    least = float(np.diagonal(overall(theta)[1]).min())
    return again(evidence, reg_covar=float(f"{max(least / 1000, 2 * evidence.settings['reg_covar']):.1g}"))


def _without(evidence: Evidence, k: int) -> str | None:
    """A component less, of the class of component k; None where the class has no other."""
    c, K = int(evidence.class_of_component[k]), len(_theta(evidence).weights)
    if c < 0:
        return again(evidence, n_components=K - 1)
    counts = {name: evidence.components(number) - (number == c) for number, name in enumerate(evidence.classes)}
    if not counts[evidence.classes[c]]:
        return None
    alike = set(counts.values()) == {1}
    return again(evidence, n_components=K - 1, components_per_class=1 if alike else counts)


def _may_merge(evidence: Evidence, i: int, j: int) -> bool:
    """Whether two components are of one class, or one of them of none."""
    one, other = evidence.class_of_component[[i, j]]
    return bool(one == other or min(one, other) < 0)


def far_wider_component(evidence: Evidence) -> Finding | None:
    """Components with a minority of rows that are far wider, in some feature, than the one with the most rows."""
    theta = _theta(evidence)
    usual = int(theta.weights.argmax())
    variances = np.diagonal(theta.covariances, axis1=1, axis2=2)
    ratios = variances / variances[usual]
    wide = (ratios > WIDE).any(axis=1)
    share = float(theta.weights[wide].sum())
    if not wide.any() or share >= MOST:
        return None
    k, j = (int(i) for i in np.unravel_index(ratios.argmax(), ratios.shape))
    feature = evidence.feature(j)
    times, total = float(np.sqrt(ratios[k, j])), float(evidence.mass.sum())
    rows = total * float(theta.weights[k])
    return Finding(
        "far wider component",
        {"component": k, "feature": feature, "rows": rows, "standard deviation, times": times},
        f"{_first(evidence.named(k))}, with about {rows:.0f} of {total:.0f} rows, is {_rounded(times)} times "
        f"as wide in {feature} as {evidence.named(usual)}, which has the most. Is there an outlier, a site in other "
        "units, a value that most rows share, or a feature to take the logarithm of?",
        f"check {feature} at every site; once it is correct: {again(evidence)}",
        (evidence.rounds, evidence.rounds), "log_likelihood",
    )  # fmt: skip


def duplicated_component(evidence: Evidence) -> Finding | None:
    """Two components that are nearly the same."""
    theta = _theta(evidence)
    pairs = {pair: bhattacharyya(theta, *pair) for pair in combinations(range(len(theta.weights)), 2)}
    if not pairs or min(pairs.values()) > SAME:
        return None
    k, other = min(pairs, key=lambda pair: pairs[pair])
    return Finding(
        "duplicated component", {"components": [k, other], "Bhattacharyya distance": pairs[k, other]},
        f"{_first(evidence.named(k))} and {evidence.named(other)} are the same up to a Bhattacharyya distance of "
        f"{pairs[k, other]:.1g}: they started alike, or there are fewer groups than components.",
        _merging(evidence, k, other),
        (evidence.rounds, evidence.rounds), "log_likelihood",
    )  # fmt: skip


def _merging(evidence: Evidence, i: int, j: int) -> str:
    """One component in place of two: of one class, or of two that then have the same label."""
    if not _may_merge(evidence, i, j):
        return (
            f"give the two classes one label; then {again(evidence, n_components=len(_theta(evidence).weights) - 1)}"
        )
    return _without(evidence, min(i, j, key=lambda k: evidence.class_of_component[k])) or ""


def too_many_components(evidence: Evidence) -> Finding | None:
    """Components that BIC would merge, or that have fewer rows than parameters."""
    theta = _theta(evidence)
    K, p = theta.means.shape
    pairs = [pair for pair in combinations(range(K), 2) if _may_merge(evidence, *pair)]
    if not pairs or duplicated_component(evidence) is not None:
        return None
    rows, parameters = float(evidence.mass.sum()), width(p)
    cost, pair = cheapest_merger(theta, rows, pairs)
    penalty = parameters * np.log(rows) / 2
    smallest = int(theta.weights.argmin())
    few = rows * theta.weights[smallest] < parameters
    if cost >= penalty and not few:
        return None
    names = " and ".join(map(evidence.named, pair))
    free = bool((evidence.class_of_component[list(pair)] < 0).all())
    spare = min(pair, key=lambda k: evidence.class_of_component[k]) if cost < penalty else smallest
    cause = (
        f"merging {names} would cost {cost:.3g} of log-likelihood over all rows, less than BIC's penalty of "
        f"{penalty:.3g} for {parameters} more parameters"
        + f". If you know that there are {K} groups, they overlap, and only labels can separate them"
        * free
        if cost < penalty
        else f"{evidence.named(smallest)} has {parameters} parameters but only about "
        f"{rows * theta.weights[smallest]:.2g} rows"
    )
    return Finding(
        "too many components",
        {"components": list(pair), "cost of merging": cost, "BIC's penalty": float(penalty),
         "rows of the smallest": float(rows * theta.weights[smallest])},
        f"The rows do not support {K} components: {cause}.",
        _fewer(evidence, spare), (evidence.rounds, evidence.rounds), "log_likelihood",
    )  # fmt: skip


def more_than_noise(evidence: Evidence) -> Finding | None:
    """A private fit whose last score is more than noise: it has not come to an end."""
    if evidence.converged or evidence.failure or not evidence.over:
        return None
    fewer = _without(evidence, int(_theta(evidence).weights.argmin()))
    return Finding(
        "more than noise", {"last change": float(evidence.change[-1])},
        "The last round of the private fit still moved by more than its noise: components are not Gaussian, there "
        "are too many of them, or many rows lie beyond the bounds. The estimate may be far off.",
        f"check the features and their bounds; then {'fit again' if fewer is None else fewer}",
        (max(1, evidence.rounds - 1), evidence.rounds), "change",
    )  # fmt: skip


def cheapest_merger(theta: Theta, rows: float, pairs: Sequence[tuple[int, int]]) -> tuple[float, tuple[int, int]]:
    """The least cost in log-likelihood, over this many rows, of merging a pair of components into one.

    Estimated from rows drawn from the mixture itself: a fit with one component less costs no more.
    """
    X, _ = sample(theta, DRAWS, np.random.default_rng(0))
    whole = responsibilities(X, theta)[1]
    costs = [rows * float(np.mean(whole - responsibilities(X, merged(theta, *pair))[1])) for pair in pairs]
    return min(zip(costs, pairs, strict=True))


def _rounded(number: float) -> str:
    """A number in two digits, without an exponent."""
    return f"{float(f'{number:.2g}'):.0f}"


def _first(text: str) -> str:
    """The text with a capital letter."""
    return text[:1].upper() + text[1:]


def _theta(evidence: Evidence) -> Theta:
    assert evidence.theta is not None
    return evidence.theta
