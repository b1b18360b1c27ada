"""Networks of sites: graphs, the weights sites average with, and measures of both."""

from gaussip.networks.balance import (
    degree_shares,
    degrees,
    diameter,
    imbalance,
    is_two_way,
    listening,
    measures,
    stationary_weights,
)
from gaussip.networks.named import by_name
from gaussip.networks.weights import mixing_weights, two_way_weights

__all__ = [
    "by_name",
    "degree_shares",
    "degrees",
    "diameter",
    "imbalance",
    "is_two_way",
    "listening",
    "measures",
    "mixing_weights",
    "stationary_weights",
    "two_way_weights",
]
