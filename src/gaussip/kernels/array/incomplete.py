"""Rows of which some cells are missing, by the kernels of complete rows, in array-API terms.

A group of rows has the features o observed and the others, u, missing. Its missing cells lie at the centre, and its
theta takes the features u as independent of all others, about the centre with variance one: a kernel then gives the
density of the observed cells, but for a constant, and the right sums over o. The rest is filled in (Ghahramani and
Jordan 1994): with B = Sigma_uo Sigma_oo^-1, C = Sigma_uu - B Sigma_ou and T = [I; B],

    S1 - S0 mu = T (S1_o - S0 mu_o),   S2 = T S2_oo T' + S0 [0 0; 0 C].

A group may also be of rows that can only be of some components, those of a class: its theta has these alone.
"""

from typing import NamedTuple

from gaussip.arrays import Array, namespace, precision_factor
from gaussip.mixture.theta import Theta, unvech, vech


class Groups(NamedTuple):
    """What the groups of some sites share; K_a components each."""

    sites: Array  #: (G,), whose rows they are, in order
    observed: Array  #: (G, p), booleans
    components: Array | None  #: (G, K_a), which their rows can be of; None for all
    offsets: Array  #: (S + 1,), a site's groups are those from its offset up to the next
    most: int  #: groups of one site


class Totals(NamedTuple):
    """The sums of S sites."""

    sums: Array  #: (S, K, f), as in `gaussip.rows.moments`
    log_likelihood: Array  #: (S,)
    observed: Array  #: (S, K, p), the rows of a component in which a feature is observed


def narrowed(theta: Theta, groups: Groups, centres: Array) -> Theta:
    """The theta (G, K_a, ...) of each group, from its site's (S, K, ...); centres (G, p)."""
    xp = namespace(theta.means)
    own = _own(theta, groups)
    observed = groups.observed[:, None, :]
    eye = xp.eye(observed.shape[-1], dtype=own.means.dtype, device=own.means.device)
    both = observed[..., :, None] & observed[..., None, :]
    means = xp.where(observed, own.means, centres[:, None, :])
    return Theta(own.weights, means, xp.where(both, own.covariances, eye))


def added(totals: Totals, sums: Array, log_likelihood: Array, theta: Theta, groups: Groups) -> Totals:
    """The totals with the sums (G, K_a, f) of groups, about the means of their narrowed theta, filled in."""
    xp = namespace(sums)
    own = _own(theta, groups)
    p = own.means.shape[-1]
    S0, S1, S2 = sums[..., :1], sums[..., 1 : 1 + p], unvech(sums[..., 1 + p :])
    observed = groups.observed[:, None, :]
    here, there = observed[..., :, None], observed[..., None, :]
    zero, eye = xp.zeros_like(own.covariances), xp.eye(p, dtype=sums.dtype, device=sums.device)
    factor = precision_factor(xp.where(here & there, own.covariances, eye))
    half = xp.where(~here & there, own.covariances, zero) @ xp.matrix_transpose(factor)
    slopes = xp.where(there, half @ factor, zero)  # B
    rest = xp.where(here | there, zero, own.covariances - half @ xp.matrix_transpose(half))  # C
    T = slopes + eye * xp.astype(here, sums.dtype)
    apart = xp.where(observed, S1 - S0 * own.means, xp.zeros_like(S1))
    first = xp.where(observed, S1, S0 * own.means + (slopes @ apart[..., None])[..., 0])
    second = T @ S2 @ xp.matrix_transpose(T) + S0[..., None] * rest
    seen = xp.astype(observed, sums.dtype) * S0
    parts = xp.concat([S0, first, vech(second), seen], axis=-1)
    if groups.components is not None:  # at their places among all components
        numbers = xp.arange(totals.sums.shape[-2], device=sums.device)
        member = groups.components[:, None, :] == numbers[:, None]
        parts = xp.astype(member, parts.dtype) @ parts
    parts = xp.concat([parts, xp.zeros_like(parts[:1, ...])], axis=0)
    heights = xp.concat([log_likelihood, xp.zeros_like(log_likelihood[:1])])
    first, last = groups.offsets[:-1], groups.offsets[1:]
    for place in range(groups.most):  # one after the other: the same order, whoever else is there
        chosen = xp.where(first + place < last, first + place, groups.sites.shape[0])
        part = xp.take(parts, chosen, axis=0)
        totals = Totals(
            totals.sums + part[..., :-p], totals.log_likelihood + xp.take(heights, chosen, axis=0),
            totals.observed + part[..., -p:],
        )  # fmt: skip
    return totals


def _own(theta: Theta, groups: Groups) -> Theta:
    """The components that the rows of each group can be of, (G, K_a, ...)."""
    xp = namespace(theta.means)
    if groups.components is None:
        return Theta(*(xp.take(part, groups.sites, axis=0) for part in theta))
    K = theta.weights.shape[-1]
    flat = xp.reshape(groups.sites[:, None] * K + groups.components, (-1,))
    return Theta(
        *(
            xp.reshape(
                xp.take(xp.reshape(part, (-1, *part.shape[2:])), flat, axis=0),
                (*groups.components.shape, *part.shape[2:]),
            )
            for part in theta
        )
    )
