"""The hot function: the moments of the responsibilities at one theta on one site's rows.

No algorithm needs anything else of the data. With responsibilities pi_ik (one-hot where labelled) and
row weights v_i,

    S0_k = sum_i v_i pi_ik,   S1_k = sum_i v_i pi_ik x_i,   S2_k = sum_i v_i pi_ik (x_i-mu_k)(x_i-mu_k)'

with mu of that theta, the log-likelihood and the mass n = sum_i v_i. A site whose theta is not a mixture
(a covariance that is not positive definite, a weight that is not positive) gets NaN, and only that site:
the caller raises the error that names it.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import Array, namespace
from gaussip.errors import DataError
from gaussip.kernels import REFERENCE, Kernel, filling_for, kernel_for
from gaussip.kernels.array.incomplete import Totals
from gaussip.mixture.theta import Psi, Theta, at, n_features, unvech, vech
from gaussip.rows.groups import Stack, all_of, nothing, stacked
from gaussip.rows.rows import Rows


class Shrinkage(NamedTuple):
    """Every covariance is shrunk towards a target that all sites share: Sigma_k = (1 - share) S2_k / S0_k + share T.

    Linear in S0 and S2, so every site applies it to its moments, and the pooled fixed point is the pooled estimate
    with the same shrinkage. A site may then have fewer rows than features.
    """

    share: float  #: in [0, 1)
    target: Array  #: T, (..., p, p)


class Moments(NamedTuple):
    """The moments of a site's rows at one theta."""

    mass: Array  #: n, (...)
    sums: Array  #: (..., K, f), the rows (S0_k, S1_k', vech(S2_k)')
    log_likelihood: Array  #: (...), summed over rows
    reg_covar: float = 0.0  #: what every variance in S2 includes
    shrinkage: Shrinkage | None = None  #: what S2 was then shrunk by
    observed: Array | None = None  #: (..., K, p), rows by component in which a feature is observed; None: all

    @property
    def own(self) -> float:
        """The share of S2 that is the rows', and not a target's."""
        return 1.0 if self.shrinkage is None else 1.0 - self.shrinkage.share

    @property
    def S0(self) -> Array:  # noqa: N802
        """(..., K)."""
        return self.sums[..., 0]

    @property
    def S2(self) -> Array:  # noqa: N802
        """(..., K, p, p), about the means of that theta."""
        return unvech(self.sums[..., 1 + n_features(self.sums.shape[-1]) :])


def shrinkage_of(share: float, start: Theta) -> Shrinkage | None:
    """Shrinkage towards the start's mean covariance, which all sites know before the first round."""
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
    if not rows.in_memory:
        sums, log_likelihood, seen = _by_chunks(rows, kernel, flat, centres, labelled, reg_covar)
    elif rows.stacks:
        sums, log_likelihood, seen = _ridged(_by_groups(rows.stacks, rows.nothing(K), flat, kernel), reg_covar)
    else:
        sums, log_likelihood = kernel.moments(rows.laid_out(kernel), flat, centres, labelled, reg_covar)
    sums, log_likelihood = xp.reshape(sums, (*rows.shape, K, -1)), xp.reshape(log_likelihood, rows.shape)
    observed = xp.reshape(seen, (*rows.shape, K, p)) if rows.incomplete else None
    result = Moments(rows.mass, sums, log_likelihood, reg_covar, None, observed)
    return result if shrinkage is None else _shrunk(result, shrinkage)


def _by_groups(stacks: Sequence[Stack], totals: Totals, theta: Theta, kernel: Kernel) -> Totals:
    """The totals with those of all groups."""
    filling = filling_for(theta.means)
    for stack in stacks:
        own = filling.narrowed(theta, stack.shared, stack.centres)
        chosen = kernel if kernel.name == REFERENCE.name else kernel_for(own.means)
        found = chosen.moments(stack.laid_out(chosen), own, stack.centres, stack.labelled, 0.0)
        totals = filling.added(totals, *found, theta, stack.shared)
    return totals


def _ridged(totals: Totals, reg_covar: float) -> Totals:
    """With reg_covar added to every variance."""
    if not reg_covar:
        return totals
    sums = totals.sums
    ridge = _ridge(n_features(sums.shape[-1]), reg_covar, namespace(sums), sums.dtype, sums.device)
    return totals._replace(sums=sums + sums[..., :1] * ridge)


@cache
def _ridge(n_features: int, reg_covar: float, xp: Any, dtype: Any, device: Any) -> Array:
    """What each row adds to the sums (f,) by reg_covar."""
    ridge = vech(reg_covar * xp.eye(n_features, dtype=dtype, device=device))
    return xp.concat([xp.zeros(1 + n_features, dtype=dtype, device=device), ridge])


def _shrunk(plain: Moments, shrinkage: Shrinkage) -> Moments:
    xp = namespace(plain.sums)
    share, p = shrinkage.share, shrinkage.target.shape[-1]
    kept, S2 = plain.sums[..., : 1 + p], plain.sums[..., 1 + p :]
    target = vech(shrinkage.target)[..., None, :]
    S2 = (1 - share) * S2 + (share * plain.sums[..., :1]) * target
    return plain._replace(sums=xp.concat([kept, S2], axis=-1), shrinkage=shrinkage)


def prepared(
    rows: Rows, n_components: int, reg_covar: float, shrinkage: Shrinkage | None = None
) -> Callable[[Theta], Moments]:
    """`moments` of one site's rows in memory, with everything that does not depend on theta done once."""
    if rows.stacks:
        return lambda theta: moments(rows, theta, reg_covar, shrinkage=shrinkage)
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
        result = Moments(rows.mass, sums[0], log_likelihood[0, ...], reg_covar)
        return result if shrinkage is None else _shrunk(result, shrinkage)

    return measure


def _check(rows: Rows, theta: Theta) -> None:
    """Reject a theta that does not fit the rows: compiled code would read beyond its arrays."""
    K, p = theta.means.shape[-2:]
    given = (theta.weights.shape, theta.means.shape, theta.covariances.shape)
    wanted = ((*rows.shape, K), (*rows.shape, K, p), (*rows.shape, K, p, p))
    if given != wanted or p != rows.centres.shape[-1]:
        raise DataError(f"theta has shapes {given}; rows of {rows.centres.shape[-1]} features need {wanted}")
    if rows.labelled is not None and rows.labelled.shape[-2] != K:
        raise DataError(f"theta has {K} components; the rows' labels were taken for {rows.labelled.shape[-2]}")


def _by_chunks(
    rows: Rows, kernel: Kernel, theta: Theta, centres: Array, labelled: Array | None, reg_covar: float
) -> Totals:
    """Site by site and chunk by chunk, with at most one chunk in memory."""
    xp, K = namespace(centres), theta.means.shape[1]
    totals = []
    for m, site in enumerate(rows.sites):
        place = slice(m, m + 1)
        site_theta, centre = at(theta, place), centres[place, :]
        known = None if labelled is None else labelled[place, ...]
        in_groups = site.incomplete or site.allowed is not None
        ridge = 0.0 if in_groups else reg_covar  # added to the whole in the end
        none = kernel.moments(kernel.lay_out([centre[:0, :]], None, centre), site_theta, centre, known, ridge)
        unseen = nothing([()], K, centre).observed
        total = Totals(*none, unseen + none[0][..., :1])
        n_rows = 0
        for values, weights, groups, n_free in site.chunks(centre[0, :]):
            n_rows += n_free
            if in_groups:
                here = [[all_of(values, weights, None), *groups]]
                part = _by_groups(stacked(here, centre), nothing(here, K, centre), site_theta, kernel)
            else:
                laid = kernel.lay_out([values], None if weights is None else [weights], centre)
                sums, log_likelihood = kernel.moments(laid, site_theta, centre, None, ridge)
                part = Totals(sums, log_likelihood, unseen + sums[..., :1])
            total = Totals(*(old + new for old, new in zip(total, part, strict=True)))
        if n_rows != site.n_rows:
            raise DataError(
                f"a source gave {n_rows} unlabelled rows where it gave {site.n_rows} before; rows must stay the same"
            )
        totals.append(_ridged(total, reg_covar) if in_groups else total)
    return Totals(*(xp.concat(parts, axis=0) for parts in zip(*totals, strict=True)))


def summary(moments: Moments) -> Psi:
    """(A, B, G) of the paper: the moments divided by the mass, the site's map F_m at that theta, as a psi.

    Zero at a site of mass zero, whose rows are all unlabelled with weight zero.
    """
    mass = moments.mass[..., None, None]
    return moments.sums / namespace(mass).where(mass > 0, mass, namespace(mass).ones_like(mass))
