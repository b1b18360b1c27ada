"""What sites share before a search, in a unit that all know: over all rows, mean zero and variance one."""

import numpy as np

from gaussip.mixture.units import Unit
from gaussip.starts.shared import Centres, Classes, Extent, location_and_spread


def unit_of_extents(extents: Extent) -> Unit:
    """The unit in which every feature has mean zero and variance one over all sites."""
    return Unit.of(*location_and_spread(extents))


def standard_centres(centres: Centres, unit: Unit) -> Centres:
    """A site's centres in the unit."""
    return Centres(centres.counts, unit.standard_rows(centres.means), centres.within / unit.squares)


def standard_classes(classes: Classes, unit: Unit) -> Classes:
    """The labelled rows in the unit; a class without rows lies at the location."""
    means = np.where(classes.counts[:, None] > 0, unit.standard_rows(classes.means), 0.0)
    return Classes(classes.counts, means, classes.scatters / unit.squares)
