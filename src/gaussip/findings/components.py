"""Findings of the components: one that collapsed, one far wider, two that are the same, more than rows bear out."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.linalg import LinAlgError, eigh

from gaussip.arrays import NDArray
from gaussip.findings.evidence import Evidence
from gaussip.findings.finding import Finding, again
from gaussip.mixture.density import responsibilities
from gaussip.mixture.merging import bhattacharyya, merged
from gaussip.mixture.sampling import sample
from gaussip.mixture.theta import Theta, at, broadcast, overall, width

THIN = 1e-4  # a variance of so small a share of another component's: a hundredth of its standard deviation
BARE = 0.1  # the share of a variance that reg_covar adds, where there is hardly another
WIDE = 1e3  # a variance so many times another component's: thirty times its standard deviation
MOST = 0.5  # of the rows
SAME = 0.01  # Bhattacharyya's distance of components that share 99% of each other
DRAWS = 20_000  # rows drawn to see what merging two components costs


def collapsed_component(evidence: Evidence) -> Finding | None:
    """A component that fewer rows hold than a covariance needs, or one of many rows that are the same.

    These have no variance in some direction but what reg_covar adds. Thin alone tells nothing: where one site has
    other units, or a row is far out, it is the other component that is odd. Nor has one with most rows collapsed.
    """
    K, p = _theta(evidence).means.shape
    if K == 1:
        return None
    everywhere, behind = broadcast(_theta(evidence), (1,)), evidence.mass.sum(keepdims=True)
    if evidence.sites is not None:
        everywhere = evidence.sites
        behind = evidence.mass if evidence.algorithm == "local" else np.full(len(evidence.mass), behind[0])
    rows = behind[:, None] * everywhere.weights
    each = [[thinness(at(everywhere, m), k, evidence.floor) for k in range(K)] for m in range(len(rows))]
    thin, bare = np.moveaxis(np.array(each), 2, 0)
    few = rows < p + 0.5
    same = (thin < THIN) & (bare > BARE) & (everywhere.weights < MOST)
    if not (few | same).any():
        return None
    m, k = (int(i) for i in np.unravel_index(np.where(few | same, rows, np.inf).argmin(), rows.shape))
    site = "" if (few | same)[:, k].all() else str(evidence.names[m])
    where = f" at site {site}" if site else ""
    cause = (
        f"about {rows[m, k]:.1f} rows hold it, and a covariance of {p} features needs {p + 1}. Rows far out?"
        if few[m, k]
        else f"its {rows[m, k]:.0f} rows are the same in one direction, where its variance is {thin[m, k]:.1g} of "
        f"that of {evidence.named(_largest(_theta(evidence), k))}, all of it reg_covar's. Rows that repeat, or a "
        "value that was filled in?"
    )
    return Finding(
        "collapsed component",
        {"component": k, **({"site": site} if site else {}), "rows": float(rows[m, k]),
         "variance against the largest other's": float(thin[m, k])},
        f"{_first(evidence.named(k))} has collapsed{where} and describes no group: {cause}",
        f"look at its rows; if they are as they should be: {_one_less(evidence)}",
        (evidence.rounds, evidence.rounds), "log_likelihood",
    )  # fmt: skip


def _one_less(evidence: Evidence) -> str:
    """One component less; where every one is a class, a reg_covar that matters and is small for every feature."""
    theta = _theta(evidence)
    if len(evidence.classes) < len(theta.weights):
        return again(evidence, n_components=len(theta.weights) - 1)
    least = float(np.diagonal(overall(theta)[1]).min())
    return again(evidence, reg_covar=float(f"{max(least / 1000, 2 * evidence.settings['reg_covar']):.1g}"))


def thinness(theta: Theta, k: int, floor: NDArray) -> tuple[float, float]:
    """The least variance of a component in any direction, as a share of that of the largest other component there.

    Then how much of it is what the floor (p,) adds to each feature's variance, and rounding.
    """
    try:
        least, directions = eigh(theta.covariances[k], theta.covariances[_largest(theta, k)], subset_by_index=[0, 0])
    except LinAlgError:  # the other is thinner than rounding
        return np.inf, 0.0
    rounding = np.finfo(float).eps * theta.means[k] ** 2
    return float(least[0]), float(directions[:, 0] ** 2 @ (floor + rounding) / abs(least[0]))


def _largest(theta: Theta, k: int) -> int:
    """The component with most weight of the others."""
    return int(np.where(np.arange(len(theta.weights)) == k, 0.0, theta.weights).argmax())


def far_wider_component(evidence: Evidence) -> Finding | None:
    """Components on a minority of rows that are far wider, in some feature, than the one with most rows."""
    theta = _theta(evidence)
    usual = int(theta.weights.argmax())
    variances = np.diagonal(theta.covariances, axis1=1, axis2=2)
    ratios = variances / variances[usual]
    wide = (ratios > WIDE).any(axis=1)
    share = float(theta.weights[wide].sum())
    if not wide.any() or share >= MOST:
        return None
    k, j = (int(i) for i in np.unravel_index(ratios.argmax(), ratios.shape))
    feature = evidence.features[j] if evidence.features else f"feature {j}"
    times, every = float(np.sqrt(ratios[k, j])), float(evidence.mass.sum())
    rows = every * float(theta.weights[k])
    return Finding(
        "far wider component",
        {"component": k, "feature": feature, "rows": rows, "standard deviation, times": times},
        f"{_first(evidence.named(k))}, with about {rows:.0f} of {every:.0f} rows, is {_rounded(times)} times "
        f"as wide in {feature} as {evidence.named(usual)}, which has the most. A row far out, a site in other units, "
        "a value that most rows share, or a feature to take the logarithm of?",
        f"look at {feature} at every site; when it is right: {again(evidence)}",
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
        f"{_first(evidence.named(k))} and {evidence.named(other)} are the same, but for a Bhattacharyya distance of "
        f"{pairs[k, other]:.1g}: they began alike, or there are fewer groups than components.",
        _merging(evidence),
        (evidence.rounds, evidence.rounds), "log_likelihood",
    )  # fmt: skip


def _merging(evidence: Evidence) -> str:
    """One component less, and one class less where every component is a class."""
    K = len(_theta(evidence).weights)
    fewer = again(evidence, n_components=K - 1)
    return fewer if len(evidence.classes) < K else f"give the two classes one label; then {fewer}"


def too_many_components(evidence: Evidence) -> Finding | None:
    """Components that BIC would merge, or that fewer rows hold than they have numbers."""
    theta = _theta(evidence)
    K, p = theta.means.shape
    known = len(evidence.classes)
    if K == 1 or known == K or duplicated_component(evidence) is not None:
        return None
    rows, numbers = float(evidence.mass.sum()), width(p)
    cost, pair = cheapest_merger(theta, rows)
    saved = numbers * np.log(rows) / 2
    fewest = int(theta.weights.argmin())
    few = rows * theta.weights[fewest] < numbers
    if cost >= saved and not few:
        return None
    names = " and ".join(map(evidence.named, pair))
    cause = (
        f"merging {names} would cost {cost:.3g} of log-likelihood over all rows, less than the {saved:.3g} that BIC "
        f"asks for {numbers} more numbers. If you know of {K} groups, they overlap, and only labels tell them apart"
        if cost < saved
        else f"{evidence.named(fewest)} has {numbers} numbers, and about {rows * theta.weights[fewest]:.2g} rows"
    )
    return Finding(
        "too many components",
        {"components": list(pair), "cost of merging": cost, "BIC's price": float(saved),
         "rows of the smallest": float(rows * theta.weights[fewest])},
        f"The rows do not bear out {K} components: {cause}.",
        again(evidence, n_components=K - 1), (evidence.rounds, evidence.rounds), "log_likelihood",
    )  # fmt: skip


def cheapest_merger(theta: Theta, rows: float) -> tuple[float, tuple[int, int]]:
    """What merging the two nearest components into one of their moments costs in log-likelihood, over so many rows.

    Under the mixture itself, by rows drawn from it: a fit of one component less costs no more.
    """
    X, _ = sample(theta, DRAWS, np.random.default_rng(0))
    whole = responsibilities(X, theta)[1]
    pairs = list(combinations(range(len(theta.weights)), 2))
    costs = [rows * float(np.mean(whole - responsibilities(X, merged(theta, *pair))[1])) for pair in pairs]
    return min(zip(costs, pairs, strict=True))


def _rounded(number: float) -> str:
    """In two digits, without a power of ten."""
    return f"{float(f'{number:.2g}'):.0f}"


def _first(text: str) -> str:
    """With a capital letter, as a sentence begins."""
    return text[:1].upper() + text[1:]


def _theta(evidence: Evidence) -> Theta:
    assert evidence.theta is not None
    return evidence.theta
