"""The information that all rows hold about the estimate, summed over the sites: for standard errors.

The first sum is of the sites' estimates, so that all know their average and count in its units; the others are of
the information, piece by piece, so that no message is long.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import UncertaintyError
from gaussip.exchange import sums
from gaussip.inference.information import part_size, scales, site_part
from gaussip.mixture.theta import Theta, to_psi, to_theta
from gaussip.phases.base import Context
from gaussip.phases.masked_sums import SumsPhase
from gaussip.phases.survey import facts_of
from gaussip.rows.chunks import of_array
from gaussip.starts.search.standard import unit_of_extents

FINE = 1 << 18  # by which estimates are multiplied before they are summed in whole steps


class Summed(NamedTuple):
    """What the sites summed."""

    scale: NDArray  #: (K, f), the units of the information
    information: NDArray  #: of all rows; empty where a site could not compute its part


class InformationPhase(SumsPhase):
    """The sums of one site."""

    name = "information"
    doing = "summing"

    def __init__(self, context: Context, results: dict[str, Any]) -> None:
        super().__init__(context)
        self._task, self._local = context.task, context.local
        self._theta: Theta = results["fit"].theta
        facts = facts_of(results["start"].pieces, context.task)
        self._unit, self._mass = unit_of_extents(facts.extents), float(facts.mass.sum())
        self._robust = context.task.intervals == "robust"
        self._local_part: NDArray | None = None
        self._totals: list[NDArray] = []

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> InformationPhase | None:
        """Where standard errors are asked for and the fit has converged, the same at all sites."""
        if context.task.intervals == "none" or "fit" not in results or not results["fit"].converged:
            return None
        return cls(context, results)

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
    def _scale(self) -> NDArray:
        """By the average of the sites' estimates, the same at all."""
        psi = self._totals[0].reshape(self._theta.means.shape[0], -1) / (FINE * len(self._task.sites))
        return scales(to_theta(self._unit.original(psi)), self._mass)

    @property
    def result(self) -> Summed:
        """Without information where a site could not compute its part."""
        failed, *information = np.concatenate(self._totals[1:])
        return Summed(self._scale, np.array([] if failed else information))

    def _whole_part(self) -> NDArray:
        """The site's part, after a mark that is not zero where it has none."""
        if self._local_part is None:
            rows = of_array(self._local.X, self._local.labels, self._local.weights)
            try:
                part = site_part(
                    rows, self._theta, self._scale, robust=self._robust,
                    unlabelled_weight=self._task.unlabelled_weight, most=sums.LARGEST_SUM / len(self._task.sites),
                )  # fmt: skip
                self._local_part = np.concatenate([[0.0], part])
            except UncertaintyError:  # the others must not wait for this site
                self._local_part = np.append(1.0, np.zeros(self._size))
        return self._local_part
