"""The distance between two components of a mixture, and the mixture with the two merged."""

import numpy as np

from gaussip.mixture.theta import Theta, overall, reorder


def bhattacharyya(theta: Theta, k: int, other: int) -> float:
    """The Bhattacharyya distance between two components: exp(-distance) is their overlap."""
    both = theta.covariances[[k, other]]
    middle = both.mean(axis=0)
    apart = theta.means[k] - theta.means[other]
    sizes = np.linalg.slogdet(np.stack([middle, *both]))[1]
    return float(apart @ np.linalg.solve(middle, apart) / 8 + (sizes[0] - sizes[1:].mean()) / 2)


def merged(theta: Theta, k: int, other: int) -> Theta:
    """The mixture with components k < other merged into k; its overall mean and covariance do not change."""
    both = reorder(theta, np.array([k, other]))
    total = both.weights.sum()
    mean, covariance = overall(both._replace(weights=both.weights / total))
    weights, means, covariances = (np.delete(part, other, axis=0) for part in theta)
    weights[k], means[k], covariances[k] = total, mean, covariance
    return Theta(weights, means, covariances)
