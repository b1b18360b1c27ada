"""The covariances of a mixture under a covariance type, from the full ones of its moments."""

from __future__ import annotations

import numpy as np

from gaussip.arrays import Array, namespace
from gaussip.errors import SettingError, Text
from gaussip.kernels.cpu import shapes
from gaussip.mixture.covariance_types import FULL, LINEAR, letters_of, named
from gaussip.mixture.theta import Theta


def shaped(name: str, theta: Theta) -> Theta:
    """The mixture with the covariances that its type has, given those of a mixture's moments.

    For weights, means and covariances that are pooled moments, it is the M-step of the type.
    """
    if named(name) == FULL:
        return theta
    if namespace(theta.means) is not np:
        return _by_arrays(name, theta)
    K, p = theta.means.shape[-2:]
    covariances = np.array(theta.covariances, dtype=float, order="C")
    weights = np.ascontiguousarray(theta.weights, dtype=float)
    shapes.shape(getattr(shapes, letters_of(name)), weights.reshape(-1, K), covariances.reshape(-1, K, p, p))
    return theta._replace(covariances=covariances)


def _by_arrays(name: str, theta: Theta) -> Theta:
    """The same in array-API terms, for types whose covariances are a linear space."""
    if named(name) not in LINEAR:
        raise SettingError(
            Text("{covariance_type:{name!r}} is computed on the CPU alone", name=name), setting="covariance_type",
            remedy=Text("use {device:'cpu'}, or full, tied, diag, spherical, EII or EEI"),
        )  # fmt: skip
    xp, covariances = namespace(theta.means), theta.covariances
    volume, shape, _ = tuple(letters_of(name))
    p = covariances.shape[-1]
    eye = xp.eye(p, dtype=covariances.dtype, device=covariances.device)
    if volume == "E":
        share = theta.weights / xp.sum(theta.weights, axis=-1, keepdims=True)
        mean = xp.sum(share[..., None, None] * covariances, axis=-3, keepdims=True)
        covariances = xp.zeros_like(covariances) + mean
    if named(name) != "tied":
        covariances = covariances * eye
    if shape == "I":
        covariances = xp.sum(covariances, axis=(-2, -1), keepdims=True) / p * eye
    return theta._replace(covariances=covariances)


def projected(name: str, theta: Theta) -> Theta:
    """The nearest mixture of a linear type: as `shaped`, every component counting alike."""
    alike: Array = namespace(theta.weights).ones_like(theta.weights)
    return shaped(name, theta._replace(weights=alike))._replace(weights=theta.weights)
