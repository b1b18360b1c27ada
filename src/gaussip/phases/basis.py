"""How sites agree on a basis of principal components, by sums.

The number of rows; their mean; then their squares and products about it. Where cells are missing, each mean is that
of the cells observed, and each covariance that of the rows that have both features. One site, the first, decomposes
the covariance and sends the basis to all, to the last bit; every site sees that it fits the covariance that it knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError, DisagreementError
from gaussip.exchange.codes import Fixed, Wide
from gaussip.exchange.questions import Ask, Replicated, broadcast
from gaussip.mixture.theta import unvech, vech
from gaussip.phases.base import Context
from gaussip.phases.summing import Computation, held_by
from gaussip.phases.task import Reduction, Task
from gaussip.rows.basis import Basis, decomposed, fits, scale_of
from gaussip.rows.cells import refuse_unobserved, together
from gaussip.rows.checks import ROUNDED, enough
from gaussip.rows.held import Held

COUNTS = Fixed(0)
COVARIANCES = Fixed(45)  # in standard units, divided by the number of rows: one site may hold all of them


class Summary(NamedTuple):
    """What all sites know of their rows."""

    n_rows: float
    mean: NDArray  #: (p,)
    covariance: NDArray  #: its vech


def ask_summary(min_count: int = 1, names: Sequence[str] | None = None) -> Replicated[Summary]:
    """The number of rows that count, their mean and covariance; features that too few have are refused by name."""

    def counted(held: Held) -> NDArray:
        rows = [np.append(float(len(x)), (~np.isnan(x)).sum(axis=0)) for x in _counting(held)]
        return np.stack(rows)

    total = yield Ask(counted, Wide())
    n_rows, seen = float(total[0]), total[1:]
    refuse_unobserved(seen, n_rows, min_count, names)
    incomplete = bool((seen < n_rows - ROUNDED).any())
    mean = (yield Ask(lambda held: np.stack([_total(x) for x in _counting(held)]), Wide())) / seen

    def squared(held: Held) -> NDArray:
        return np.stack([_total((x - mean) ** 2) for x in _counting(held)])

    one_less = np.maximum(seen - 1, 1.0)
    scale = scale_of((yield Ask(squared, Wide())) / one_less, mean, n_rows)
    squares = np.asarray(vech(scale[:, None] * scale))
    asked: NDArray | float = 1.0
    if incomplete:
        both = (yield Ask(lambda held: np.stack([vech(together(x)) for x in _counting(held)]), COUNTS)).round()
        asked = enough(both, min_count)

    def multiplied(held: Held) -> NDArray:
        apart = (np.nan_to_num((x - mean) / scale) if incomplete else (x - mean) / scale for x in _counting(held))
        return np.stack([np.asarray(vech(z.T @ z)) * asked / n_rows for z in apart])

    total = yield Ask(multiplied, COVARIANCES)
    if not incomplete:
        return Summary(n_rows, mean, total * squares * (n_rows / max(n_rows - 1, 1.0)))
    correlations = unvech(total * n_rows / np.where(asked, np.maximum(both - 1, 1.0), 1.0))
    variances, vectors = np.linalg.eigh(correlations)  # of different rows each, so it may be no covariance
    return Summary(n_rows, mean, np.asarray(vech((vectors * np.maximum(variances, 0.0)) @ vectors.T)) * squares)


def _counting(held: Held) -> list[NDArray]:
    """The rows of each site that count."""
    return [held.counting(site) for site in range(len(held.values))]


def _total(x: NDArray) -> NDArray:
    """Of each feature; missing cells count nothing."""
    return np.asarray(np.nan_to_num(x).sum(axis=0))


def ask_basis(summary: Summary, wanted: Reduction, first: str) -> Replicated[Basis]:
    """The basis that the first site, of this name, computes from what all know."""
    p = len(summary.mean)
    keep, standardise, most = wanted

    def flat_size(d: int) -> int:
        return 2 + 2 * p + d * (1 + p)

    n_rows, mean, covariance = summary
    if n_rows < 2 or (isinstance(keep, int) and keep > n_rows):
        raise DataError(f"{keep} components are more than the {n_rows:g} rows of all sites have; keep fewer")
    computed = decomposed(n_rows, mean, covariance, keep, standardise)
    size = yield broadcast(np.array([float(len(computed.variances))]))
    d = float(size[0])
    if d == 0:
        raise DataError("all features are constant, at all sites: there is no variance to keep")
    if not (d.is_integer() and 1 <= d <= p):
        raise _disagreement(first, f"a basis of {d:g} components, of {p} features")
    if d > most:
        raise DataError(
            f"{keep:g} of the variance needs {d:g} components, more than the {most} allowed; keep less, or allow more"
        )
    mine = np.concatenate([np.ravel(part) for part in computed])
    flat = yield broadcast(mine if mine.size == flat_size(int(d)) else np.zeros(flat_size(int(d))))
    count, centre, scale, whole, variances, components = np.split(flat, np.cumsum([1, p, p, 1, int(d)]))
    basis = Basis(count[0, ...], centre, scale, whole[0, ...], variances, components.reshape(int(d), p))
    if not np.isfinite(flat).all() or not fits(basis, mean, covariance, standardise):
        raise _disagreement(first, "a basis that does not fit the covariance known to all")
    return basis


def _disagreement(first: str, what: str) -> DisagreementError:
    text = f"{first}, which computes the basis, sent {what}"
    return DisagreementError(f"{text}: start over at all sites, with one version")


class BasisPhase(Computation):
    """One site's part."""

    name = "basis"
    doing = "reducing"

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> BasisPhase | None:
        """Where features are reduced, from the rows that count."""
        wanted, p = context.task.reduction, context.task.n_features
        if wanted is None or context.resumed is not None:
            return None
        asked = _ask_all(context.task, wanted)
        return cls(context, results, asked, held_by(context), most_words(p))


def _ask_all(task: Task, wanted: Reduction) -> Replicated[Basis]:
    summary = yield from ask_summary(task.min_count, task.features)
    return (yield from ask_basis(summary, wanted, task.sites[0]))


def most_words(n_features: int) -> int:
    """The words of the longest question."""
    p = n_features
    return max(Wide().words(1 + p), p * (p + 1) // 2, 2 + 2 * p + p * (1 + p))
