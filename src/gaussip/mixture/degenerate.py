"""Degenerate components: those that nothing but reg_covar keeps from collapsing.

In some direction the rows of such a component are all the same, or nearly: a value that many rows share, a feature of
few values, fewer rows than features. Its likelihood is as high as reg_covar lets it be, and says nothing of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import CollapseError, Text, some
from gaussip.mixture.theta import Theta, overall

THIN = 1e-4  # of the variance of all rows: a hundredth of their standard deviation
HIDDEN = 0.01  # of what reg_covar adds: where all rows vary by less, that a component varies by less shows nowhere
ROUNDING = 1e-10  # of the largest variance of standardised features


class Degenerate(NamedTuple):
    """A degenerate component."""

    component: int
    weight: float
    features: tuple[int, ...]  #: in each of them its rows are the same; or two, in which its rows are on a line
    alone: bool  #: whether each of the features is by itself
    ratio: float  #: its least standard deviation, without reg_covar, as a share of that of all rows in that direction

    def few(self, mass: float, n_features: int) -> bool:
        """Whether it has too few of this many rows for a covariance."""
        return mass * self.weight < n_features + 0.5

    def repeated(self, n_features: int) -> bool:
        """Whether its rows are the same in all features."""
        return self.alone and 1 < n_features == len(self.features)

    def cause(self, mass: float, names: Sequence[str]) -> str:
        """What happened to it, in a sentence; ``names`` are those of all features."""
        rows, p = mass * self.weight, len(names)
        if self.few(mass, p):
            return f"it has about {rows:.1f} rows, but a covariance of {p} features needs {p + 1}"
        blamed = some([names[j] for j in self.features])
        if self.repeated(p):
            return f"its {rows:.0f} rows are all the same, or nearly: its variance comes from reg_covar"
        what = f"the same {blamed}" if self.alone else f"{blamed} on a line"
        return f"its {rows:.0f} rows have {what}, or nearly: its variance there comes from reg_covar"


def degenerate(theta: Theta, floor: NDArray) -> list[Degenerate]:
    """The degenerate components of a mixture (no leading axes).

    A component is degenerate if there is a direction in which at least half of its variance comes from the floor, and
    the rest is less than `THIN` of that of all rows. The variance of all rows is the whole mixture's, which it is
    after a step of EM. Directions in which all rows are the same, as in a constant feature, do not count.

    Parameters
    ----------
    floor : (p,), what reg_covar adds to each feature's variance
    """
    weights, means, covariances = (np.asarray(to_numpy(part), dtype=float) for part in theta)
    everything = overall(Theta(weights, means, covariances))[1]
    total = np.diagonal(everything)
    squares, added = np.sqrt(total[:, None] * total), np.asarray(floor) / total
    pooled, own = everything / squares - np.diag(added), covariances / squares - np.diag(added)
    variances, axes = np.linalg.eigh(pooled)
    seen = variances > np.maximum(HIDDEN * (added @ axes**2), ROUNDING)
    basis = axes[:, seen] / np.sqrt(variances[seen])  # in which the covariance of all rows is the unit matrix
    varies = np.diagonal(pooled) > np.maximum(HIDDEN * added, ROUNDING)
    found = []
    for k, covariance in enumerate(own):
        bare = added + np.finfo(float).eps * means[k] ** 2 / total
        ratios, inner = np.linalg.eigh(basis.T @ covariance @ basis)  # rising
        directions = basis @ inner
        thin = np.flatnonzero((ratios < THIN) & (ratios <= bare @ directions**2))
        if not thin.size:
            continue
        each = np.diagonal(covariance)
        same = np.flatnonzero(varies & (each < THIN * np.diagonal(pooled)) & (each <= bare))
        loads = np.sort(np.argsort(-np.abs(directions[:, thin[0]]), kind="stable")[:2])
        features = tuple((same if same.size else loads).tolist())
        ratio = float(np.sqrt(max(ratios[thin[0]], 0.0)))
        found.append(Degenerate(k, float(weights[k]), features, bool(same.size), ratio))
    return found


def reasons(found: Sequence[Degenerate], mass: float, names: Sequence[str]) -> str:
    """What is to blame for degenerate components of this many rows, in a few words; empty where there are none."""
    p, others = len(names), []
    alone: set[int] = set()
    for one in found:
        rows = f"{mass * one.weight:.3g}"
        if one.few(mass, p):
            others.append(f"{rows} rows of {p} features")
        elif one.repeated(p):
            others.append(f"{rows} equal rows")
        elif one.alone:
            alone.update(one.features)
        else:
            others.append(" with ".join(names[j] for j in one.features))
    return ", ".join(dict.fromkeys([*(names[j] for j in sorted(alone)), *others]))


def refuse_degenerate(
    theta: Theta,
    floor: NDArray,
    mass: float,
    names: Sequence[str],
    *,
    round: int,
    site: Any = None,
    classes: Sequence[Any] = (),
) -> None:
    """Refuse the mixture of this many rows that a fit ended with, if it has a degenerate component.

    Parameters
    ----------
    names : of the features
    site : whose own mixture it is; None for that of all sites
    classes : of the first components
    """
    found = degenerate(theta, floor)
    if not found:
        return
    one, p = found[0], len(names)
    few, k = one.few(mass, p), one.component
    what = "leave {blamed} out, or use fewer components"
    if few:
        what = "look for outliers, or use fewer components, fewer features or {shrinkage}"
    elif one.repeated(p):
        what = "see whether rows are repeated, or filled in, or use fewer components"
    blamed = some([names[j] for j in one.features])
    remedy = Text(what + "; {degenerate:'keep'} keeps such a fit", blamed=blamed)
    label = classes[k] if k < len(classes) else None
    column = None if few or one.repeated(p) else names[one.features[0]]
    raise CollapseError(site, k, round, one.cause(mass, names), remedy, label, column)
