"""MNEM's bias and rounds at any eta, predicted for one data set, one network and one start."""

import math
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import DataError
from gaussip.mixture.theta import Psi, Theta, broadcast, pack, to_psi
from gaussip.mixture.units import unit_of
from gaussip.mixture.validity import healthy
from gaussip.rows.moments import Shrinkage, moments
from gaussip.rows.rows import Rows
from gaussip.step_size.bias import SiteMaps, fixed_point
from gaussip.step_size.course import Course, path_from
from gaussip.step_size.precision import Ruler, precision

CLOSE = 0.1  # of the standard error: a run this near to its limit is near enough


class Farthest(NamedTuple):
    """The parameter with the largest bias, by its numbers: of which site, which component, which of its f."""

    site: int
    component: int
    parameter: int
    errors: float  #: its distance from the pooled estimate, in its standard errors


class Outlook:
    """Bias and rounds of MNEM at any eta, in standard errors of the pooled estimate.

    Attributes
    ----------
    pooled : Theta, the estimate that the bias is measured from
    standard_error : of the pooled estimate, over (alpha, mu, vech Sigma), in units of the components' spread
    standard_errors : (K, f), of each parameter; None where there are too many
    rate : of EM on the rows of all sites
    course : the distance along the path from the start to MNEM's limit for small eta
    """

    def __init__(
        self,
        rows: Rows,
        W: Any,
        start: Theta,
        weighting: str = "rows",
        reg_covar: float = 0.0,
        shrinkage: Shrinkage | None = None,
    ) -> None:
        self._start, self._weighting, unit = start, weighting, unit_of(start)
        self.maps = SiteMaps(rows, W, unit, weighting, reg_covar, shrinkage)
        path = path_from(self.maps, unit.standard(to_psi(start)))
        target = fixed_point(self.maps.pooled, path.end, self.maps.are_mixtures)
        if target is None:
            raise DataError(
                "EM on the rows of all sites does not converge near MNEM's limit; use another start or network"
            )
        self.pooled = self.maps.theta(target)
        self.ruler = Ruler(self.pooled)
        target_precision = precision(self.maps, self.ruler)
        variances = target_precision.variances
        self.standard_error = target_precision.standard_error
        self.standard_errors: NDArray | None = None if variances is None else np.sqrt(variances)
        self.rate = path.rate if target_precision.rate is None else target_precision.rate
        left = [self.ruler.apart(self.maps.theta(psi), self.maps.theta(path.end)) for psi in path.points]
        distance = np.maximum(np.array(left) / self.standard_error, 1e-9)
        self.course = Course(path.steps, distance, path.moves, path.rate)
        self._end = self.maps.everywhere(path.end)
        self._limits: dict[float, Psi | None] = {}

    def limit(self, eta: float) -> Theta | None:
        """Every site's limit, (M,); None if MNEM has no fixed point nearby."""
        if eta not in self._limits:
            smaller = [other for other in self._limits if other < eta]
            near = self._limits[max(smaller)] if smaller else self._end
            self._limits[eta] = None if near is None else self.maps.limit(eta, near)
        psi = self._limits[eta]
        return None if psi is None else self.maps.theta(psi)

    def bias(self, eta: float) -> float:
        """Root mean square over sites; infinite if MNEM has no fixed point nearby."""
        return self.apart(self.limit(eta))

    def apart(self, theta: Theta | None) -> float:
        """The sites' root mean square distance from the pooled estimate."""
        if theta is None or not healthy(theta).all():
            return math.inf
        return float(np.sqrt(np.mean(self.ruler.apart(theta, self.pooled) ** 2))) / self.standard_error

    def farthest(self, eta: float) -> Farthest | None:
        """The worst parameter at the limit; None if the limit or the parameters' standard errors are not known."""
        theta = self.limit(eta)
        if self.standard_errors is None or theta is None or not healthy(theta).all():
            return None
        off = np.abs(pack(theta) - pack(self.pooled)) / self.ruler.scale
        off = off / np.where(self.standard_errors > 0, self.standard_errors, np.inf)
        site, component, parameter = map(int, np.unravel_index(int(off.argmax()), off.shape))
        return Farthest(site, component, parameter, float(off.max()))

    def rounds(self, eta: float) -> float:
        """Until the sites are within a tenth of the standard error of their limit."""
        return self.course.rounds_to(CLOSE, eta)

    def heterogeneity(self) -> float:
        """SE(F) at the pooled estimate; see `gaussip.studies.theory.heterogeneity`, here in standard units."""
        share = self.maps.share / self.maps.share.sum()
        mapped = self.maps(self.maps.everywhere(self.maps.unit.standard(to_psi(self.pooled))))
        return float(np.sqrt(np.sum(share * (mapped - np.sum(share * mapped, axis=0)) ** 2)))

    def log_likelihood(self) -> float:
        """Of the pooled estimate."""
        rows = self.maps.rows
        return float(to_numpy(moments(rows, broadcast(self.pooled, rows.shape)).log_likelihood).sum())
