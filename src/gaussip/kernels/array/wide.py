"""The hot function for many features as batched matrix products, in array-API terms: for GPUs above all.

The rows of sites of like sizes are padded to one length with rows of weight zero, so that a product covers them all.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gaussip.arrays import Array, indices, namespace, precision_factor, slices
from gaussip.kernels.array.algebra import log_constant, moments_of_sums
from gaussip.mixture.theta import Theta, vech

BLOCK_BYTES = 2**28  # of one product's result


class Group(NamedTuple):
    """Sites of like sizes, their rows padded to one length."""

    sites: Array  #: (S,), their numbers
    z: Array  #: (S, n, p), minus the site's centre, n the rows of the largest site
    weights: Array  #: (S, n), zero where there is no row


class Laid(NamedTuple):
    """The rows of all sites."""

    groups: list[Group]
    back: Array  #: where each site stands in the groups put together


def lay_out(values: Sequence[Array], weights: Sequence[Array] | None, centres: Array) -> Laid:
    """Sites in groups of like sizes, so that padding at most doubles the rows; on the CPU each site by itself."""
    xp = namespace(centres)

    def padded(array: Array, most: int) -> Array:
        shape = (most - array.shape[0], *array.shape[1:])
        return xp.concat([array, xp.zeros(shape, dtype=array.dtype, device=array.device)], axis=0)

    alike: dict[int, list[int]] = {}
    for m, x in enumerate(values):
        alike.setdefault(m if xp is np else x.shape[0].bit_length(), []).append(m)
    groups = []
    for sites in alike.values():
        most = max(values[m].shape[0] for m in sites)
        given = [xp.ones_like(values[m][:, 0]) if weights is None else weights[m] for m in sites]
        z = xp.stack([padded(values[m] - centres[m, :], most) for m in sites])
        v = xp.stack([padded(v, most) for v in given])
        groups.append(Group(indices(np.array(sites), centres), z, v))
    return Laid(groups, indices(np.argsort([m for sites in alike.values() for m in sites]), centres))


def moments(
    laid: Laid, theta: Theta, centres: Array, labelled: Array | None, reg_covar: float
) -> tuple[Array, Array]:
    """Sums of r z z' about the centres, group by group."""
    xp = namespace(theta.means)
    by_group = [_sums(group, theta, centres) for group in laid.groups]
    sums, log_likelihood = (
        xp.take(xp.concat([group[part] for group in by_group], axis=0), laid.back, axis=0) for part in (0, 1)
    )  # fmt: skip
    return moments_of_sums(sums, log_likelihood, theta, centres, labelled, reg_covar)


def _sums(group: Group, theta: Theta, centres: Array) -> tuple[Array, Array]:
    """Sums of r (1, z, vech(zz')) and log-likelihoods, a block of every site's rows at a time."""
    xp = namespace(theta.means)
    weights, means, covariances = (xp.take(part, group.sites, axis=0) for part in theta)
    S, K, p = means.shape
    factor = precision_factor(covariances)
    constant = log_constant(Theta(weights, means, covariances), factor)
    apart = means - xp.take(centres, group.sites, axis=0)[:, None, :]
    S0, first = xp.zeros_like(weights), xp.zeros_like(means)
    squares, log_likelihood = xp.zeros_like(covariances), xp.zeros_like(weights[:, 0])
    for part in slices(group.z.shape[1], max(64, BLOCK_BYTES // (8 * S * p * K))):
        z, v = group.z[:, None, part, :], group.weights[:, part]  # (S, 1, b, p)
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
    return xp.concat([S0[..., None], first, vech(squares)], axis=-1), log_likelihood
