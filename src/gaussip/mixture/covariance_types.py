"""Covariance types: what the covariances of a mixture share, their names, their parameters and their shapes.

scikit-learn names four. mclust names all by three letters for volume, shape and orientation, which are equal (E),
vary from component to component (V), or are those of the unit matrix (I) (Banfield and Raftery 1993). EVE and VVE are
not offered: their components share axes and not shapes, which has no closed update.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import StartError, Text
from gaussip.mixture.theta import upper_triangle, width
from gaussip.settings import COVARIANCES

FULL = "full"
LETTERS = {"full": "VVV", "tied": "EEE", "diag": "VVI", "spherical": "VII"}
NAMES = {letters: name for name, letters in LETTERS.items()}
TYPES = tuple(name for name in COVARIANCES if name not in NAMES)  #: as they are reported
UNSCALABLE = ("VII", "EII", "EEV", "VEV")  #: that features in other units no longer have
LINEAR = ("full", "tied", "diag", "spherical", "EII", "EEI")  #: whose covariances are a linear space


def named(given: str) -> str:
    """A type as it is reported."""
    return NAMES.get(given, given)


def letters_of(name: str) -> str:
    """mclust's name of a type."""
    return LETTERS.get(named(name), name)


def n_covariance_parameters(name: str, n_components: int, n_features: int) -> int:
    """Free parameters of the covariances."""
    volume, shape, orientation = tuple(letters_of(name))
    K, p = n_components, n_features
    turned = {"I": 0, "E": 1, "V": K}[orientation] * p * (p - 1) // 2
    return {"E": 1, "V": K}[volume] + {"I": 0, "E": 1, "V": K}[shape] * (p - 1) + turned


def n_parameters(name: str, n_components: int, n_features: int) -> int:
    """Free parameters of a mixture (the weights sum to one)."""
    return n_components * (1 + n_features) - 1 + n_covariance_parameters(name, n_components, n_features)


def public_shape(name: str, n_components: int, n_features: int) -> tuple[int, ...]:
    """The shape of a type's covariances as people see them: scikit-learn's."""
    K, p = n_components, n_features
    return {"tied": (p, p), "diag": (K, p), "spherical": (K,)}.get(named(name), (K, p, p))


def as_public(name: str, covariances: NDArray) -> NDArray:
    """Covariances (K, p, p) in the shape in which people see them."""
    name = named(name)
    if name == "tied":
        return np.array(covariances[0])
    variances = np.diagonal(covariances, axis1=-2, axis2=-1)
    return {"diag": variances, "spherical": variances[:, 0]}.get(name, covariances).copy()


def as_full(name: str, covariances: Any, shape: tuple[int, ...]) -> Any:
    """Covariances (K, p, p) from the shape in which people see and give them; ``shape`` is that of the means."""
    name, (K, p) = named(name), shape
    if name not in LETTERS or name == FULL:
        return covariances
    try:
        given = np.asarray(covariances, dtype=float)
    except (TypeError, ValueError) as error:
        raise StartError(
            Text("{covariances_init} must be an array of numbers"), setting="covariances_init"
        ) from error
    if given.shape != (wanted := public_shape(name, K, p)):
        text = Text(
            "{covariances_init} has shape {here}; {K} components and {p} features of {covariance_type:{name!r}} "
            "need {wanted}",
            here=given.shape, K=K, p=p, name=name, wanted=wanted,
        )  # fmt: skip
        raise StartError(text, setting="covariances_init")
    if name == "tied":
        return np.repeat(given[None], K, axis=0)
    return np.asarray((given[:, :, None] if name == "diag" else given[:, None, None]) * np.eye(p))


def directions(name: str, n_components: int, n_features: int) -> NDArray:
    """A basis of the space in which the packed parameters (K f) of a linear type can move, in columns."""
    K, f = n_components, width(n_features)
    volume, shape, _ = tuple(letters_of(name))
    free = np.arange(K * f).reshape(K, f)
    columns = [np.eye(K * f)[:, free[:, : 1 + n_features].ravel()]]
    rows, cells = upper_triangle(n_features)
    if named(name) in ("full", "tied"):
        groups = [[n] for n in range(len(rows))]
    elif shape == "I":
        groups = [np.flatnonzero(rows == cells).tolist()]
    else:
        groups = [[int(n)] for n in np.flatnonzero(rows == cells)]
    for group in groups:
        moves = np.zeros((K * f, K))
        for k in range(K):
            moves[free[k, 1 + n_features + np.array(group)], k] = 1.0
        columns.append(moves if volume == "V" else moves.sum(axis=1, keepdims=True))
    return np.concatenate(columns, axis=1)
