"""MNEM's fixed point at any eta, in about as many passes over the rows as EM takes.

The fixed point psi_m = (1 - eta) psi~_m + eta nu_m F_m(psi~_m), psi~ = W psi, is also that of

    psi = A nu F(W psi),    A = eta (I - (1 - eta) W)^(-1),

and A is an average over the network: its rows sum to one. In this form the iteration converges at EM's rate for every
eta, while MNEM itself takes 1 / eta times as many rounds. As eta goes to zero every row of A becomes W's stationary
weights pi.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from gaussip.algorithms.site import site_facts
from gaussip.arrays import NDArray
from gaussip.mixture.theta import Psi, Theta, to_theta
from gaussip.mixture.units import Unit
from gaussip.mixture.validity import healthy
from gaussip.networks import stationary_weights
from gaussip.rows.moments import Shrinkage, moments, summary
from gaussip.rows.rows import Rows

MEMORY = 8  # steps that Anderson's method remembers
EXACT = 1e-9  # largest residual of a fixed point, in standard units
MOST = 400  # passes over the rows for one fixed point


class SiteMaps:
    """The EM maps of all sites, in standard units.

    Attributes
    ----------
    share : (M, 1, 1), nu_m: the factor of F_m in the map of all rows together
    factor : (M, 1, 1), the factor of F_m in MNEM: nu_m divided by M pi_m, as the site estimates it from its degree
    """

    def __init__(
        self, rows: Rows, W: Any, unit: Unit, weighting: str, reg_covar: float, shrinkage: Shrinkage | None
    ) -> None:
        self.rows, self.W, self.unit = rows, sparse.csr_array(W), unit
        self._reg_covar, self._shrinkage = reg_covar, shrinkage
        facts = site_facts(rows.mass, W, weighting)
        self._stationary = stationary_weights(W)
        self.share = facts.share[:, None, None]
        self.factor = (facts.share / facts.balance)[:, None, None]

    def theta(self, psi: Psi) -> Theta:
        """Theta of a psi in standard units."""
        return to_theta(self.unit.original(psi))

    def __call__(self, psi: Psi) -> Psi:
        """F_m at each site's psi, (M, K, f)."""
        at_sites = moments(self.rows, self.theta(psi), self._reg_covar, shrinkage=self._shrinkage)
        return self.unit.standard(summary(at_sites))

    def pooled(self, psi: Psi) -> Psi:
        """The map of all rows together at a common psi, (K, f): the mean of nu_m F_m."""
        return np.asarray(np.mean(self.share * self(self.everywhere(psi)), axis=0))

    def drift(self, psi: Psi) -> Psi:
        """The map that MNEM follows as eta goes to zero, (K, f): the same where the network is balanced."""
        return np.asarray(np.tensordot(self._stationary, self.factor * self(self.everywhere(psi)), axes=1))

    def everywhere(self, psi: Psi) -> Psi:
        """A common psi at all sites, (M, K, f)."""
        return np.broadcast_to(psi, (*self.rows.shape, *psi.shape))

    def average(self, eta: float) -> Callable[[Psi], Psi]:
        """A at this eta, of all sites' psi (M, K, f); zero for its limit."""
        M = self.W.shape[0]
        if eta == 0:
            return lambda psi: self.everywhere(np.tensordot(self._stationary, psi, axes=1))
        solve = sparse.linalg.factorized(sparse.csc_array(sparse.eye_array(M) - (1 - eta) * self.W))
        return lambda psi: eta * solve(psi.reshape(M, -1)).reshape(psi.shape)

    def limit(self, eta: float, near: Psi) -> Psi | None:
        """Every site's psi at MNEM's fixed point, (M, K, f), starting from a psi nearby; None if there is none."""
        average = self.average(eta)

        def step(psi: Psi) -> Psi:
            mixed = self.W @ psi.reshape(psi.shape[0], -1)
            return average(self.factor * self(mixed.reshape(psi.shape)))

        return fixed_point(step, near, self.are_mixtures)

    def are_mixtures(self, psi: Psi) -> bool:
        """Whether every psi is a mixture."""
        return bool(np.isfinite(psi).all() and healthy(self.theta(psi)).all())


def fixed_point(step: Callable[[Psi], Psi], near: Psi, possible: Callable[[Psi], bool]) -> Psi | None:
    """A fixed point of a contraction, by Anderson's method: the best combination of the last steps.

    If the combination is not a mixture, or the residual has grown, the method takes the plain step and restarts.
    """
    at: list[NDArray] = []
    moves: list[NDArray] = []
    psi, best = near, np.inf
    for _ in range(MOST):
        with np.errstate(all="ignore"):
            move = step(psi) - psi
        size = float(np.abs(move).max())
        if not np.isfinite(size):
            return None
        if size <= EXACT:
            return psi
        if size > 2 * best:
            at, moves = [], []
        best = min(best, size)
        at, moves = [*at[-MEMORY:], psi], [*moves[-MEMORY:], move]
        psi = _combined(at, moves)
        if not possible(psi):
            psi = at[-1] + move
            at, moves = [], []
    return None


def _combined(at: list[NDArray], moves: list[NDArray]) -> NDArray:
    if len(at) == 1:
        return np.asarray(at[0] + moves[0])
    changes = np.stack([(moves[-1] - move).ravel() for move in moves[:-1]], axis=1)
    shares = np.linalg.lstsq(changes, moves[-1].ravel(), rcond=1e-10)[0]
    combined = at[-1] + moves[-1]
    for share, psi, move in zip(shares, at, moves, strict=False):
        combined = combined - share * ((at[-1] + moves[-1]) - (psi + move))
    return np.asarray(combined)
