"""Findings of the components: one that collapsed, two that are the same, more than the rows bear out."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.linalg import eigvalsh

from gaussip.arrays import NDArray
from gaussip.data.generate import sample
from gaussip.density import responsibilities
from gaussip.diagnosis.evidence import Evidence
from gaussip.diagnosis.finding import Finding, again
from gaussip.merging import bhattacharyya, merged
from gaussip.parameters import Theta, overall, width

THIN = 1e-4  # a variance of so small a share of the other components': a hundredth of their standard deviation
SAME = 0.01  # Bhattacharyya's distance of components that share 99% of each other
DRAWS = 20_000  # rows drawn to see what merging two components costs


def collapsed_component(evidence: Evidence) -> Finding | None:
    """A component that fewer rows hold than a covariance needs, or that is thin against the others."""
    K, p = _theta(evidence).means.shape
    if K == 1:
        return None
    everywhere = evidence.sites if evidence.sites is not None else Theta(*(part[None] for part in _theta(evidence)))
    behind = evidence.mass if evidence.algorithm == "local" else np.full(len(everywhere.weights), evidence.mass.sum())
    rows = behind[:, None] * everywhere.weights
    thin = np.array([[thinness(Theta(*site), k) for k in range(K)] for site in zip(*everywhere, strict=True)])
    m, k = _worst(rows / (p + 0.5), thin / THIN)
    few = rows[m, k] < p + 0.5
    if not few and thin[m, k] >= THIN:
        return None
    at_all = bool(((rows[:, k] < p + 0.5) | (thin[:, k] < THIN)).all())
    site = "" if at_all else str(evidence.names[m])
    where = f" at site {site}" if site else ""
    cause = (
        f"about {rows[m, k]:.1f} rows hold it, and a covariance of {p} features needs {p + 1}"
        if few
        else f"in one direction its variance is {thin[m, k]:.1g} of the other components'"
    )
    fewer = again(evidence, n_components=K - 1)
    larger = again(evidence, reg_covar=_ridge(evidence))
    return Finding(
        "collapsed component",
        {"component": k, **({"site": site} if site else {}), "rows": float(rows[m, k]),
         "variance against the others'": float(thin[m, k])},
        f"{_first(evidence.named(k))} has collapsed{where}: {cause}. It sits on a few rows, or on many "
        "that are the same (a filled-in value?), and describes no group.",
        f"look for rows that repeat; then {fewer if few else larger}",
        (evidence.rounds, evidence.rounds), "log_likelihood",
    )  # fmt: skip


def _worst(*measures: NDArray) -> tuple[int, int]:
    """Where the least of several measures is, (M, K)."""
    least = np.minimum.reduce(measures)
    m, k = np.unravel_index(int(least.argmin()), least.shape)
    return int(m), int(k)


def _ridge(evidence: Evidence) -> float:
    """A reg_covar that matters: a thousandth of the mean variance."""
    _, covariance = overall(_theta(evidence))
    return float(f"{np.diagonal(covariance).mean() / 1000:.1g}")


def thinness(theta: Theta, k: int) -> float:
    """The least variance of a component in any direction, as a share of the other components' mean variance there."""
    others = np.delete(theta.weights, k)
    mean = np.tensordot(others / others.sum(), np.delete(theta.covariances, k, axis=0), axes=1)
    return float(eigvalsh(theta.covariances[k], mean)[0])


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
        again(evidence, n_components=len(theta.weights) - 1),
        (evidence.rounds, evidence.rounds), "log_likelihood",
    )  # fmt: skip


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
        f"asks for {numbers} more numbers"
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


def _first(text: str) -> str:
    """With a capital letter, as a sentence begins."""
    return text[:1].upper() + text[1:]


def _theta(evidence: Evidence) -> Theta:
    assert evidence.theta is not None
    return evidence.theta
