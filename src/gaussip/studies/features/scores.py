"""How mixtures are scored: one-vs-rest AUC of each class's probability, for each site's mixture."""

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from gaussip.arrays import Array, NDArray, namespace, precision_factor, to_numpy
from gaussip.kernels.array.algebra import log_constant
from gaussip.mixture.theta import Theta, at


def log_joints(X: Array, theta: Theta) -> NDArray:
    """log(alpha_k phi_k(x_i)) under every site's mixture, (M, n, K); theta (M, ...) is on the device of X (n, p)."""
    xp = namespace(X)
    joints = []
    for m in range(theta.means.shape[0]):
        mixture = at(theta, m)
        factor = precision_factor(mixture.covariances)
        white = (X[None, :, :] - mixture.means[:, None, :]) @ xp.matrix_transpose(factor)
        joints.append(to_numpy(log_constant(mixture, factor)[:, None] - 0.5 * xp.sum(white * white, axis=-1)).T)
    return np.stack(joints)


def log_odds(joint: NDArray) -> NDArray:
    """log(pi_ik / (1 - pi_ik)): the same order as pi_ik, without the ties where pi_ik rounds to zero or one."""
    n_classes = joint.shape[-1]
    if n_classes == 1:
        return np.zeros_like(joint)
    others = [np.delete(joint, k, axis=-1) for k in range(n_classes)]
    return np.asarray(joint - np.stack([np.logaddexp.reduce(other, axis=-1) for other in others], axis=-1))


def aucs(scores: NDArray, labels: NDArray) -> NDArray:
    """One-vs-rest AUC of each class (C,) from scores (n, C) and class numbers (n,), by ranks: ties count half."""
    is_class = labels[:, None] == np.arange(scores.shape[1])
    n = is_class.sum(axis=0)
    ranks = rankdata(scores, axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((np.where(is_class, ranks, 0.0).sum(axis=0) - n * (n + 1) / 2) / (n * (len(labels) - n)))


def matched(joint: NDArray, labels: NDArray, n_classes: int) -> NDArray:
    """The component that stands for each class (C,), where components have no names.

    The matching with the largest sum over classes of the mean probability that a class's labelled rows give its
    component: a table of C times K numbers that sites can average. ``joint`` (n, K) and ``labels`` (n,) are those of
    the labelled training rows.
    """
    share = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    table = np.stack([share[labels == c].mean(axis=0) for c in range(n_classes)])
    return np.asarray(linear_sum_assignment(-table)[1])
