"""A site's part in the last sums: the information that all rows hold about the estimate, for standard errors.

The first sum is of the sites' estimates, so that all know their average and count in its units; the others are of
the information, piece by piece, so that no message is long.
"""

from __future__ import annotations

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import UncertaintyError
from gaussip.exchange import sums
from gaussip.inference.information import part_size, scales, site_part
from gaussip.mixture.theta import Theta, to_psi, to_theta
from gaussip.mixture.units import Unit
from gaussip.phases.masked_sums import Series, Summing
from gaussip.phases.task import Own, Task
from gaussip.rows.chunks import of_array

FINE = 1 << 18  # by which estimates are multiplied before they are summed in whole steps


class Informing(Series):
    """The machine of one site.

    Parameters
    ----------
    theta : the site's own estimate
    unit : which all sites know
    mass : of all rows
    """

    def __init__(
        self, task: Task, index: int, own: Own, theta: Theta, unit: Unit, mass: float, secret: bytes
    ) -> None:
        self._task, self._own, self._theta, self._unit, self._mass = task, own, theta, unit, mass
        super().__init__(Summing(secret, "information", index, len(task.sites), task.diameter))
        self._robust = task.intervals == "robust"
        self._own_part: NDArray | None = None
        self._totals: list[NDArray] = []

    def _part(self) -> NDArray:
        if not self._totals:
            return np.asarray(FINE * self._unit.standard(to_psi(self._theta)).ravel())
        size, done = self._task.piece, len(self._totals) - 1
        return self._whole_part()[done * size : (done + 1) * size]

    def _take(self, total: NDArray) -> None:
        self._totals.append(total)

    @property
    def over(self) -> bool:
        """Whether all is summed."""
        return sum(total.size for total in self._totals[1:]) == 1 + self._size

    @property
    def _size(self) -> int:
        return part_size(*self._theta.means.shape, robust=self._robust)

    @property
    def scale(self) -> NDArray:
        """In which the information is summed: by the average of the sites' estimates, the same at all."""
        psi = self._totals[0].reshape(self._theta.means.shape[0], -1) / (FINE * len(self._task.sites))
        return scales(to_theta(self._unit.original(psi)), self._mass)

    @property
    def information(self) -> NDArray | None:
        """Of all rows, in the end; None where a site cannot tell its part."""
        if not self.over:
            return None
        failed, *rest = np.concatenate(self._totals[1:])
        return None if failed else np.array(rest)

    def _whole_part(self) -> NDArray:
        """The site's part, after a mark that is not zero where it has none."""
        if self._own_part is None:
            rows = of_array(self._own.X, self._own.labels, self._own.weights)
            try:
                part = site_part(
                    rows, self._theta, self.scale, robust=self._robust,
                    unlabelled_weight=self._task.unlabelled_weight, most=sums.LARGEST_SUM / len(self._task.sites),
                )  # fmt: skip
                self._own_part = np.concatenate([[0.0], part])
            except UncertaintyError:  # the others must not wait for this site
                self._own_part = np.append(1.0, np.zeros(self._size))
        return self._own_part
