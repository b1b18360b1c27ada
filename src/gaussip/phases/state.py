"""The phases of a site's run, and what it has to know to go on in one of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from gaussip.arrays import NDArray
from gaussip.mixture.theta import Theta
from gaussip.phases.masked_sums import Memory
from gaussip.rows.basis import Basis

REDUCE, FACTS, CENTRES, SEARCH, FIT, INTERVALS = PHASES = range(-1, 5)  # in the order of their exchanges
NAMES = ("reducing", "surveying", "surveying", "searching", "fitting", "summing")  # of the phases, for people


class Agreed(NamedTuple):
    """What the survey ends with; the first round needs nothing else of it."""

    facts: NDArray  #: (M, size)
    start: Theta  #: in the units of the table, or of the basis
    target: NDArray  #: (p, p), what covariances are drawn towards, in the same units
    exchanges: int  #: before the first round


class Fitted(NamedTuple):
    """The memory after the fit, while the information is summed."""

    state: Any  #: the algorithm's
    round: int
    log_likelihood: float
    disagreement: float
    summing: Memory


class Begin(NamedTuple):
    """What a run begins with that goes on from another's checkpoint."""

    start: Theta  #: the site's own
    target: NDArray  #: the first run's
    basis: Basis | None  #: the first run's
