"""Networks as plain directed graphs from plain functions.

An edge q -> m means that q sends to m: ``graph.predecessors(m)`` are the sites m hears. Nodes are
0..M-1, standing for the sites in the sorted order of their names.
"""

import math
from collections.abc import Callable

import networkx as nx
import numpy as np

from gaussip.errors import NetworkError

TRIES = 1000  # draws of a random network until every site reaches every other


def star(n_sites: int) -> nx.DiGraph:
    """Site 0, the hub, and every other site hear each other [1]_.

    The least balanced network: SE(W) = (M - 2) / sqrt(M - 1).

    .. [1] Wu, Huang, Wang (2023), Network gradient descent algorithm for decentralized federated learning.
    """
    _check(n_sites, "star")
    return nx.star_graph(n_sites - 1).to_directed()


def circle(n_sites: int, degree: int = 1) -> nx.DiGraph:
    """Site m hears sites m+1, ..., m+degree (mod M), one way. SE(W) = 0."""
    _check(n_sites, "circle", degree)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n_sites))
    graph.add_edges_from(((m + d) % n_sites, m) for m in range(n_sites) for d in range(1, degree + 1))
    return graph


def fixed_degree(n_sites: int, degree: int, seed: int | np.random.Generator | None = None) -> nx.DiGraph:
    """Each site hears ``degree`` others, drawn without replacement; E SE(W)^2 = 1/D - 1/(M-1) for a single draw.

    A draw may leave a site that nobody hears: the network is drawn again until every site reaches every other.
    """
    _check(n_sites, "fixed-degree", degree)
    rng = np.random.default_rng(seed)

    def draw() -> nx.DiGraph:
        graph = nx.DiGraph()
        graph.add_nodes_from(range(n_sites))
        for m in range(n_sites):
            others = np.delete(np.arange(n_sites), m)
            chosen = rng.choice(others, size=degree, replace=False)
            graph.add_edges_from((int(q), m) for q in sorted(chosen))
        return graph

    return _until_connected(draw, f"fixed-degree({degree})")


def fixed_degree_both(n_sites: int, degree: int, seed: int | np.random.Generator | None = None) -> nx.DiGraph:
    """The fixed-degree network with every edge made two-way."""
    graph = fixed_degree(n_sites, degree, seed)
    return nx.compose(graph, graph.reverse())


def complete(n_sites: int) -> nx.DiGraph:
    """Every site hears every other."""
    _check(n_sites, "complete")
    return nx.complete_graph(n_sites, create_using=nx.DiGraph)


def ring(n_sites: int) -> nx.DiGraph:
    """Site m and site m+1 (mod M) hear each other: the circle, two ways."""
    _check(n_sites, "ring")
    return nx.cycle_graph(n_sites).to_directed() if n_sites > 2 else complete(2)


def chain(n_sites: int) -> nx.DiGraph:
    """Site m and site m+1 hear each other, without closing the ring."""
    _check(n_sites, "chain")
    return nx.path_graph(n_sites).to_directed()


def grid(n_sites: int) -> nx.DiGraph:
    """The most square rectangle of sites, each hearing those beside, above and below it; a chain if M is prime."""
    _check(n_sites, "grid")
    rows = max(r for r in range(1, math.isqrt(n_sites) + 1) if n_sites % r == 0)
    columns = n_sites // rows
    lattice = nx.grid_2d_graph(rows, columns)
    return nx.relabel_nodes(lattice, {(i, j): i * columns + j for i, j in lattice}).to_directed()


def erdos_renyi(n_sites: int, probability: float, seed: int | np.random.Generator | None = None) -> nx.DiGraph:
    """Each pair of sites hears each other with the given probability; drawn again until connected."""
    _check(n_sites, "erdos-renyi")
    if not 0 < probability <= 1:
        raise NetworkError(f"erdos-renyi({probability:g}): the probability must lie in (0, 1]")
    rng = np.random.default_rng(seed)
    return _until_connected(
        lambda: nx.gnp_random_graph(n_sites, probability, seed=rng).to_directed(),
        f"erdos-renyi({probability:g})",
    )


def random_regular(n_sites: int, degree: int, seed: int | np.random.Generator | None = None) -> nx.DiGraph:
    """Each site and ``degree`` others hear each other, drawn uniformly; drawn again until connected."""
    _check(n_sites, "random-regular", degree)
    if n_sites * degree % 2:
        raise NetworkError(
            f"random-regular({degree}) over {n_sites} sites: sites times degree must be even; "
            f"try random-regular({degree + 1})"
        )
    rng = np.random.default_rng(seed)
    return _until_connected(
        lambda: nx.random_regular_graph(degree, n_sites, seed=rng).to_directed(), f"random-regular({degree})"
    )


def _until_connected(draw: Callable[[], nx.DiGraph], name: str) -> nx.DiGraph:
    for _ in range(TRIES):
        graph = draw()
        if nx.is_strongly_connected(graph):
            return graph
    raise NetworkError(
        f"{name}: none of {TRIES} draws let every site reach every other; ask for a larger degree or probability"
    )


def _check(n_sites: int, name: str, degree: int = 1) -> None:
    if n_sites < 2:
        raise NetworkError(f"a {name} network needs at least 2 sites, not {n_sites}")
    if not 1 <= degree < n_sites:
        raise NetworkError(f"{name}({degree}) over {n_sites} sites: the degree must lie in 1..{n_sites - 1}")
