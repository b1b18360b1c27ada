"""Networks of sites: graphs, the weights sites average with, and measures of both."""

from gaussip.networks.balance import (
    Measures,
    degree_shares,
    degrees,
    diameter,
    imbalance,
    listening,
    measures,
    sigma,
    spectral_gap,
    stationary_weights,
)
from gaussip.networks.graphs import (
    chain,
    circle,
    complete,
    erdos_renyi,
    fixed_degree,
    grid,
    random_regular,
    ring,
    star,
)
from gaussip.networks.named import NETWORKS, by_name
from gaussip.networks.weights import mixing_weights, two_way_weights
from gaussip.settings import MIXINGS

__all__ = [
    "MIXINGS",
    "NETWORKS",
    "Measures",
    "by_name",
    "chain",
    "circle",
    "complete",
    "degree_shares",
    "degrees",
    "diameter",
    "erdos_renyi",
    "fixed_degree",
    "grid",
    "imbalance",
    "listening",
    "measures",
    "mixing_weights",
    "random_regular",
    "ring",
    "sigma",
    "spectral_gap",
    "star",
    "stationary_weights",
    "two_way_weights",
]
