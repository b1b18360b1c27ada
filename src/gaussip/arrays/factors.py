"""Cholesky factors that are NaN, instead of an exception, where a matrix has none."""

import numpy as np

from gaussip.arrays.libraries import Array, namespace


def cholesky_or_nan(matrices: Array) -> Array:
    """Lower Cholesky factors; NaN, and no exception, where a matrix is not positive definite.

    Libraries fail differently, and one bad matrix spoils a whole stack: on failure each matrix is tried
    alone, so that the others of the stack keep their factors.
    """
    xp = namespace(matrices)
    if hasattr(xp.linalg, "cholesky_ex"):  # torch's, which does not make a GPU wait for the host
        factors, failed = xp.linalg.cholesky_ex(matrices)
        return xp.where(failed[..., None, None] == 0, factors, xp.nan)
    try:
        return xp.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        flat = xp.reshape(matrices, (-1, *matrices.shape[-2:]))
        if flat.shape[0] == 1:
            return xp.full_like(matrices, xp.nan)
        factors = [cholesky_or_nan(flat[i, ...][None, ...]) for i in range(flat.shape[0])]
        return xp.reshape(xp.concat(factors, axis=0), matrices.shape)


def precision_factor(covariances: Array) -> Array:
    """Lower triangular T with T'T the inverse of each covariance; NaN where it is not positive definite."""
    xp = namespace(covariances)
    roots = cholesky_or_nan(covariances)
    if hasattr(xp.linalg, "solve_triangular"):
        identity = xp.eye(roots.shape[-1], dtype=roots.dtype, device=roots.device)
        return xp.linalg.solve_triangular(roots, identity, upper=False)
    return xp.linalg.inv(roots)
