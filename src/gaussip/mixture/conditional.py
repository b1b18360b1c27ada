"""What a mixture says of the missing cells of rows: marginal densities, conditional means and draws."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.mixture.theta import Theta


def patterns(X: NDArray) -> Iterator[tuple[NDArray, NDArray]]:
    """The rows that share which cells are observed, and which these are."""
    missing = np.isnan(X)
    if not missing.any():
        yield np.arange(len(X)), np.ones(X.shape[1], dtype=bool)
        return
    kinds, kind = np.unique(np.packbits(missing, axis=1), axis=0, return_inverse=True)
    order = np.argsort(kind.reshape(-1), kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(kind.reshape(-1), minlength=len(kinds)))[:-1]):
        yield rows, ~missing[rows[0]]


def marginal(theta: Theta, observed: NDArray) -> Theta:
    """The mixture of some of the features."""
    weights, means, covariances = theta
    return Theta(weights, means[:, observed], covariances[:, observed][:, :, observed])


class Conditional(NamedTuple):
    """The distribution of the missing cells given the observed, by component."""

    means: NDArray  #: (n, K, u)
    covariances: NDArray  #: (K, u, u)


def conditional(X: NDArray, theta: Theta, observed: NDArray) -> Conditional:
    """For rows (n, p) that share which features are observed."""
    _, means, covariances = theta
    missing = ~observed
    across = covariances[:, missing][:, :, observed]
    if not observed.any():
        return Conditional(np.broadcast_to(means, (len(X), *means.shape)), covariances)
    slopes = np.linalg.solve(covariances[:, observed][:, :, observed], across.swapaxes(-1, -2)).swapaxes(-1, -2)
    apart = X[:, None, observed] - means[:, observed]
    expected = means[:, missing] + np.einsum("kuo,nko->nku", slopes, apart)
    left = covariances[:, missing][:, :, missing] - slopes @ across.swapaxes(-1, -2)
    return Conditional(expected, (left + left.swapaxes(-1, -2)) / 2)


class Imputed(NamedTuple):
    """Rows with their missing cells filled in: arrays, or frames where the rows were a frame."""

    values: Any  #: (n, p), conditional means in place of missing cells
    deviations: Any  #: (n, p), their standard deviations; zero where a cell is observed


def imputed(X: NDArray, theta: Theta, shares: NDArray) -> Imputed:
    """Conditional means and standard deviations; shares (n, K) are the rows' responsibilities."""
    values, deviations = X.copy(), np.zeros_like(X)
    for rows, observed in patterns(X):
        if observed.all():
            continue
        found, r = conditional(X[rows], theta, observed), shares[rows][..., None]
        mean = (r * found.means).sum(axis=1)
        own = np.diagonal(found.covariances, axis1=-2, axis2=-1) + (found.means - mean[:, None, :]) ** 2
        here = np.ix_(rows, ~observed)
        values[here], deviations[here] = mean, np.sqrt(np.maximum((r * own).sum(axis=1), 0.0))
    return Imputed(values, deviations)


def drawn(X: NDArray, theta: Theta, shares: NDArray, rng: np.random.Generator) -> NDArray:
    """Rows with their missing cells drawn from their distribution given the observed cells."""
    values = X.copy()
    for rows, observed in patterns(X):
        if observed.all():
            continue
        found = conditional(X[rows], theta, observed)
        cumulated = np.cumsum(shares[rows], axis=1)
        component = (rng.random((len(rows), 1)) * cumulated[:, -1:] > cumulated).sum(axis=1)
        noise = rng.standard_normal((len(rows), int((~observed).sum())))
        roots = np.stack([_root(covariance) for covariance in found.covariances])
        moved = np.einsum("nuv,nv->nu", roots[component], noise)
        values[np.ix_(rows, ~observed)] = found.means[np.arange(len(rows)), component] + moved
    return values


def _root(covariance: NDArray) -> NDArray:
    """A root of a covariance, which rounding may have left without its smallest variances."""
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        variances, axes = np.linalg.eigh(covariance)
        return np.asarray(axes * np.sqrt(np.maximum(variances, 0.0)))
