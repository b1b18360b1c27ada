"""What is predicted of MNEM at any eta, for one data set, one network and one start."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gaussip.algorithms import exact
from gaussip.algorithms.site import site_facts
from gaussip.arrays import NDArray, to_numpy
from gaussip.errors import DataError
from gaussip.mixture.theta import Psi, Theta, broadcast, pack, to_psi
from gaussip.mixture.units import unit_of
from gaussip.mixture.validity import healthy
from gaussip.networks import listening, two_way_weights
from gaussip.rows.moments import Shrinkage, moments
from gaussip.rows.rows import Rows
from gaussip.step_size.bias import SiteMaps, fixed_point
from gaussip.step_size.course import Course, walk
from gaussip.step_size.precision import Ruler, precision

CLOSE = 0.1  # of the standard error: where a run has come near enough to its end


class Farthest(NamedTuple):
    """The single parameter that is farthest off, by numbers: of which site, which component, which of its f."""

    site: int
    component: int
    parameter: int
    errors: float  #: how far it is from the pooled estimate, in standard errors of its own


class Outlook:
    """Bias and rounds of MNEM at any eta, in standard errors of the pooled estimate.

    Attributes
    ----------
    pooled : Theta, the estimate that the bias is counted from
    standard_error : of it, over (alpha, mu, vech Sigma), in units of the components' own spread
    standard_errors : (K, f), of each of these alone; None where there are too many
    rate : of EM on the rows of all sites
    course : the distance along the way from the start to where MNEM goes for small eta
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
        way = walk(self.maps, unit.standard(to_psi(start)))
        target = fixed_point(self.maps.pooled, way.end, self.maps.are_mixtures)
        if target is None:
            raise DataError(
                "EM on the rows of all sites does not settle near where MNEM goes; use another start or network"
            )
        self.pooled = self.maps.theta(target)
        self.ruler = Ruler(self.pooled)
        found = precision(self.maps, self.ruler)
        self.standard_error = found.standard_error
        self.standard_errors: NDArray | None = None if found.variances is None else np.sqrt(found.variances)
        self.rate = way.rate if found.rate is None else found.rate
        left = [self.ruler.apart(self.maps.theta(psi), self.maps.theta(way.end)) for psi in way.places]
        distance = np.maximum(np.array(left) / self.standard_error, 1e-9)
        self.course = Course(way.steps, distance, way.moves, way.rate)
        self._end = self.maps.everywhere(way.end)
        self._limits: dict[float, Psi | None] = {}

    def limit(self, eta: float) -> Theta | None:
        """Where every site ends, (M,); None where MNEM has no fixed point near."""
        if eta not in self._limits:
            smaller = [other for other in self._limits if other < eta]
            near = self._limits[max(smaller)] if smaller else self._end
            self._limits[eta] = None if near is None else self.maps.limit(eta, near)
        psi = self._limits[eta]
        return None if psi is None else self.maps.theta(psi)

    def bias(self, eta: float) -> float:
        """Root mean square over sites; infinite where MNEM has no fixed point near."""
        return self.apart(self.limit(eta))

    def apart(self, theta: Theta | None) -> float:
        """How far sites are from the pooled estimate, root mean square."""
        if theta is None or not healthy(theta).all():
            return math.inf
        return float(np.sqrt(np.mean(self.ruler.apart(theta, self.pooled) ** 2))) / self.standard_error

    def farthest(self, eta: float) -> Farthest | None:
        """The worst parameter where the sites end; None where single standard errors or the end are not known."""
        theta = self.limit(eta)
        if self.standard_errors is None or theta is None or not healthy(theta).all():
            return None
        off = np.abs(pack(theta) - pack(self.pooled)) / self.ruler.scale
        off = off / np.where(self.standard_errors > 0, self.standard_errors, np.inf)
        site, component, parameter = map(int, np.unravel_index(int(off.argmax()), off.shape))
        return Farthest(site, component, parameter, float(off.max()))

    def rounds(self, eta: float) -> float:
        """Until the sites are within a tenth of the standard error of where they end."""
        return self.course.rounds_to(CLOSE, eta)

    def exact_rounds(self) -> int | None:
        """What exact needs to come as near to the pooled estimate; None on a one-way network."""
        W, mass = self.maps.W, self.maps.rows.mass
        hears = listening(W)
        if (hears != hears.T).any():
            return None
        facts = site_facts(mass, two_way_weights(W, range(len(hears)), "exact"), self._weighting)
        plan = exact.plan_of(exact.Exact().init(broadcast(self._start, (len(hears),)), facts).table.sum(axis=0))
        steps = math.ceil(self.rounds(exact.STEP))
        return plan.diameter + min(steps, exact.FIRST) * plan.first + max(0, steps - exact.FIRST) * plan.exchanges

    def heterogeneity(self) -> float:
        """SE(F) at the pooled estimate; see `gaussip.studies.theory.heterogeneity`, here in standard units."""
        share = self.maps.share / self.maps.share.sum()
        found = self.maps(self.maps.everywhere(self.maps.unit.standard(to_psi(self.pooled))))
        return float(np.sqrt(np.sum(share * (found - np.sum(share * found, axis=0)) ** 2)))

    def log_likelihood(self) -> float:
        """Of the pooled estimate."""
        rows = self.maps.rows
        return float(to_numpy(moments(rows, broadcast(self.pooled, rows.shape)).log_likelihood).sum())
