"""How fast a run converges: the late decay of its change, the rounds still needed, and EM's contraction.

Near its end the change falls by a constant factor in each step, the largest eigenvalue of the map that is iterated:
rate = 1 - eta (1 - L), with L the contraction of EM on all rows. So L is known without the rows.
"""

import math
from typing import NamedTuple

import numpy as np

from gaussip.findings.evidence import Evidence

REST = 1e-11  # a smaller change is rounding
LEAST = 20  # steps for a prediction
LATE = 4  # the last quarter of the steps is fitted, and compared with the quarter before
STEADY = 2.5  # the factor by which the two rates may differ
GOAL = 1e-6  # the tolerance assumed for a run with tol=0
SLOW = 1 - math.log(1 / GOAL) / 1000  # L with which EM on all rows takes 1000 iterations to the goal


class Decay(NamedTuple):
    """The late decay of the change."""

    rate: float  #: its factor in each step
    steady: bool  #: whether it fell at the same rate before
    last: float  #: the fitted change at the end
    steps_per_round: float
    first: int  #: the first round of the fit


def late_decay(evidence: Evidence) -> Decay | None:
    """The decay late in the run; None if there are too few steps."""
    use = np.isfinite(evidence.change) & (evidence.change > REST)
    step, change, round = evidence.passes[use], evidence.change[use], evidence.round[use]
    if len(step) < LEAST:
        return None
    middle, late = (step[0] + (step[-1] - step[0]) * (1 - part / LATE) for part in (2, 1))
    before, after = (step > middle) & (step <= late), step > late
    if before.sum() < 3 or after.sum() < 3:
        return None
    slopes = [np.polyfit(step[part], np.log(change[part]), 1) for part in (before, after)]
    earlier, later = (float(slope[0]) for slope in slopes)
    fell = max(earlier, later) < 0
    steady = evidence.kind.steady and fell and 1 / STEADY < earlier / later < STEADY
    end = float(np.exp(np.polyval(slopes[1], step[-1])))
    per_round = float((step[-1] - step[0]) / (round[-1] - round[0]))
    return Decay(math.exp(later), steady, end, per_round, int(round[after][0]))


def rounds_to(tol: float, decay: Decay) -> int | None:
    """Further rounds until the change reaches tol; None if it does not fall at a steady rate."""
    if not decay.steady or tol <= 0:
        return None
    return math.ceil(max(0.0, math.log(decay.last / tol)) / -math.log(decay.rate) / decay.steps_per_round)


def contraction(evidence: Evidence, decay: Decay | None) -> float | None:
    """L, if the run has converged or converges at a steady rate."""
    if decay is None or not evidence.kind.shows_contraction:
        return None
    if not decay.rate < 1 or not (decay.steady or evidence.converged):
        return None
    return max(0.0, 1 - (1 - decay.rate) / evidence.eta)


def labels_needed(evidence: Evidence, decay: Decay, L: float, target: int) -> float:
    """The share of the unlabelled rows to label so that a fit takes this many rounds; above 1 if no share does.

    Labels on a share r multiply L by 1 - r (Theorem 2).
    """
    first = float(np.nanmax(np.where(np.isfinite(evidence.change), evidence.change, np.nan)))
    digits = math.log(max(first, 10 * GOAL) / (evidence.tol or GOAL))
    wanted = 1 - digits / (evidence.eta * decay.steps_per_round * target)
    return 1 - wanted / L
