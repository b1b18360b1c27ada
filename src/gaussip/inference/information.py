"""The observed information about the parameters, of which sites only need the sum.

By Louis's identity a row's information, the negative Hessian of its log-likelihood, is the expected information of
the row with its class, given the row, minus the covariance of that complete row's score. With all K weights taken as
free, a complete row of class k has a score s_ik in the parameters of component k alone,

    (1 / alpha_k,  u,  c * vech(uu' - P))     P = Sigma_k^-1,  u = P (x_i - mu_k),  c = 1/2 for variances, else 1,

so that with responsibilities pi_ik, row weights v_i and the row's score g_i = (pi_i1 s_i1, ..., pi_iK s_iK)

    information = sum_i v_i g_i g_i' + diag_k(sum_i v_i pi_ik (B_ik - s_ik s_ik'))

with B_ik a complete row's information. A labelled row's responsibilities are its label, which leaves B alone; those
of a label with several components are shared among these. Of a row with missing cells, u, P and B are those of the
marginal distribution of its observed cells, and the score in the other parameters is zero. The linear constraint that
the weights sum to one is applied in `concluded`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag

from gaussip.arrays import NDArray, cholesky_or_nan, precision_factor, slices
from gaussip.errors import DataError, UncertaintyError
from gaussip.exchange.codes import Fixed
from gaussip.mixture.conditional import marginal, patterns
from gaussip.mixture.covariance_types import FULL, LINEAR, directions, n_parameters, named
from gaussip.mixture.density import responsibilities
from gaussip.mixture.theta import Theta, pack, unvech, upper_triangle, width
from gaussip.rows.chunks import Chunks
from gaussip.rows.groups import Allowed

MOST_PARAMETERS = 3000  # the matrix then takes 72 MB
BLOCK = 2**21  # numbers of the rows' scores in memory at a time
SIZE = 1e5  # approximate size of a part's diagonal: far from both limits of the sum
COUNTED = Fixed(24)  # how parts are summed
ROUNDING = 2.0**-16  # of a sum, in units of a part: a smaller eigenvalue is taken for zero


def check_size(n_components: int, n_features: int) -> None:
    """Reject mixtures whose matrices would be too large."""
    q = n_parameters(FULL, n_components, n_features)
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
    allowed: Allowed | None = None,
    n_sites: int = 2,
) -> NDArray:
    """A site's part of the sum: its score, the upper triangle of its information, and that of its scores' products.

    Parameters
    ----------
    rows : the site's, with the numbers of labels, -1 where unlabelled
    theta : the site's estimate
    scale : (K, f), the same at all sites, see `scales`
    robust : whether to compute the products sum_i v_i^2 g_i g_i'
    unlabelled_weight : the weight of an unlabelled row relative to a labelled one
    allowed : the components of each label; label k is component k by default
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
    q = scale.size
    score, information, products = np.zeros(q), np.zeros((q, q)), np.zeros((q, q))
    for block in _blocks(rows, theta, unlabelled_weight, allowed):
        here = np.ix_(block.places, block.places)
        g, summed, of_rows = _of_block(block)
        score[block.places] += summed
        information[here] += of_rows
        if robust:
            products[here] += (block.weights[:, None] ** 2 * g).T @ g
    unit, upper = scale.ravel(), upper_triangle(q)
    matrices = [information, products] if robust else [information]
    part = np.concatenate([unit * score, *((unit * matrix * unit[:, None])[upper] for matrix in matrices)])
    if not (np.abs(part) < COUNTED.limit(n_sites)).all():
        raise UncertaintyError(
            "the information is too large: divide row weights by their mean; or some covariance is nearly singular: "
            "leave out features that are sums or copies of others"
        )
    return part


class _Block(NamedTuple):
    """Rows that share which cells are observed."""

    x: NDArray  #: (n, o), those cells
    theta: Theta  #: of these features
    member: NDArray  #: (n, K), responsibilities
    weights: NDArray  #: (n,)
    places: NDArray  #: where the parameters of these features stand among all


def _blocks(
    rows: Chunks, theta: Theta, unlabelled_weight: float, allowed: Allowed | None
) -> Iterator[_Block]:  # fmt: skip
    K, p = theta.means.shape
    size = max(1, BLOCK // (K * width(p)))
    for values, labels, weights in rows:
        if values.shape[1] != p:
            raise DataError(f"theta has {p} features, the rows {values.shape[1]}")
        for part in slices(len(values), size):
            x = values[part]
            y = np.full(len(x), -1) if labels is None else labels[part]
            v = np.ones(len(x)) if weights is None else weights[part]
            v = np.where(y >= 0, v, unlabelled_weight * v)
            member = _members(x, y, theta, allowed)
            for places, observed in patterns(x):
                if observed.any():
                    own, cells = marginal(theta, observed), x[np.ix_(places, observed)]
                    yield _Block(cells, own, member[places], v[places], _parameters(observed, K))


def _members(x: NDArray, y: NDArray, theta: Theta, allowed: Allowed | None) -> NDArray:
    """The responsibilities, (n, K), of rows with labels."""
    member, _ = responsibilities(x, theta)
    for label in np.unique(y[y >= 0]).tolist():
        mine = y == label
        few = [label] if allowed is None else list(allowed[label])
        shares = np.zeros((int(mine.sum()), member.shape[1]))
        own = Theta(*(part[few] for part in theta))
        shares[:, few] = responsibilities(x[mine], own)[0]
        member[mine] = shares
    return member


def _parameters(observed: NDArray, n_components: int) -> NDArray:
    """Where the parameters of some features stand among those of all components, packed."""
    p = len(observed)
    i, j = upper_triangle(p)
    of_component = np.flatnonzero(np.concatenate([[True], observed, observed[i] & observed[j]]))
    return (width(p) * np.arange(n_components)[:, None] + of_component).ravel()


def _of_block(block: _Block) -> tuple[NDArray, NDArray, NDArray]:
    """The scores g of a block's rows, their sum, and their information."""
    x, theta, member, v, _ = block
    K = len(theta.weights)
    factors = precision_factor(theta.covariances)
    precisions = factors.swapaxes(-1, -2) @ factors
    complete = _complete_scores(x, theta, precisions)
    g = (member[..., None] * complete).reshape(len(x), -1)
    summed = v @ g
    expected = _complete_information(summed.reshape(K, -1), theta.weights, precisions)
    within = [((v * member[:, k])[:, None] * complete[:, k]).T @ complete[:, k] for k in range(K)]
    return g, summed, (v[:, None] * g).T @ g + block_diag(*(expected - np.stack(within)))


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


def concluded(
    summed: NDArray,
    scale: NDArray,
    features: Sequence[str],
    *,
    robust: bool = False,
    covariance_type: str = FULL,
) -> Concluded:
    """The covariance of the estimate from the sum of all sites' parts.

    Under a covariance type only moves within its space count: with an orthonormal basis B of it, in units of the
    scale, B (B' I B)^-1 B'.

    Parameters
    ----------
    summed : (part_size,)
    scale : (K, f), that of the parts
    features : (p,), names for error messages
    robust : whether the parts hold the scores' products: then the sandwich I^-1 (sum v^2 g g') I^-1, else I^-1
    covariance_type : one whose covariances are a linear space
    """
    refuse_nonlinear(covariance_type)
    q, n_components = scale.size, scale.shape[0]
    if (wanted := part_size(n_components, len(features), robust=robust)) != summed.size:
        raise UncertaintyError(f"parts of {n_components} components have {wanted} numbers, not {summed.size}")
    score, *matrices = np.split(summed, np.cumsum([q, q * (q + 1) // 2])[: 1 + robust])
    basis = _basis(covariance_type, scale, len(features))
    score, (information, *products) = basis.T @ score, [basis.T @ unvech(each) @ basis for each in matrices]
    fixed = np.zeros_like(scale)
    fixed[:, 0] = scale[:, 0] / np.linalg.norm(scale[:, 0])
    c = basis.T @ fixed.ravel()  # the direction in which weights would no longer sum to one

    def projected(matrix: NDArray) -> NDArray:
        half = matrix - np.outer(matrix @ c, c)
        return np.asarray(half - np.outer(c, c @ half))

    regular = projected(information) + np.outer(c, c) * (np.trace(information) / q)
    rounding = q * ROUNDING
    if not np.isfinite(cholesky_or_nan(regular - rounding * np.eye(len(c)))).all():
        weakest = basis @ np.linalg.eigh(regular)[1][:, 0]
        raise _no_information(weakest.reshape(scale.shape) ** 2, features)
    inverse = projected(np.linalg.inv(regular))
    downhill = score - (score @ c) * c
    covariance = inverse @ products[0] @ inverse if robust else inverse
    covariance, unit = basis @ covariance @ basis.T, scale.ravel()
    return Concluded(
        covariance=unit[:, None] * (covariance + covariance.T) / 2 * unit,
        away=float(np.sqrt(downhill @ inverse @ downhill)),
    )


def parameter_names(features: Sequence[str]) -> list[str]:
    """The names of a component's parameters, (f,)."""
    pairs = zip(*upper_triangle(len(features)), strict=True)
    spread = [f"variance {features[i]}" if i == j else f"covariance {features[i]},{features[j]}" for i, j in pairs]
    return ["weight", *(f"mean {name}" for name in features), *spread]


def _basis(covariance_type: str, scale: NDArray, n_features: int) -> Any:
    """An orthonormal basis (q, r) of the directions in which parameters in units of the scale can move, sparse."""
    moves = directions(covariance_type, len(scale), n_features) / scale.ravel()[:, None]
    return sparse.csr_array(moves / np.linalg.norm(moves, axis=0))  # columns have no parameter in common


def refuse_nonlinear(covariance_type: str) -> None:
    """Refuse a covariance type for which there are no standard errors."""
    if named(covariance_type) not in LINEAR:
        raise UncertaintyError(
            f"there are no standard errors under covariance_type={covariance_type!r}: they are for "
            f"{', '.join(LINEAR)}"
        )


def _no_information(least: NDArray, features: Sequence[str]) -> UncertaintyError:
    """The error that names the parameter with the least information, by the shares (K, f) of the weakest move."""
    k = int(least.sum(axis=1).argmax())
    name = parameter_names(features)[int(least[k].argmax())]
    return UncertaintyError(
        "the rows do not determine all parameters (the information is not positive definite): they say least about "
        f"component {k}, above all its {name}. There are too few rows, or a component is empty or the copy of "
        "another, or a feature is the sum or copy of others, or the fit has not converged: try fewer components or "
        "features, or more rows or labels"
    )
