"""The units of a search: every feature's location and spread over all sites."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.mixture.theta import Theta, upper_triangle
from gaussip.mixture.units import Unit
from gaussip.starts import shared as start
from gaussip.starts.shared import Centres, Classes, Extent


class Standard(NamedTuple):
    """Units in which every feature has mean zero and variance one; all sites know them."""

    location: NDArray  #: (p,)
    spread: NDArray  #: (p,)

    @classmethod
    def of(cls, extents: Extent) -> Standard:
        """The units that all sites' extents give."""
        return cls(*start.location_and_spread(extents))

    @property
    def unit(self) -> Unit:
        """The same, for moments and psi."""
        square = (self.spread[:, None] * self.spread)[upper_triangle(len(self.spread))]
        return Unit(
            np.concatenate([[0.0], self.location, 0 * square])[None],
            np.concatenate([[1.0], self.spread, square])[None],
        )

    @property
    def log_volume(self) -> float:
        """What a row's log-density in these units is more than in the features' own."""
        return float(np.log(self.spread).sum())

    def original(self, theta: Theta) -> Theta:
        """A mixture in these units as one in the features' own."""
        squares = self.spread[:, None] * self.spread
        return Theta(theta.weights, theta.means * self.spread + self.location, theta.covariances * squares)

    def centres(self, shared: Centres) -> Centres:
        """A site's centres in these units."""
        within = shared.within / (self.spread[:, None] * self.spread)
        return Centres(shared.counts, (shared.means - self.location) / self.spread, within)

    def classes(self, classes: Classes) -> Classes:
        """The labelled rows in these units; a class without rows lies at the location."""
        means = np.where(classes.counts[:, None] > 0, (classes.means - self.location) / self.spread, 0.0)
        return Classes(classes.counts, means, classes.scatters / (self.spread[:, None] * self.spread))
