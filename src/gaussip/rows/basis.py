"""A common coordinate system for all sites' rows: a location, a scale, and the directions of most variance."""

import hashlib
import os
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError, ModelFileError, SettingError
from gaussip.files.archive import read, write
from gaussip.mixture.conditional import imputed
from gaussip.mixture.theta import Theta, unvech

NEAR = 1e-8  # relative tolerance when a site checks a received basis against the covariance it knows


class Basis(NamedTuple):
    """z = components ((x - mean) / scale), p features to d."""

    n_rows: NDArray  #: (), rows of all sites
    mean: NDArray  #: (p,)
    scale: NDArray  #: (p,), ones where features keep their units
    total: NDArray  #: (), variance of all features together
    variances: NDArray  #: (d,), along the components, falling
    components: NDArray  #: (d, p), orthonormal; the entry of largest size in each is positive

    def reduced(self, X: NDArray) -> NDArray:
        """Rows (n, p) in the basis, (n, d); those of an incomplete row are what its observed cells let expect."""
        if X.shape[1] != len(self.mean):
            raise DataError(f"the basis is of {len(self.mean)} features, the rows have {X.shape[1]}")
        z = (X - self.mean) / self.scale
        if np.isnan(z).any():
            z = imputed(z, self._normal(), np.ones((len(z), 1))).values
        return np.asarray(z @ self.components.T)

    def _normal(self) -> Theta:
        """The normal distribution of the scaled rows: beyond the basis, the same variance in all directions."""
        d, p = self.components.shape
        rest = max(float(self.total - self.variances.sum()), NEAR * float(self.total)) / max(p - d, 1)
        own = (self.components.T * self.variances) @ self.components
        others = np.eye(p) - self.components.T @ self.components
        covariance = own + rest * others + NEAR * rest * np.eye(p)
        return Theta(np.ones(1), np.zeros((1, p)), covariance[None])

    def digest(self) -> str:
        """A hash that sites compare."""
        parts = (np.ascontiguousarray(part, dtype="<f8").tobytes() for part in self)
        return hashlib.sha256(b"".join(parts)).hexdigest()

    def save(self, path: str | os.PathLike[str], names: list[str]) -> None:
        """Write the basis, with the names of its features, to one file, without pickle."""
        write(path, {**self._asdict(), "features": np.array(names)}, {"what": "basis"})


def load(path: str | os.PathLike[str]) -> tuple[Basis, list[str]]:
    """A basis written by `Basis.save`, and the names of its features."""
    arrays, description = read(path, "basis")
    if description.get("what") != "basis":
        raise ModelFileError(f"{path} is not a basis of principal components")
    return Basis(*(arrays[name] for name in Basis._fields)), arrays["features"].tolist()


def reduced_names(n: int) -> list[str]:
    """Names of the reduced features: pc1, or pc01, ..."""
    return [f"pc{k:0{len(str(n))}d}" for k in range(1, n + 1)]


def scale_of(variances: NDArray, means: NDArray, n_rows: float) -> NDArray:
    """Standard deviations; 1 for features that are constant up to the rounding of their mean."""
    varies = _varies(variances, means, n_rows)
    return np.where(varies, np.sqrt(np.maximum(variances, 0.0)), 1.0)


def _varies(variances: NDArray, means: NDArray, n_rows: float) -> NDArray:
    """Whether features vary by more than the rounding of their mean."""
    rounding = n_rows * np.finfo(float).eps
    return np.asarray(variances > rounding * variances + (rounding * means) ** 2)


def decomposed(n_rows: float, mean: NDArray, covariance: NDArray, keep: float | int, standardise: bool) -> Basis:
    """The basis of a covariance, given as its vech.

    Parameters
    ----------
    keep : the number of components, or the share of the variance in (0, 1) that they must exceed; there are at most
        n_rows - 1, and none if all features are constant
    standardise : whether features are first divided by their standard deviations
    """
    C, scale = _scaled(n_rows, mean, covariance, standardise)
    variances, vectors = np.linalg.eigh(C)
    variances, vectors = np.maximum(variances[::-1], 0.0), vectors[:, ::-1]
    total = np.trace(C)
    if not _varies(np.diagonal(unvech(covariance)), mean, n_rows).any():
        return Basis(np.asarray(float(n_rows)), mean, scale, np.asarray(0.0), np.empty(0), np.empty((0, len(mean))))
    d = keep if isinstance(keep, int) else 1 + int(np.searchsorted(np.cumsum(variances) / total, keep, side="right"))
    components = vectors[:, : min(d, len(mean), max(1, int(n_rows) - 1))].T
    largest = np.abs(components).argmax(axis=1)
    components = components * np.sign(components[np.arange(len(components)), largest])[:, None]
    return Basis(
        np.asarray(float(n_rows)),
        mean,
        scale,
        np.asarray(total),
        variances[: len(components)].copy(),
        components.copy(),
    )


def fits(basis: Basis, mean: NDArray, covariance: NDArray, standardise: bool) -> bool:
    """Whether a received basis is one of the covariance (its vech) that this site knows."""
    C, scale = _scaled(float(basis.n_rows), mean, covariance, standardise)
    all_variance = float(np.trace(C))
    B = basis.components
    return bool(
        np.abs(basis.mean - mean).max() <= NEAR * (np.abs(mean).max() + scale.max())
        and np.abs(basis.scale / scale - 1).max() <= NEAR
        and np.abs(C @ B.T - B.T * basis.variances).max(initial=0.0) <= NEAR * all_variance
        and np.abs(B @ B.T - np.eye(len(B))).max(initial=0.0) <= NEAR
    )


def _scaled(n_rows: float, mean: NDArray, covariance: NDArray, standardise: bool) -> tuple[NDArray, NDArray]:
    C = unvech(covariance)
    scale = scale_of(np.diagonal(C), mean, n_rows) if standardise else np.ones(len(C))
    return C / (scale[:, None] * scale), scale


def check_keep(keep: Any, n_features: int) -> float | int:
    """A number of components or a share of the variance, rejected where it is neither."""
    if isinstance(keep, Integral) and not isinstance(keep, bool):
        if 1 <= int(keep) <= n_features:
            return int(keep)
    elif isinstance(keep, Real) and not isinstance(keep, bool) and 0 < float(keep) < 1:
        return float(keep)
    raise SettingError(
        f"{keep!r} is neither a number of components, 1 to {n_features}, nor a share of the variance between 0 and 1"
    )
