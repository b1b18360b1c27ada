"""What every kernel does before and after its pass over the rows, in array-API terms.

Before: the coefficients of the log-densities as linear functions of a row's features (1, z, vech(zz')), z the row
minus its site's centre. After: sums of features about the centre become moments about the means.
"""

import math

from gaussip.arrays import Array, namespace, precision_factor
from gaussip.mixture.theta import Theta, vech


def log_density_coefficients(theta: Theta, centres: Array) -> Array:
    """Coefficients C with log(alpha_k phi_k(x)) = C_k . (1, z, vech(zz')), z = x - centre.

    Returns (..., K, f).
    """
    xp = namespace(theta.means)
    p = theta.means.shape[-1]
    factor = precision_factor(theta.covariances)
    precision = xp.matrix_transpose(factor) @ factor
    apart = theta.means - centres[..., None, :]
    linear = (precision @ apart[..., None])[..., 0]
    constant = log_constant(theta, factor) - 0.5 * xp.sum(linear * apart, axis=-1)
    twice = 0.5 * xp.eye(p, dtype=precision.dtype, device=precision.device) - 1.0  # off the diagonal, for two entries
    return xp.concat([constant[..., None], linear, vech(precision * twice)], axis=-1)


def log_constant(theta: Theta, factor: Array) -> Array:
    """log(alpha_k phi_k) at the mean, (..., K); ``factor`` is T with T'T the precision."""
    xp = namespace(factor)
    log_determinant = xp.sum(xp.log(xp.linalg.diagonal(factor)), axis=-1)
    alpha = xp.where(theta.weights > 0, theta.weights, xp.nan)
    return xp.log(alpha) - 0.5 * factor.shape[-1] * math.log(2 * math.pi) + log_determinant


def about_means(sums: Array, centres: Array, means: Array) -> Array:
    """(S0, S1, vech S2 about the means) from sums of features about the centres (..., p): (..., K, f) both."""
    xp = namespace(sums)
    p = means.shape[-1]
    S0, first, second = sums[..., :1], sums[..., 1 : 1 + p], sums[..., 1 + p :]
    apart = means - centres[..., None, :]
    cross = apart[..., :, None] * first[..., None, :]
    square = apart[..., :, None] * apart[..., None, :]
    S2 = second - vech(cross + xp.matrix_transpose(cross)) + S0 * vech(square)
    return xp.concat([S0, first + S0 * centres[..., None, :], S2], axis=-1)


def moments_of_sums(
    sums: Array, log_likelihood: Array, theta: Theta, centres: Array, labelled: Array | None, reg_covar: float
) -> tuple[Array, Array]:
    """What a kernel returns, from the sums (..., K, f) about the centres and log-likelihood of unlabelled rows."""
    xp = namespace(sums)
    if labelled is not None:
        sums = sums + labelled
        log_likelihood = log_likelihood + xp.sum(log_density_coefficients(theta, centres) * labelled, axis=(-2, -1))
    moments = about_means(sums, centres, theta.means)
    if reg_covar:
        p = centres.shape[-1]
        ridge = vech(reg_covar * xp.eye(p, dtype=moments.dtype, device=moments.device))
        below = xp.concat([xp.zeros_like(moments[..., : 1 + p]), moments[..., :1] * ridge], axis=-1)
        moments = moments + below
    return moments, log_likelihood
