"""Moves from a mixture to others: split a component in two, or merge two that overlap and split another.

EM ends in the optimum next to its start. If one component covers two groups and two others share a group, only a move
helps (Ueda et al. 2000). The moves depend on the mixture alone, so all sites try the same.
"""

import numpy as np

from gaussip.kernels.cpu.exact import longest_axis
from gaussip.mixture.merging import bhattacharyya, merged
from gaussip.mixture.theta import Theta

APART = 0.8  # standard deviations to each side when a component is split
PAIRS = 3  # to merge: those that overlap most


def moves(theta: Theta, labelled: int) -> list[Theta]:
    """Mixtures with the same number of components, in which a pair is merged and another component is split.

    The first ``labelled`` components belong to classes: they keep their numbers.
    """
    mixtures = []
    for i, j in nearest_pairs(theta, labelled)[:PAIRS]:
        fewer = merged(theta, i, j)
        mixtures += [split(fewer, k) for k in range(len(fewer.weights)) if k != i]
    return mixtures


def split(theta: Theta, k: int) -> Theta:
    """Component k as two, apart along its longest axis; the mixture's mean and covariance do not change.

    The second half comes last, so components of classes keep their numbers.
    """
    move = np.empty(theta.means.shape[1])
    longest_axis(np.ascontiguousarray(theta.covariances[k]), move)
    move *= APART
    move = move if move[np.abs(move).argmax()] > 0 else -move
    weights, means, covariances = (np.concatenate([part, part[k : k + 1]]) for part in theta)
    weights[k] = weights[-1] = weights[k] / 2
    means[k], means[-1] = means[k] + move, means[k] - move
    covariances[k] = covariances[-1] = covariances[k] - np.outer(move, move)
    return Theta(weights, means, covariances)


def nearest_pairs(theta: Theta, labelled: int) -> list[tuple[int, int]]:
    """Pairs i < j where j has no class, ordered by overlap (Bhattacharyya), largest first.

    Distances are rounded: their last digits depend on the machine.
    """
    K = len(theta.weights)
    pairs = [(i, j) for j in range(labelled, K) for i in range(j)]
    return sorted(pairs, key=lambda pair: round(bhattacharyya(theta, *pair), 9))
