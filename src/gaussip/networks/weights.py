"""The weights W with which each site averages what it receives over a network."""

from collections.abc import Sequence
from typing import Any

import networkx as nx
import numpy as np
from scipy import sparse

from gaussip.errors import NetworkError, Text, some
from gaussip.networks.balance import listening
from gaussip.networks.named import by_name, parse
from gaussip.settings import check


def mixing_weights(
    network: Any,
    sites: Sequence[Any],
    mixing: str = "row",
    seed: int | np.random.Generator | None = None,
) -> sparse.csr_array:
    """W of a network over the given sites, (M, M) with sorted columns, checked.

    Parameters
    ----------
    network : a name (`gaussip.networks.by_name`), a networkx graph, or an (M, M) weight matrix (dense or
        sparse, used as it is: row m holds the weights site m gives to what it hears)
    sites : names of the sites in sorted order. A graph's nodes are these names or 0..M-1
    mixing : ``"row"`` (the paper's: row-normalised adjacency; edge attributes ``weight`` count) or
        ``"metropolis"`` (two-way networks only; symmetric, so all sites have the same weight)
    seed : for networks drawn at random
    """
    check(mixing=mixing)
    if len(sites) == 1:
        if isinstance(network, str):
            parse(network)  # reject a misspelt name all the same
        return sparse.csr_array(np.ones((1, 1)))
    if isinstance(network, str):
        W = _of_graph(by_name(network, len(sites), seed), range(len(sites)), mixing)
    elif isinstance(network, nx.Graph):
        W = _of_graph(network, _nodes(network, sites), mixing)
    else:
        W = _of_matrix(network, sites)
    _check_reach(W, sites)
    return W


def _nodes(graph: nx.Graph, sites: Sequence[Any]) -> Sequence[Any]:
    """The node of each site in the graph."""
    names = [site.item() if isinstance(site, np.generic) else site for site in sites]
    nodes = set(graph.nodes)
    if nodes == set(names):
        return names
    if nodes == set(range(len(sites))):
        return range(len(sites))
    missing = [name for name in names if name not in nodes]
    extra = sorted(map(str, nodes - set(names)))
    faults = [f"no node for site {some(missing)}"] if missing else []
    faults += [f"no rows at node {some(extra)}"] if extra else []
    raise NetworkError(
        f"the network's nodes are not the sites: {' and '.join(faults)}; "
        f"name the nodes as the sites, or 0..{len(sites) - 1} in sorted order of the sites"
    )


def _of_graph(graph: nx.Graph, nodes: Sequence[Any], mixing: str) -> sparse.csr_array:
    if nx.number_of_selfloops(graph):
        raise NetworkError("the network has an edge from a site to itself; remove it")
    # networkx counts q -> m as A[q, m]; W's row m is what m hears
    try:
        A = sparse.csr_array(nx.to_scipy_sparse_array(graph, nodelist=list(nodes), format="csr", dtype=float).T)
    except (TypeError, ValueError) as error:
        raise NetworkError(f"the network has an edge whose weight is not a number: {error}") from error
    if A.nnz and not (A.data > 0).all():
        raise NetworkError("the network has an edge whose weight is not positive")
    if mixing == "metropolis":
        return metropolis(A)
    totals = np.asarray(A.sum(axis=1)).ravel()
    scale = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    return sparse.csr_array(sparse.diags_array(scale) @ A)


def two_way_weights(W: Any, sites: Sequence[Any], name: str) -> sparse.csr_array:
    """The Metropolis weights on the network of W's nonzero entries, for an algorithm that needs them."""
    hears = listening(W)
    one_way = np.transpose((hears > hears.T).nonzero())
    if len(one_way):
        m, q = one_way[0]
        raise NetworkError(
            f"{name} needs a two-way network: site {sites[m]!r} receives from {sites[q]!r}, which does not receive "
            f"from it ({len(one_way)} links are one-way)",
            remedy=Text(
                "use {algorithm:'masked'}, which runs on any network, or ring, grid, star, random-regular(4) or "
                "another two-way network"
            ),
        )
    return metropolis(hears)


def metropolis(adjacency: sparse.csr_array) -> sparse.csr_array:
    """Metropolis weights: w_mq = 1 / (1 + max(d_m, d_q)), the rest on the site itself.

    Symmetric and doubly stochastic; each site computes its row from its degree and its neighbours' degrees.
    """
    if (adjacency != adjacency.T).nnz:
        raise NetworkError(
            Text("{mixing:'metropolis'} needs a two-way network (every edge in both directions)"),
            setting="mixing",
            remedy=Text("use {mixing:'row'}, or a two-way network such as 'ring'"),
        )
    if not (adjacency.data == 1).all():
        text = Text("{mixing:'metropolis'} sets its own weights; remove the weights of the network's edges")
        raise NetworkError(text, setting="mixing")
    degrees = np.diff(adjacency.indptr)
    pairs = adjacency.tocoo()
    weights = 1.0 / (1.0 + np.maximum(degrees[pairs.coords[0]], degrees[pairs.coords[1]]))
    off = sparse.csr_array((weights, pairs.coords), shape=adjacency.shape)
    W = sparse.csr_array(off + sparse.diags_array(1.0 - np.asarray(off.sum(axis=1)).ravel()))
    W.sort_indices()
    return W


def _of_matrix(matrix: Any, sites: Sequence[Any]) -> sparse.csr_array:
    M = len(sites)
    matrix = in_order(matrix, sites)
    try:
        W = sparse.csr_array(matrix, dtype=float)
    except (TypeError, ValueError, IndexError) as error:
        raise NetworkError(
            f"a network is a name, a networkx graph or a weight matrix, not {type(matrix).__name__}"
        ) from error
    W.sort_indices()
    if W.shape != (M, M):
        raise NetworkError(f"the weight matrix is {W.shape[0]} x {W.shape[1]}, but there are {M} sites")
    if W.nnz and not (np.isfinite(W.data).all() and (W.data >= 0).all()):
        raise NetworkError("the weight matrix has entries that are negative or not finite")
    W.eliminate_zeros()
    sums = np.asarray(W.sum(axis=1)).ravel()
    wrong = np.flatnonzero(np.abs(sums - 1) > 1e-8)
    if wrong.size:
        m = int(wrong[0])
        raise NetworkError(
            f"the weights of site {sites[m]!r} sum to {sums[m]:.6g}, not to one "
            f"({wrong.size} of {M} rows are wrong); divide each row by its sum"
        )
    return W


def in_order(matrix: Any, sites: Sequence[Any]) -> Any:
    """A weight matrix with rows and columns in the order of the sites; a data frame is reordered by name."""
    if not hasattr(matrix, "reindex"):
        return matrix
    for names in (list(sites), list(range(len(sites)))):
        if set(matrix.index) == set(matrix.columns) == set(names):
            return matrix.reindex(index=names, columns=names).to_numpy()
    raise NetworkError("the rows and columns of the weight matrix are not named as the sites")


def _check_reach(W: sparse.csr_array, sites: Sequence[Any]) -> None:
    """Every site must hear somebody, be heard by somebody, and reach every other."""
    others = W - sparse.diags_array(W.diagonal())
    others = sparse.csr_array(others)
    others.eliminate_zeros()
    hears = np.diff(others.indptr)
    heard_by = np.bincount(others.indices, minlength=len(sites))
    for counts, what in ((hears, "hears nobody"), (heard_by, "is heard by nobody")):
        alone = [sites[int(m)] for m in np.flatnonzero(counts == 0)]
        if alone:
            raise NetworkError(
                f"site {some(alone)} {what}, so its rows would be ignored; give it an edge, or leave the site out"
            )
    n_parts, part = sparse.csgraph.connected_components(others, directed=True, connection="strong")
    if n_parts > 1:
        together = [sites[int(m)] for m in np.flatnonzero(part == part[0])]
        raise NetworkError(
            f"the network falls into {n_parts} parts that do not all reach each other: "
            f"one of them is {some(together)}; add edges between the parts"
        )
