"""The hot function in array-API terms: the reference every other kernel is held against.

The features (1, z, vech(zz')) of a block of rows are a matrix; log-densities and sums are products with it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gaussip.arrays import Array, namespace, slices
from gaussip.kernels.array.algebra import log_density_coefficients, moments_of_sums
from gaussip.mixture.theta import Theta, width

BLOCK_BYTES = 2**21  # features of one block: small enough to stay in a core's cache
HOLD_BYTES = 2**28  # features are kept between rounds up to this size, beyond, they are made again in each round


class Laid(NamedTuple):
    """One site's rows."""

    values: Array  # (n, p)
    weights: Array | None  # (n,)
    centre: Array  # (p,)
    held: tuple[Array, ...] | None  # features of each block

    def blocks(self) -> Iterator[tuple[Array, Array | None]]:
        """Features (f, b) and row weights (b,) of one block of rows after the other."""
        for number, part in enumerate(feature_blocks(*self.values.shape)):
            features = features_of(self.values[part, :] - self.centre) if self.held is None else self.held[number]
            yield features, None if self.weights is None else self.weights[part]


def lay_out(values: Sequence[Array], weights: Sequence[Array] | None, centres: Array) -> list[Laid]:
    """Features of all rows, where they are few enough to be kept."""
    hold = width(centres.shape[-1]) * sum(x.shape[0] for x in values) * 8 <= HOLD_BYTES
    laid = []
    for m, x in enumerate(values):
        site = Laid(x, None if weights is None else weights[m], centres[m, :], None)
        laid.append(site._replace(held=tuple(features for features, _ in site.blocks())) if hold else site)
    return laid


def moments(
    laid: list[Laid], theta: Theta, centres: Array, labelled: Array | None, reg_covar: float
) -> tuple[Array, Array]:
    """Sites are taken one by one, so that a site's result does not depend on which others run beside it."""
    xp = namespace(theta.means)
    coefficients = log_density_coefficients(theta, centres)
    zero = xp.zeros((), dtype=coefficients.dtype, device=coefficients.device)
    sums, log_likelihoods = [], []
    for m, site in enumerate(laid):
        total = xp.zeros_like(coefficients[m, :, :])
        log_likelihood = zero
        for features, weights in site.blocks():
            density = coefficients[m, :, :] @ features
            top = xp.max(density, axis=0)
            share = xp.exp(density - top)
            norm = xp.sum(share, axis=0)
            row_log_likelihood = top + xp.log(norm)
            if weights is None:
                responsibilities = share / norm
            else:
                responsibilities = share * (weights / norm)
                row_log_likelihood = row_log_likelihood * weights
            total = total + responsibilities @ features.T
            log_likelihood = log_likelihood + xp.sum(row_log_likelihood)
        sums.append(total)
        log_likelihoods.append(log_likelihood)
    return moments_of_sums(xp.stack(sums), xp.stack(log_likelihoods), theta, centres, labelled, reg_covar)


def features_of(z: Array) -> Array:
    """The features (1, z, vech(zz')) of centred rows: (n, p) to (f, n), a row per feature."""
    xp = namespace(z)
    columns = xp.stack([z[:, j] for j in range(z.shape[1])])  # each feature contiguous, as BLAS likes them
    products = [columns[i, :] * columns[i:, :] for i in range(z.shape[1])]
    return xp.concat([xp.ones_like(columns[:1, :]), columns, *products], axis=0)


def feature_blocks(n_rows: int, n_features: int) -> Iterator[slice]:
    """The rows in parts whose features take a block."""
    return slices(n_rows, max(32, BLOCK_BYTES // (8 * width(n_features))))
