"""The hot function for many features as batched matrix products, in array-API terms: for GPUs above all.

The rows of all sites are padded to one length with rows of weight zero, so that a product covers all sites at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gaussip.arrays import Array, namespace, precision_factor
from gaussip.kernels.algebra import log_constant, log_density_coefficients, moments_of_sums
from gaussip.parameters import Theta, vech

BLOCK_BYTES = 2**28  # of one product's result


class Laid(NamedTuple):
    """The rows of S sites."""

    z: Array  #: (S, n, p), minus the site's centre, n the rows of the largest site
    weights: Array  #: (S, n), zero where there is no row


def lay_out(values: Sequence[Array], weights: Sequence[Array] | None, centres: Array) -> Laid:
    """The sites' rows padded to the length of the longest."""
    xp = namespace(centres)
    most = max(x.shape[0] for x in values)

    def padded(array: Array) -> Array:
        shape = (most - array.shape[0], *array.shape[1:])
        return xp.concat([array, xp.zeros(shape, dtype=array.dtype, device=array.device)], axis=0)

    ones = [xp.ones_like(x[:, 0]) for x in values]
    z = xp.stack([padded(x - centres[m, :]) for m, x in enumerate(values)])
    return Laid(z, xp.stack([padded(v) for v in (ones if weights is None else weights)]))


def moments(
    laid: Laid, theta: Theta, centres: Array, labelled: Array | None, reg_covar: float
) -> tuple[Array, Array]:
    """Sums of r z z' about the centres, a block of every site's rows at a time."""
    xp = namespace(theta.means)
    S, K, p = theta.means.shape
    factor = precision_factor(theta.covariances)
    constant, apart = log_constant(theta, factor), theta.means - centres[:, None, :]
    S0, first = xp.zeros_like(theta.weights), xp.zeros_like(theta.means)
    squares, log_likelihood = xp.zeros_like(theta.covariances), xp.zeros_like(theta.weights[:, 0])
    for part in _blocks(laid.z.shape[1], S * p * K):
        z, v = laid.z[:, None, part, :], laid.weights[:, part]  # (S, 1, b, p)
        white = (z - apart[:, :, None, :]) @ xp.matrix_transpose(factor)  # (S, K, b, p)
        density = constant[..., None] - 0.5 * xp.sum(white * white, axis=-1)
        top = xp.max(density, axis=1, keepdims=True)
        share = xp.exp(density - top)
        norm = xp.sum(share, axis=1, keepdims=True)
        r = share * (v[:, None, :] / norm)
        scaled = r[..., None] * z
        S0 = S0 + xp.sum(r, axis=-1)
        first = first + xp.sum(scaled, axis=-2)
        squares = squares + xp.matrix_transpose(scaled) @ z
        log_likelihood = log_likelihood + xp.sum(v * (top + xp.log(norm))[:, 0, :], axis=-1)
    sums = xp.concat([S0[..., None], first, vech(squares)], axis=-1)
    coefficients = log_density_coefficients(theta, centres) if labelled is not None else sums
    found, known = moments_of_sums(sums, theta, centres, coefficients, labelled, reg_covar)
    return found, log_likelihood + known


def _blocks(n_rows: int, numbers_per_row: int) -> Iterator[slice]:
    size = max(64, BLOCK_BYTES // (8 * numbers_per_row))
    for first in range(0, n_rows, size):
        yield slice(first, min(first + size, n_rows))
