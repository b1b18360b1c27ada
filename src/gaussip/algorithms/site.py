"""What each site knows of itself and of its place in the network."""

from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import Array, NDArray, namespace, to_numpy
from gaussip.exchange.codes import Wide
from gaussip.networks import degree_shares, degrees, listening
from gaussip.settings import check

MOST_LISTED = 1000  # sites: above, no site has a list of who hears whom


class Site(NamedTuple):
    """What a site knows of itself and its place in the network; arrays of the leading shape."""

    share: Array  #: nu_m, the factor on its map F_m: n_m / mean n, or one where sites count equally
    balance: Array  #: M pi_m as far as its degree shows it, one otherwise; see `gaussip.networks.degree_shares`
    degree: Array  #: how many others it hears
    index: Array  #: its place among the sites in sorted order
    links: Array  #: (..., M), one at the places of those it hears; (..., 0) where there are very many sites


def site_facts(mass: Array, W: Any, weighting: str, total: float | None = None) -> Site:
    """What each site knows of itself: its share of the rows, its balance and its degree.

    Parameters
    ----------
    mass : (..., M), the sites' row weights
    W : (M, M) weights
    weighting : ``"rows"`` (every row counts alike: the target is the pooled estimate) or ``"equal"`` (every
        site counts alike, whatever its size: the paper's)
    total : of the masses, as sites sum them; by default that of these
    """
    check(weighting=weighting)
    xp = namespace(mass)

    def per_site(values: NDArray) -> Array:
        return xp.broadcast_to(xp.asarray(values, dtype=mass.dtype, device=mass.device), mass.shape)

    ones = xp.ones_like(mass)
    M = mass.shape[-1]
    listed = listening(W).toarray() if M <= MOST_LISTED else np.empty((M, 0))
    hears = xp.asarray(listed, dtype=mass.dtype, device=mass.device)
    place = xp.broadcast_to(xp.arange(M, device=mass.device), mass.shape)
    known = (per_site(degrees(W)), place, xp.broadcast_to(hears, (*mass.shape, hears.shape[-1])))
    if weighting == "equal":
        return Site(ones, ones, *known)
    summed = Wide().total(to_numpy(mass)) if total is None else np.asarray(total)
    mean = xp.asarray(summed / M, dtype=mass.dtype, device=mass.device)[..., None]
    return Site(mass / mean, per_site(degree_shares(W)), *known)


def site_facts_at(index: int, mass: float, W: Any, weighting: str, total: float) -> Site:
    """What one real site knows of itself, without leading axes."""
    return Site(*(part[index, ...] for part in site_facts(np.full(W.shape[0], mass), W, weighting, total)))
