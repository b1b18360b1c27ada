"""Networks by name: ``"circle"``, ``"circle(2)"``, ``"fixed-degree(3)"``, ..."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

from gaussip.errors import NetworkError
from gaussip.networks import graphs


class Named(NamedTuple):
    """A network that has a name."""

    build: Callable[..., nx.DiGraph]
    argument: type[int] | type[float] | None  #: the type of the argument in brackets, if it takes one
    required: bool  #: whether the argument must be given
    random: bool  #: whether the network is drawn at random


NETWORKS: dict[str, Named] = {
    "star": Named(graphs.star, None, False, False),
    "circle": Named(graphs.circle, int, False, False),
    "fixed-degree": Named(graphs.fixed_degree, int, True, True),
    "fixed-degree-both": Named(graphs.fixed_degree_both, int, True, True),
    "complete": Named(graphs.complete, None, False, False),
    "ring": Named(graphs.ring, None, False, False),
    "chain": Named(graphs.chain, None, False, False),
    "grid": Named(graphs.grid, None, False, False),
    "erdos-renyi": Named(graphs.erdos_renyi, float, True, True),
    "random-regular": Named(graphs.random_regular, int, True, True),
}


def parse(name: str) -> tuple[Named, list[Any]]:
    """The network of a name, and the argument in its brackets."""
    match = re.fullmatch(r"\s*([a-z-]+?)\s*(?:\(\s*([^()]*?)\s*\))?\s*", name)
    if match is None or match[1] not in NETWORKS:
        raise NetworkError(f"there is no network {name!r}; there are: {', '.join(map(usage, NETWORKS))}")
    network, text = NETWORKS[match[1]], match[2]
    if not text:
        if network.required:
            raise NetworkError(f"network {name!r} needs a number; write {usage(match[1])}")
        return network, []
    try:
        if network.argument is None:
            raise ValueError
        return network, [network.argument(text)]
    except ValueError:
        raise NetworkError(f"network {name!r} is not understood; write {usage(match[1])}") from None


def by_name(name: str, n_sites: int, seed: int | np.random.Generator | None = None) -> nx.DiGraph:
    """The network of that name over 0..n_sites-1.

    >>> sorted(by_name("circle(2)", 4).predecessors(0))
    [1, 2]
    """
    network, arguments = parse(name)
    return network.build(n_sites, *arguments, **({"seed": seed} if network.random else {}))


def usage(name: str) -> str:
    """How a name is written, for instance ``fixed-degree(D)``."""
    network = NETWORKS[name]
    letter = {int: "D", float: "P"}.get(network.argument, "") if network.argument else ""
    return f"{name}({letter})" if network.required else f"{name} or {name}({letter})" if letter else name
