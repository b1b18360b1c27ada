"""Measures of a network: how fast it mixes, and how evenly it weights the sites."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gaussip.arrays import NDArray


class Measures(NamedTuple):
    """The measures of one W."""

    se_w: float  #: SE(W), imbalance: 0 when all sites have the same weight
    sigma_w: float  #: mixing: the smaller, the faster sites agree
    spectral_gap: float  #: 1 - |second largest eigenvalue| of W
    stationary: NDArray  #: (M,), the share of each site in the limit, sums to one


def measures(W: Any) -> Measures:
    """All measures of the weights W."""
    return Measures(imbalance(W), sigma(W), spectral_gap(W), stationary_weights(W))


def imbalance(W: Any) -> float:
    """SE(W) = M^(-1/2) ||W'1 - 1||, the paper's measure of balance."""
    W = _dense(W)
    return float(np.linalg.norm(W.sum(axis=0) - 1) / np.sqrt(W.shape[0]))


def sigma(W: Any) -> float:
    """sigma_w, with sigma_w^2 = ||W'(I - 11'/M)W||."""
    W = _dense(W)
    return float(np.linalg.norm(W - W.mean(axis=0), ord=2))


def spectral_gap(W: Any) -> float:
    """One minus the second largest modulus among W's eigenvalues."""
    moduli = np.sort(np.abs(np.linalg.eigvals(_dense(W))))
    return max(0.0, float(1 - moduli[-2])) if moduli.size > 1 else 1.0


def stationary_weights(W: Any) -> NDArray:
    """The left Perron vector pi: pi W = pi, summing to one. MNEM's target as eta goes to zero."""
    W = _dense(W)
    M = W.shape[0]
    # pi (I - W) = 0 with one equation replaced by sum(pi) = 1
    system = np.eye(M) - W.T
    system[-1] = 1.0
    return np.asarray(np.linalg.solve(system, np.eye(M)[-1]))


def diameter(W: Any) -> int:
    """The exchanges after which all sites have heard from all: the longest shortest path between two sites."""
    return int(sparse.csgraph.shortest_path(listening(W), unweighted=True).max())


def listening(W: Any) -> sparse.csr_array:
    """(M, M), one where a site hears another."""
    links = sparse.coo_array(W)
    there = (links.row != links.col) & (links.data > 0)
    ones = np.ones(np.count_nonzero(there))
    return sparse.csr_array((ones, (links.row[there], links.col[there])), shape=links.shape)


def degrees(W: Any) -> NDArray:
    """How many other sites each site hears."""
    return np.asarray(np.diff(listening(W).indptr), dtype=float)


def is_two_way(W: Any) -> bool:
    """Whether whoever is heard also hears."""
    hears = listening(W)
    return bool((hears != hears.T).nnz == 0)


def degree_shares(W: Any) -> NDArray:
    """M pi as each site estimates it from its degree: d_m / mean d on a two-way row-normalised network, else 1."""
    W = sparse.csr_array(W)
    unknown = np.ones(W.shape[0])
    if (W.diagonal() > 0).any() or not is_two_way(W):
        return unknown
    d = degrees(W)
    even = sparse.diags_array(1 / d) @ listening(W)
    return np.asarray(d / d.mean()) if (abs(W - even) > 1e-12 * even).nnz == 0 else unknown


def _dense(W: Any) -> NDArray:
    return np.asarray(W.toarray() if sparse.issparse(W) else W, dtype=float)
