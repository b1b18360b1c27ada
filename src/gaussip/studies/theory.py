"""The quantities of the paper's Theorem 1 that depend on the data: heterogeneity SE(F) and contraction L_max."""

from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray, to_numpy
from gaussip.mixture.theta import Psi, Theta, broadcast, to_psi, to_theta
from gaussip.mixture.units import unit_of
from gaussip.rows.moments import moments, summary
from gaussip.rows.rows import Rows


def site_maps(rows: Rows, psi: Psi) -> NDArray:
    """F_m(psi) of every site, (M, K, f); ``psi`` has no leading axes."""
    everywhere = broadcast(to_theta(psi), rows.shape)
    return to_numpy(summary(moments(rows, everywhere)))


def heterogeneity(rows: Rows, theta: Theta) -> float:
    """SE(F) at theta (take the whole-sample estimate): how much the sites' maps differ.

    SE(F)^2 is the mean over sites of ||F_m - F||^2 with F their mean; sites count by their mass, which is the paper's
    definition where they are equal. O(n^(-1/2)) on homogeneous data.
    """
    share = _shares(rows)
    maps = site_maps(rows, to_psi(theta))
    apart = maps - np.tensordot(share, maps, axes=1)
    return float(np.sqrt(share @ (apart**2).sum(axis=(-2, -1))))


class Contraction(NamedTuple):
    """How fast the mean map draws psi to its fixed point."""

    norm: float  #: L_max of the paper, the spectral norm of the Jacobian; it depends on the units of the features
    rate: float  #: the Jacobian's spectral radius: EM's error shrinks by this factor an iteration, in any units


def contraction(rows: Rows, theta: Theta, step: float = 1e-5) -> Contraction:
    """L_max at theta, and the rate it stands for: from the mean map's Jacobian in psi.

    Labels on a fraction r of the rows multiply both by 1 - r. MNEM's error shrinks by about 1 - eta (1 - rate) a
    round. The Jacobian is taken by central differences in standard units, 2q passes over the rows.
    """
    unit, share = unit_of(theta), _shares(rows)
    centre = unit.standard(to_psi(theta))
    at = np.ravel(centre)

    def mean_map(vector: NDArray) -> NDArray:
        maps = site_maps(rows, unit.original(vector.reshape(centre.shape)))
        return np.ravel(unit.standard(np.tensordot(share, maps, axes=1)))

    moves = step * np.eye(at.size)
    jacobian = np.stack([(mean_map(at + move) - mean_map(at - move)) / (2 * step) for move in moves], axis=1)
    to_standard = unit.standard(np.eye(at.size).reshape(-1, *centre.shape)).reshape(at.size, -1).T
    original = np.linalg.solve(to_standard, jacobian @ to_standard)
    return Contraction(
        norm=float(np.linalg.norm(original, ord=2)),
        rate=float(np.abs(np.linalg.eigvals(jacobian)).max()),
    )


def _shares(rows: Rows) -> NDArray:
    mass = to_numpy(rows.mass)
    return np.asarray(mass / mass.sum())
