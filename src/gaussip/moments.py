"""The hot function: the moments of the responsibilities at one theta on one site's rows.

Every algorithm needs nothing else of the data. With responsibilities pi_ik (one-hot where labelled) and
row weights v_i,

    S0_k = sum_i v_i pi_ik,   S1_k = sum_i v_i pi_ik x_i,   S2_k = sum_i v_i pi_ik (x_i-mu_k)(x_i-mu_k)'

with mu of that theta, the log-likelihood and the mass n = sum_i v_i. A site whose theta is no mixture
(a covariance that is not positive definite, a weight that is not positive) gets NaN, and only that site:
the caller names it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gaussip.arrays import Array, namespace, precision_factor
from gaussip.parameters import Psi, Theta, unvech, upper_triangle, vech
from gaussip.rows import Rows


class Moments(NamedTuple):
    """What a site knows of its rows at one theta."""

    mass: Array  #: n, (...)
    S0: Array  #: (..., K)
    S1: Array  #: (..., K, p)
    S2: Array  #: (..., K, p, p), about the means of the theta it was taken at
    log_likelihood: Array  #: (...), summed over rows


def moments(rows: Rows, theta: Theta, reg_covar: float = 0.0) -> Moments:
    """The moments of each site's rows at that site's theta.

    Parameters
    ----------
    rows : Rows with leading axes ``...``
    theta : Theta with the same leading axes
    reg_covar : added to the diagonal of every covariance, as S2 += reg_covar * S0 * I
    """
    xp = namespace(theta.means)
    coefficients = log_density_coefficients(theta, rows.centres)
    sums, log_likelihood = _sums_over_rows(rows, coefficients)
    if rows.labelled is not None:
        sums = sums + rows.labelled
        log_likelihood = log_likelihood + xp.sum(coefficients * rows.labelled, axis=(-2, -1))
    S0, S1, S2 = moments_of_sums(sums, rows.centres, theta.means)
    ridge = reg_covar * xp.eye(S2.shape[-1], dtype=S2.dtype, device=S2.device)
    return Moments(rows.mass, S0, S1, S2 + S0[..., None, None] * ridge, log_likelihood)


def summary(found: Moments) -> Psi:
    """(A, B, G) of the paper: the moments divided by the mass, the site's map F_m at that theta."""
    mass = found.mass[..., None]
    return Psi(found.S0 / mass, found.S1 / mass[..., None], found.S2 / mass[..., None, None])


def log_density_coefficients(theta: Theta, centres: Array) -> Array:
    """Coefficients C with log(alpha_k phi_k(x)) = C_k . (1, z, vech(zz')), z = x - centre.

    Returns (..., K, 1 + p + p(p+1)/2).
    """
    xp = namespace(theta.means)
    p = theta.means.shape[-1]
    factor = precision_factor(theta.covariances)
    precision = xp.matrix_transpose(factor) @ factor
    apart = theta.means - centres[..., None, :]
    linear = (precision @ apart[..., None])[..., 0]
    constant = (
        xp.log(theta.weights)
        - 0.5 * p * math.log(2 * math.pi)
        + xp.sum(xp.log(xp.linalg.diagonal(factor)), axis=-1)
        - 0.5 * xp.sum(linear * apart, axis=-1)
    )
    rows, columns = upper_triangle(p)
    twice = xp.asarray(np.where(rows == columns, -0.5, -1.0), dtype=precision.dtype, device=precision.device)
    return xp.concat([constant[..., None], linear, vech(precision) * twice], axis=-1)


def _sums_over_rows(rows: Rows, coefficients: Array) -> tuple[Array, Array]:
    """Sums of responsibilities times features (..., K, f), and log-likelihoods (...), unlabelled rows.

    Sites are taken one by one, so that a site's result does not depend on which others run beside it.
    """
    xp = namespace(coefficients)
    flat = xp.reshape(coefficients, (-1, *coefficients.shape[-2:]))
    zero = xp.zeros((), dtype=flat.dtype, device=flat.device)
    sums, log_likelihoods = [], []
    for m, site in enumerate(rows.sites):
        total = xp.zeros_like(flat[m, :, :])
        log_likelihood = zero
        for features, weights in site.blocks():
            density = flat[m, :, :] @ features
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
    return (
        xp.reshape(xp.stack(sums), coefficients.shape),
        xp.reshape(xp.stack(log_likelihoods), rows.shape),
    )


def moments_of_sums(sums: Array, centres: Array, means: Array) -> tuple[Array, Array, Array]:
    """S0, S1 and S2 about the means, from sums (..., K, f) of features about the centres (..., p)."""
    xp = namespace(sums)
    p = means.shape[-1]
    S0, first, second = sums[..., 0], sums[..., 1 : 1 + p], unvech(sums[..., 1 + p :])
    centres = centres[..., None, :]
    apart = means - centres
    cross = apart[..., :, None] * first[..., None, :]
    mass = S0[..., None, None]
    S2 = second - (cross + xp.matrix_transpose(cross)) + mass * (apart[..., :, None] * apart[..., None, :])
    return S0, first + S0[..., None] * centres, S2
