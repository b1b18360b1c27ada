"""Moves from one mixture to others: a component split in two, and two that overlap joined and another split instead.

EM ends in the optimum next to its start; where one component covers two groups and two share one, only a move helps
(Ueda et al. 2000). What to try is decided by the mixture alone, so that all sites try the same.
"""

from __future__ import annotations

import numpy as np

from gaussip.mixture.merging import bhattacharyya, merged
from gaussip.mixture.theta import Theta

APART = 0.8  # of a standard deviation, to each side, where a component is split
PAIRS = 3  # that are tried to be joined: those that overlap most


def moves(theta: Theta, labelled: int) -> list[Theta]:
    """Mixtures of as many components, in which two of the others' nearest are joined and another is split.

    Parameters
    ----------
    labelled : components that belong to classes, the first ones: their numbers stay, and none is given up
    """
    found = []
    for i, j in nearest_pairs(theta, labelled)[:PAIRS]:
        fewer = merged(theta, i, j)
        found += [split(fewer, k) for k in range(len(fewer.weights)) if k != i]
    return found


def split(theta: Theta, k: int) -> Theta:
    """Component k as two, apart along its longest axis; the mixture's mean and covariance stay as they are.

    The second half comes last, so that components of classes keep their numbers.
    """
    lengths, axes = np.linalg.eigh(theta.covariances[k])
    move = APART * np.sqrt(lengths[-1]) * axes[:, -1]
    move = move if move[np.abs(move).argmax()] > 0 else -move
    weights, means, covariances = (np.concatenate([part, part[k : k + 1]]) for part in theta)
    weights[k] = weights[-1] = weights[k] / 2
    means[k], means[-1] = means[k] + move, means[k] - move
    covariances[k] = covariances[-1] = covariances[k] - np.outer(move, move)
    return Theta(weights, means, covariances)


def nearest_pairs(theta: Theta, labelled: int) -> list[tuple[int, int]]:
    """Pairs i < j of which j belongs to no class, those that overlap most first (Bhattacharyya)."""
    K = len(theta.weights)
    pairs = [(i, j) for j in range(labelled, K) for i in range(j)]
    return sorted(pairs, key=lambda pair: bhattacharyya(theta, *pair))
