"""Log-densities of single rows under one mixture: what prediction and scoring need."""

from __future__ import annotations

from typing import Any

import numpy as np

from gaussip.moments import log_density_coefficients
from gaussip.parameters import Theta, overall
from gaussip.rows import SiteRows


def log_joint(X: np.ndarray[Any, Any], theta: Theta) -> np.ndarray[Any, Any]:
    """log(alpha_k phi_k(x_i)) of every row and component.

    Parameters
    ----------
    X : (n, p)
    theta : Theta without leading axes

    Returns
    -------
    (n, K)
    """
    centre, _ = overall(theta)
    coefficients = log_density_coefficients(theta, centre)
    blocks = SiteRows(X, None, centre, None).blocks()
    return np.concatenate([(coefficients @ features).T for features, _ in blocks])


def responsibilities(X: np.ndarray[Any, Any], theta: Theta) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Responsibilities (n, K) and log-densities (n,) of every row."""
    joint = log_joint(X, theta)
    top = joint.max(axis=1, keepdims=True)
    share = np.exp(joint - top)
    norm = share.sum(axis=1, keepdims=True)
    return share / norm, (top + np.log(norm))[:, 0]
