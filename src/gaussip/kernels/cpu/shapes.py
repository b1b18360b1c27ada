"""The covariances of an M-step under each covariance type, by the same bits on every processor.

Given the weights alpha_k and the full covariances of the pooled moments, W_k = alpha_k Sigma_k, each function puts
the covariances that maximise the expected log-likelihood under its type (Celeux and Govaert 1995) in the place of the
full ones. Types are named as in mclust: volume, shape and orientation are equal (E), vary (V), or are those of the
unit matrix (I). Where a covariance is not positive definite, all are NaN.
"""

import numpy as np

from gaussip.arrays import NDArray
from gaussip.kernels.cpu.exact import exactly, exp, log, to_axes

INNER = 500  # steps between volumes and the common shape, at most
SMALL = 1e-13  # relative change of the volumes at which they end
EII, VII, EEI, VEI, EVI, VVI, EEE, VEE, EEV, VEV, EVV = range(11)


@exactly
def shape(kind: int, weights: NDArray, covariances: NDArray) -> None:
    """Shape covariances (S, K, p, p) of weights (S, K) in place."""
    for s in range(len(weights)):
        if kind in (EEV, VEV):
            _turned(kind, weights[s], covariances[s])
        elif kind == EVV:
            _of_one_volume(weights[s], covariances[s])
        elif kind in (EEE, VEE):
            _shared(kind, weights[s], covariances[s])
        else:
            _upright(kind, weights[s], covariances[s])


@exactly
def _upright(kind: int, weights: NDArray, covariances: NDArray) -> None:
    """Diagonal covariances."""
    K, p = covariances.shape[:2]
    variances = np.empty((K, p))
    for k in range(K):
        for i in range(p):
            variances[k, i] = covariances[k, i, i]
    if kind in (EII, VII):
        for k in range(K):
            total = 0.0
            for i in range(p):
                total += variances[k, i]
            for i in range(p):
                variances[k, i] = total / p
    if kind in (EII, EEI):
        for i in range(p):
            total, mass = 0.0, 0.0
            for k in range(K):
                total += weights[k] * variances[k, i]
                mass += weights[k]
            for k in range(K):
                variances[k, i] = total / mass
    elif kind == EVI:
        _even_out(weights, variances)
    elif kind == VEI:
        _share_shape(weights, variances)
    for k in range(K):
        for i in range(p):
            for j in range(p):
                covariances[k, i, j] = variances[k, i] if i == j else 0.0


@exactly
def _mean_log(values: NDArray) -> float:
    """The mean of the logarithms; NaN where a value is not positive and finite."""
    total = 0.0
    for i in range(len(values)):
        if not (values[i] > 0.0 and values[i] < np.inf):
            return np.nan
        total += log(values[i])
    return total / len(values)


@exactly
def _even_out(weights: NDArray, variances: NDArray) -> None:
    """Scale the variances (K, p) of each component to one volume."""
    K, p = variances.shape
    volumes, common, mass = np.empty(K), 0.0, 0.0
    for k in range(K):
        volumes[k] = exp(_mean_log(variances[k]))
        common += weights[k] * volumes[k]
        mass += weights[k]
    for k in range(K):
        for i in range(p):
            variances[k, i] *= common / mass / volumes[k]


@exactly
def _share_shape(weights: NDArray, variances: NDArray) -> None:
    """Variances (K, p) as volumes times one shape."""
    K, p = variances.shape
    volumes, common = np.ones(K), np.empty(p)
    for step in range(INNER):
        for i in range(p):
            common[i] = 0.0
            for k in range(K):
                common[i] += weights[k] * variances[k, i] / volumes[k]
        size, moved = exp(_mean_log(common)), 0.0
        for i in range(p):
            common[i] /= size
        for k in range(K):
            before, volumes[k] = volumes[k], 0.0
            for i in range(p):
                volumes[k] += variances[k, i] / common[i] / p
            moved = max(moved, abs(volumes[k] / before - 1.0))
        if step > 0 and not moved > SMALL:
            break
    for k in range(K):
        for i in range(p):
            variances[k, i] = volumes[k] * common[i]


@exactly
def _shared(kind: int, weights: NDArray, covariances: NDArray) -> None:
    """One covariance for all components, or the same but for their volumes."""
    K, p = covariances.shape[:2]
    volumes, common = np.ones(K), np.empty((p, p))
    root, inverse, pivots = np.empty((p, p)), np.empty((p, p)), np.empty(p)
    mass = 0.0
    for k in range(K):
        mass += weights[k]
    for step in range(INNER if kind == VEE else 1):
        for i in range(p):
            for j in range(p):
                common[i, j] = 0.0
                for k in range(K):
                    common[i, j] += weights[k] * covariances[k, i, j] / volumes[k] / mass
        if kind == EEE:
            break
        _factorise(common, root, pivots)
        size, moved = exp(2.0 * _mean_log(pivots)), 0.0
        for i in range(p):
            for j in range(p):
                common[i, j] /= size
        _factorise(common, root, pivots)
        _invert(root, inverse)
        for k in range(K):
            before, volumes[k] = volumes[k], 0.0
            for n in range(p):  # the trace of Sigma_k times the inverse of the shape
                for i in range(n + 1):
                    for j in range(n + 1):
                        volumes[k] += inverse[n, i] * covariances[k, i, j] * inverse[n, j] / p
            moved = max(moved, abs(volumes[k] / before - 1.0))
        if step > 0 and not moved > SMALL:
            break
    for k in range(K):
        for i in range(p):
            for j in range(p):
                covariances[k, i, j] = volumes[k] * common[i, j]


@exactly
def _of_one_volume(weights: NDArray, covariances: NDArray) -> None:
    """Covariances scaled to one volume."""
    K, p = covariances.shape[:2]
    root, pivots, volumes = np.empty((p, p)), np.empty(p), np.empty(K)
    common, mass = 0.0, 0.0
    for k in range(K):
        _factorise(covariances[k], root, pivots)
        volumes[k] = exp(2.0 * _mean_log(pivots))
        common += weights[k] * volumes[k]
        mass += weights[k]
    for k in range(K):
        for i in range(p):
            for j in range(p):
                covariances[k, i, j] *= common / mass / volumes[k]


@exactly
def _turned(kind: int, weights: NDArray, covariances: NDArray) -> None:
    """Covariances with the same lengths of axes, up to a volume under VEV, each turned its own way."""
    K, p = covariances.shape[:2]
    lengths, axes, mass = np.empty((K, p)), np.empty((K, p, p)), 0.0
    for k in range(K):
        to_axes(covariances[k], lengths[k], axes[k])
        mass += weights[k]
    if kind == VEV:
        _share_shape(weights, lengths)
    else:
        for i in range(p):
            total = 0.0
            for k in range(K):
                total += weights[k] * lengths[k, i]
            for k in range(K):
                lengths[k, i] = total / mass
    for k in range(K):
        for i in range(p):
            for j in range(i + 1):
                total = 0.0
                for n in range(p):
                    total += lengths[k, n] * axes[k, i, n] * axes[k, j, n]
                covariances[k, i, j] = covariances[k, j, i] = total


@exactly
def _factorise(matrix: NDArray, root: NDArray, pivots: NDArray) -> None:
    """The lower Cholesky factor and its diagonal; NaN from where the matrix is not positive definite."""
    for i in range(len(matrix)):
        for j in range(i + 1):
            left = matrix[i, j]
            for n in range(j):
                left -= root[i, n] * root[j, n]
            if j < i:
                root[i, j] = left / root[j, j]
            else:
                root[i, i] = np.sqrt(left) if left > 0.0 and left < np.inf else np.nan
                pivots[i] = root[i, i]


@exactly
def _invert(root: NDArray, inverse: NDArray) -> None:
    """The inverse of a lower triangular matrix."""
    for i in range(len(root)):
        for j in range(i + 1):
            total = 1.0 if i == j else 0.0
            for n in range(j, i):
                total -= root[i, n] * inverse[n, j]
            inverse[i, j] = total / root[i, i]
