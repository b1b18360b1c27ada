"""How sites agree on a basis of principal components, by sums.

The number of rows and their mean; then their squares and products about it. One site, the first, decomposes the
covariance and sends the basis to all, to the last bit; every site sees that it fits the covariance that it knows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError, DisagreementError
from gaussip.exchange.codes import Fixed, Wide
from gaussip.exchange.questions import Ask, Replicated, broadcast
from gaussip.mixture.theta import vech
from gaussip.phases.base import Context
from gaussip.phases.summing import Computation, held_by
from gaussip.phases.task import Reduction
from gaussip.rows.basis import Basis, decomposed, fits, scale_of
from gaussip.rows.held import Held

COVARIANCES = Fixed(45)  # in standard units, divided by the number of rows: one site may hold all of them


class Summary(NamedTuple):
    """What all sites know of their rows."""

    n_rows: float
    mean: NDArray  #: (p,)
    covariance: NDArray  #: its vech


def ask_summary(n_features: int) -> Replicated[Summary]:
    """The number of rows that count, their mean and covariance."""

    def counted(held: Held) -> NDArray:
        rows = [np.concatenate([[float(len(x))], x.sum(axis=0)]) for x in map(held.counting, range(len(held.values)))]
        return np.stack(rows)

    total = yield Ask(counted, Wide())
    n_rows, mean = float(total[0]), total[1:] / total[0]

    def squared(held: Held) -> NDArray:
        apart = (x - mean for x in map(held.counting, range(len(held.values))))
        return np.stack([(z**2).sum(axis=0) for z in apart])

    variances = (yield Ask(squared, Wide())) / max(n_rows - 1, 1.0)
    scale = scale_of(variances, mean, n_rows)
    squares = np.asarray(vech(scale[:, None] * scale))

    def multiplied(held: Held) -> NDArray:
        apart = ((x - mean) / scale for x in map(held.counting, range(len(held.values))))
        return np.stack([np.asarray(vech(z.T @ z)) / n_rows for z in apart])

    total = yield Ask(multiplied, COVARIANCES)
    return Summary(n_rows, mean, total * squares * (n_rows / max(n_rows - 1, 1.0)))


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
        return cls(context, results, _ask_all(p, wanted, context.task.sites[0]), held_by(context), most_words(p))


def _ask_all(n_features: int, wanted: Reduction, first: str) -> Replicated[Basis]:
    summary = yield from ask_summary(n_features)
    return (yield from ask_basis(summary, wanted, first))


def most_words(n_features: int) -> int:
    """The words of the longest question."""
    p = n_features
    return max(Wide().words(1 + p), p * (p + 1) // 2, 2 + 2 * p + p * (1 + p))
