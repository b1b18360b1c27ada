"""The quantities of the paper's Theorem 1 that depend on the data: heterogeneity SE(F) and contraction L_max."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import to_numpy
from gaussip.moments import moments, summary
from gaussip.parameters import Psi, Theta, pack, to_psi, to_theta, unpack
from gaussip.rows import Rows

FloatArray = np.ndarray[Any, Any]


def site_maps(rows: Rows, psi: Psi) -> FloatArray:
    """F_m(psi) of every site, packed, (M, q); ``psi`` has no leading axes."""
    theta = to_theta(psi)
    everywhere = Theta(*(np.broadcast_to(part, (*rows.shape, *part.shape)) for part in theta))
    return to_numpy(pack(summary(moments(rows, everywhere))))


def heterogeneity(rows: Rows, theta: Theta) -> float:
    """SE(F) at theta (take the whole-sample estimate): how much the sites' maps differ.

    SE(F)^2 is the mean over sites of ||F_m - F||^2 with F their mean; sites count by their mass, which is the paper's
    definition where they are equal. O(n^(-1/2)) on homogeneous data.
    """
    share = _shares(rows)
    maps = site_maps(rows, to_psi(theta))
    return float(np.sqrt(share @ ((maps - share @ maps) ** 2).sum(axis=1)))


class Contraction(NamedTuple):
    """How fast the mean map draws psi to its fixed point."""

    norm: float  #: L_max of the paper, the spectral norm of the Jacobian; it depends on the units of the features
    rate: float  #: the Jacobian's spectral radius: EM's error shrinks by this factor an iteration, in any units


def contraction(rows: Rows, theta: Theta, step: float = 1e-5) -> Contraction:
    """L_max at theta, and the rate it stands for: from the mean map's Jacobian in psi.

    Labels on a fraction r of the rows multiply both by 1 - r. MNEM's error shrinks by about 1 - eta (1 - rate) a
    round. The Jacobian is taken by central differences, 2q passes over the rows.
    """
    share = _shares(rows)
    psi = to_psi(theta)
    at = pack(psi)
    jacobian = np.empty((at.size, at.size))
    for j in range(at.size):
        move = np.zeros_like(at)
        move[j] = step
        ahead, behind = (share @ site_maps(rows, unpack(vector, psi)) for vector in (at + move, at - move))
        jacobian[:, j] = (ahead - behind) / (2 * step)
    return Contraction(
        norm=float(np.linalg.norm(jacobian, ord=2)),
        rate=float(np.abs(np.linalg.eigvals(jacobian)).max()),
    )


def _shares(rows: Rows) -> FloatArray:
    mass = to_numpy(rows.mass)
    return np.asarray(mass / mass.sum())
