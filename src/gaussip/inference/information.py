"""The observed information about the parameters, of which sites only need the sum.

By Louis's identity a row's information, the negative Hessian of its log-likelihood, is the expected information of
the row with its class, given the row, minus the covariance of that complete row's score. With all K weights taken as
free, a complete row of class k has a score s_ik in the parameters of component k alone,

    (1 / alpha_k,  u,  c * vech(uu' - P))     P = Sigma_k^-1,  u = P (x_i - mu_k),  c = 1/2 for variances, else 1,

so that with responsibilities pi_ik, row weights v_i and the row's score g_i = (pi_i1 s_i1, ..., pi_iK s_iK)

    information = sum_i v_i g_i g_i' + diag_k(sum_i v_i pi_ik (B_ik - s_ik s_ik'))

with B_ik a complete row's information. A labelled row's responsibilities are its label, which leaves B alone. The
linear constraint that the weights sum to one is applied in `concluded`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from gaussip.arrays import NDArray, cholesky_or_nan, precision_factor, slices
from gaussip.errors import DataError, UncertaintyError
from gaussip.exchange.codes import Fixed
from gaussip.mixture.density import responsibilities
from gaussip.mixture.theta import Theta, n_parameters, pack, unvech, upper_triangle, width
from gaussip.rows.chunks import Chunks

MOST_PARAMETERS = 3000  # the matrix then takes 72 MB
BLOCK = 2**21  # numbers of the rows' scores in memory at a time
SIZE = 1e5  # approximate size of a part's diagonal: far from both limits of the sum
COUNTED = Fixed(24)  # how parts are summed
ROUNDING = 2.0**-16  # of a sum, in units of a part: a smaller eigenvalue is taken for zero


def check_size(n_components: int, n_features: int) -> None:
    """Reject mixtures whose matrices would be too large."""
    q = n_parameters(n_components, n_features)
    if q > MOST_PARAMETERS:
        raise UncertaintyError(
            f"{n_components} components of {n_features} features have {q} parameters, whose covariance would take "
            f"{8e-6 * q * q:.0f} MB; standard errors are for at most {MOST_PARAMETERS} parameters: fit fewer "
            "features (principal components) or fewer components"
        )


def scales(theta: Theta, mass: float) -> NDArray:
    """The unit of each parameter (K, f), in which the information about it is about `SIZE`.

    All sites need the same scales: those of a theta that all know (a start will do) and of the mass of all rows.
    """
    spread = np.sqrt(np.diagonal(theta.covariances, axis1=-2, axis2=-1))
    of_parameters = Theta(np.sqrt(theta.weights), spread, spread[..., :, None] * spread[..., None, :])
    return np.asarray(pack(of_parameters) * np.sqrt(SIZE / mass))


def part_size(n_components: int, n_features: int, *, robust: bool) -> int:
    """The length of a site's part."""
    q = n_components * width(n_features)
    return q + (1 + robust) * (q * (q + 1) // 2)


def site_part(
    rows: Chunks,
    theta: Theta,
    scale: NDArray,
    *,
    robust: bool = False,
    unlabelled_weight: float = 1.0,
    n_sites: int = 2,
) -> NDArray:
    """A site's part of the sum: its score, the upper triangle of its information, and that of its scores' products.

    Parameters
    ----------
    rows : the site's, labels as component numbers, -1 where unlabelled
    theta : the site's estimate
    scale : (K, f), the same at all sites, see `scales`
    robust : whether to compute the products sum_i v_i^2 g_i g_i'
    unlabelled_weight : the weight of an unlabelled row relative to a labelled one
    n_sites : how many parts are summed

    Returns
    -------
    (part_size,), in units of ``scale``
    """
    K, p = theta.means.shape
    check_size(K, p)
    if (wanted := (K, width(p))) != scale.shape:
        raise UncertaintyError(f"theta has {K} components of {p} features: scales are {wanted}, not {scale.shape}")
    factors = precision_factor(theta.covariances)
    if not (np.isfinite(factors).all() and (theta.weights > 0).all()):
        raise UncertaintyError(
            "theta is not a mixture: a weight is not positive or a covariance not positive definite"
        )
    precisions = factors.swapaxes(-1, -2) @ factors
    q = scale.size
    score, outer, products = np.zeros(q), np.zeros((q, q)), np.zeros((q, q))
    within = np.zeros((K, scale.shape[1], scale.shape[1]))
    for x, member, v in _blocks(rows, theta, unlabelled_weight):
        complete = _complete_scores(x, theta, precisions)
        g = (member[..., None] * complete).reshape(len(x), q)
        score += v @ g
        outer += (v[:, None] * g).T @ g
        for k in range(K):
            within[k] += ((v * member[:, k])[:, None] * complete[:, k]).T @ complete[:, k]
        if robust:
            products += (v[:, None] ** 2 * g).T @ g
    expected = _complete_information(score.reshape(scale.shape), theta.weights, precisions)
    information = outer + block_diag(*(expected - within))
    unit, upper = scale.ravel(), upper_triangle(q)
    matrices = [information, products] if robust else [information]
    part = np.concatenate([unit * score, *((unit * matrix * unit[:, None])[upper] for matrix in matrices)])
    if not (np.abs(part) < COUNTED.limit(n_sites)).all():
        raise UncertaintyError(
            "the information is too large: divide row weights by their mean; or some covariance is nearly singular: "
            "leave out features that are sums or copies of others"
        )
    return part


def _blocks(
    rows: Chunks, theta: Theta, unlabelled_weight: float
) -> Iterator[tuple[NDArray, NDArray, NDArray]]:  # fmt: skip
    """Rows, their responsibilities and their weights, block by block."""
    K, p = theta.means.shape
    size = max(1, BLOCK // (K * width(p)))
    for values, labels, weights in rows:
        if values.shape[1] != p:
            raise DataError(f"theta has {p} features, the rows {values.shape[1]}")
        for part in slices(len(values), size):
            x = values[part]
            member, _ = responsibilities(x, theta)
            y = np.full(len(x), -1) if labels is None else labels[part]
            known = y >= 0
            member[known] = y[known, None] == np.arange(K)
            v = np.ones(len(x)) if weights is None else weights[part]
            yield x, member, np.where(known, v, unlabelled_weight * v)


def _complete_scores(x: NDArray, theta: Theta, precisions: NDArray) -> NDArray:
    """s_ik of every row and component, (n, K, f)."""
    K, p = theta.means.shape
    i, j = upper_triangle(p)
    scores = np.empty((len(x), K, width(p)))
    for k in range(K):
        u = (x - theta.means[k]) @ precisions[k]
        scores[:, k, 0] = 1 / theta.weights[k]
        scores[:, k, 1 : 1 + p] = u
        scores[:, k, 1 + p :] = _halves(p) * (u[:, i] * u[:, j] - precisions[k][i, j])
    return scores


def _halves(p: int) -> NDArray:
    """c: 1/2 for variances, 1 for covariances, which occur twice in the matrix."""
    i, j = upper_triangle(p)
    return np.where(i == j, 0.5, 1.0)


def _complete_information(score: NDArray, weights: NDArray, precisions: NDArray) -> NDArray:
    """sum_i v_i pi_ik B_ik, (K, f, f): a linear function of the summed scores (K, f).

    With E_a the derivative of Sigma by its entry a, and sums over rows U1 of u and U2 of uu',
    B is P for means, P E_b U1 between means and entry b, and tr(E_a P E_b (U2 - S0 P / 2)) between entries.
    """
    K, p = precisions.shape[:2]
    i, j = upper_triangle(p)
    c = _halves(p)
    information = np.zeros((K, score.shape[1], score.shape[1]))
    for k, P in enumerate(precisions):
        S0 = weights[k] * score[k, 0]
        U1, Q = score[k, 1 : 1 + p], unvech(score[k, 1 + p :] / c) + S0 * P / 2
        mixed = c * (P[:, i] * U1[j] + P[:, j] * U1[i])
        trace = sum(
            P[np.ix_(b, d)] * Q[np.ix_(a, e)] for a, b in ((i, j), (j, i)) for d, e in ((i, j), (j, i))
        )  # tr(E_a P E_b Q), each E two entries
        information[k, 0, 0] = S0 / weights[k] ** 2
        information[k, 1 : 1 + p, 1 : 1 + p] = S0 * P
        information[k, 1 : 1 + p, 1 + p :], information[k, 1 + p :, 1 : 1 + p] = mixed, mixed.T
        information[k, 1 + p :, 1 + p :] = c[:, None] * c * trace
    return information


class Concluded(NamedTuple):
    """The covariance of the estimate, from the sum over all sites."""

    covariance: NDArray  #: (q, q) of the packed theta, q = K f
    away: float  #: the largest distance from theta to the maximum of the likelihood, in standard errors


def concluded(summed: NDArray, scale: NDArray, features: Sequence[str], *, robust: bool = False) -> Concluded:
    """The covariance of the estimate from the sum of all sites' parts.

    Parameters
    ----------
    summed : (part_size,)
    scale : (K, f), that of the parts
    features : (p,), names for error messages
    robust : whether the parts hold the scores' products: then the sandwich I^-1 (sum v^2 g g') I^-1, else I^-1
    """
    q, n_components = scale.size, scale.shape[0]
    if (wanted := part_size(n_components, len(features), robust=robust)) != summed.size:
        raise UncertaintyError(f"parts of {n_components} components have {wanted} numbers, not {summed.size}")
    score, *matrices = np.split(summed, np.cumsum([q, q * (q + 1) // 2])[: 1 + robust])
    information, *products = map(unvech, matrices)
    fixed = np.zeros_like(scale)
    fixed[:, 0] = scale[:, 0] / np.linalg.norm(scale[:, 0])
    c = fixed.ravel()  # the direction in which weights would no longer sum to one

    def projected(matrix: NDArray) -> NDArray:
        half = matrix - np.outer(matrix @ c, c)
        return np.asarray(half - np.outer(c, c @ half))

    regular = projected(information) + np.outer(c, c) * (np.trace(information) / q)
    rounding = q * ROUNDING
    if not np.isfinite(cholesky_or_nan(regular - rounding * np.eye(q))).all():
        raise _no_information(regular, scale.shape, features)
    inverse = projected(np.linalg.inv(regular))
    downhill = score - (score @ c) * c
    covariance = inverse @ products[0] @ inverse if robust else inverse
    unit = scale.ravel()
    return Concluded(
        covariance=unit[:, None] * (covariance + covariance.T) / 2 * unit,
        away=float(np.sqrt(downhill @ inverse @ downhill)),
    )


def parameter_names(features: Sequence[str]) -> list[str]:
    """The names of a component's parameters, (f,)."""
    pairs = zip(*upper_triangle(len(features)), strict=True)
    spread = [f"variance {features[i]}" if i == j else f"covariance {features[i]},{features[j]}" for i, j in pairs]
    return ["weight", *(f"mean {name}" for name in features), *spread]


def _no_information(regular: NDArray, shape: tuple[int, ...], features: Sequence[str]) -> UncertaintyError:
    """The error that names the parameter with the least information."""
    least = np.linalg.eigh(regular)[1][:, 0].reshape(shape) ** 2
    k = int(least.sum(axis=1).argmax())
    name = parameter_names(features)[int(least[k].argmax())]
    return UncertaintyError(
        "the rows do not determine all parameters (the information is not positive definite): they say least about "
        f"component {k}, above all its {name}. There are too few rows, or a component is empty or the copy of "
        "another, or a feature is the sum or copy of others, or the fit has not converged: try fewer components or "
        "features, or more rows or labels"
    )
