"""The hot function: the moments of the responsibilities at one theta on one site's rows.

Every algorithm needs nothing else of the data. With responsibilities pi_ik (one-hot where labelled) and
row weights v_i,

    S0_k = sum_i v_i pi_ik,   S1_k = sum_i v_i pi_ik x_i,   S2_k = sum_i v_i pi_ik (x_i-mu_k)(x_i-mu_k)'

with mu of that theta, the log-likelihood and the mass n = sum_i v_i. A site whose theta is no mixture
(a covariance that is not positive definite, a weight that is not positive) gets NaN, and only that site:
the caller names it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gaussip.arrays import Array, namespace
from gaussip.errors import DataError
from gaussip.kernels import Kernel, kernel_for
from gaussip.mixture.theta import Psi, Theta, at, n_features, unvech, vech
from gaussip.rows.rows import Rows


class Shrinkage(NamedTuple):
    """Every covariance is drawn towards a target that all sites share: Sigma_k = (1 - share) S2_k / S0_k + share T.

    Linear in S0 and S2, so that it goes into every site's map and the pooled fixed point is the pooled estimate so
    shrunk; a site may then have fewer rows than features.
    """

    share: float  #: in [0, 1)
    target: Array  #: T, (..., p, p)


class Moments(NamedTuple):
    """What a site knows of its rows at one theta."""

    mass: Array  #: n, (...)
    sums: Array  #: (..., K, f), the rows (S0_k, S1_k', vech(S2_k)')
    log_likelihood: Array  #: (...), summed over rows
    shrunk: float = 0.0  #: the share of S2 that is the target's

    @property
    def S0(self) -> Array:  # noqa: N802
        """(..., K)."""
        return self.sums[..., 0]

    @property
    def S1(self) -> Array:  # noqa: N802
        """(..., K, p)."""
        return self.sums[..., 1 : 1 + n_features(self.sums.shape[-1])]

    @property
    def S2(self) -> Array:  # noqa: N802
        """(..., K, p, p), about the means of the theta it was taken at."""
        return unvech(self.sums[..., 1 + n_features(self.sums.shape[-1]) :])


def shrinkage_of(share: float, start: Theta) -> Shrinkage | None:
    """Shrinkage towards a start's mean covariance: what sites agreed on before the first round."""
    return Shrinkage(share, mean_covariance(start)) if share else None


def mean_covariance(theta: Theta) -> Array:
    """The components' covariances, averaged by weight, (..., p, p)."""
    return namespace(theta.means).sum(theta.weights[..., None, None] * theta.covariances, axis=-3)


def moments(
    rows: Rows,
    theta: Theta,
    reg_covar: float = 0.0,
    kernel: Kernel | None = None,
    shrinkage: Shrinkage | None = None,
) -> Moments:
    """The moments of each site's rows at that site's theta.

    Parameters
    ----------
    rows : Rows with leading axes ``...``
    theta : Theta with the same leading axes
    reg_covar : added to the diagonal of every covariance, as S2 += reg_covar * S0 * I
    kernel : the implementation; the fastest for these arrays by default
    shrinkage : after reg_covar, S2 = (1 - share) S2 + share * S0 * target
    """
    xp = namespace(theta.means)
    K, p = theta.means.shape[-2:]
    _check(rows, theta)
    flat = Theta(
        *(xp.reshape(part, (-1, *size)) for part, size in zip(theta, ((K,), (K, p), (K, p, p)), strict=True))
    )
    centres = xp.reshape(rows.centres, (-1, p))
    labelled = None if rows.labelled is None else xp.reshape(rows.labelled, (-1, *rows.labelled.shape[-2:]))
    kernel = kernel or kernel_for(flat.means)
    if rows.in_memory:
        sums, log_likelihood = kernel.moments(rows.laid_out(kernel), flat, centres, labelled, reg_covar)
    else:
        sums, log_likelihood = _by_chunks(rows, kernel, flat, centres, labelled, reg_covar)
    found = Moments(rows.mass, xp.reshape(sums, (*rows.shape, K, -1)), xp.reshape(log_likelihood, rows.shape))
    return found if shrinkage is None else _shrunk(found, shrinkage)


def _shrunk(found: Moments, shrinkage: Shrinkage) -> Moments:
    xp = namespace(found.sums)
    share, p = shrinkage.share, shrinkage.target.shape[-1]
    kept, S2 = found.sums[..., : 1 + p], found.sums[..., 1 + p :]
    target = vech(shrinkage.target)[..., None, :]
    S2 = (1 - share) * S2 + (share * found.sums[..., :1]) * target
    return found._replace(sums=xp.concat([kept, S2], axis=-1), shrunk=share)


def prepared(
    rows: Rows, n_components: int, reg_covar: float, shrinkage: Shrinkage | None = None
) -> Callable[[Theta], Moments]:
    """`moments` of one site's rows in memory, again and again: what does not change is done once."""
    p = rows.centres.shape[-1]
    centres = rows.centres[None]
    kernel = kernel_for(np.empty((n_components, p)))
    laid = rows.laid_out(kernel)
    labelled = None if rows.labelled is None else rows.labelled[None]

    def measure(theta: Theta) -> Moments:
        weights, means, covariances = theta
        sums, log_likelihood = kernel.moments(
            laid, Theta(weights[None], means[None], covariances[None]), centres, labelled, reg_covar
        )
        found = Moments(rows.mass, sums[0], log_likelihood[0, ...])
        return found if shrinkage is None else _shrunk(found, shrinkage)

    return measure


def _check(rows: Rows, theta: Theta) -> None:
    """Refuse a theta that is not of these rows: compiled code would read beyond its arrays."""
    K, p = theta.means.shape[-2:]
    found = (theta.weights.shape, theta.means.shape, theta.covariances.shape)
    wanted = ((*rows.shape, K), (*rows.shape, K, p), (*rows.shape, K, p, p))
    if found != wanted or p != rows.centres.shape[-1]:
        raise DataError(f"theta has shapes {found}; rows of {rows.centres.shape[-1]} features need {wanted}")
    if rows.labelled is not None and rows.labelled.shape[-2] != K:
        raise DataError(f"theta has {K} components; the rows' labels were taken for {rows.labelled.shape[-2]}")


def _by_chunks(
    rows: Rows, kernel: Kernel, theta: Theta, centres: Array, labelled: Array | None, reg_covar: float
) -> tuple[Array, Array]:
    """Sites one by one, their rows chunk by chunk: at no time is more than one chunk in memory."""
    xp = namespace(centres)
    found = []
    for m, site in enumerate(rows.sites):
        here = slice(m, m + 1)
        site_theta, centre = at(theta, here), centres[here, :]
        known = None if labelled is None else labelled[here, ...]
        total = kernel.moments(kernel.lay_out([centre[:0, :]], None, centre), site_theta, centre, known, reg_covar)
        n_rows = 0
        for chunk in site.chunks():
            n_rows += chunk[0].shape[0]
            values, weights = (None if part is None else xp.asarray(part, device=centre.device) for part in chunk)
            laid = kernel.lay_out([values], None if weights is None else [weights], centre)
            part = kernel.moments(laid, site_theta, centre, None, reg_covar)
            total = (total[0] + part[0], total[1] + part[1])
        if n_rows != site.n_rows:
            raise DataError(
                f"a source gave {n_rows} unlabelled rows where it gave {site.n_rows} before; rows must stay the same"
            )
        found.append(total)
    return xp.concat([sums for sums, _ in found], axis=0), xp.concat([one for _, one in found], axis=0)


def summary(found: Moments) -> Psi:
    """(A, B, G) of the paper: the moments divided by the mass, the site's map F_m at that theta, as a psi.

    Zero at a site of mass zero, whose rows are all unlabelled and count nothing.
    """
    mass = found.mass[..., None, None]
    return found.sums / namespace(mass).where(mass > 0, mass, namespace(mass).ones_like(mass))
