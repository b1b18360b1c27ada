"""What a fit itself looks for when it ends, of a fitted estimator: certain, and cheap to see."""

from __future__ import annotations

from typing import Any

from gaussip.findings import evidence, moving
from gaussip.findings.checks import CHECKS, examine
from gaussip.findings.decay import late_decay, rounds_to
from gaussip.findings.finding import Finding, rounded_up

PLENTY = 0.3  # sampling error of about ten rows for each parameter


def certain(mixture: Any) -> list[Finding]:
    """What is certain and cheap to see of a fitted estimator, at its consensus: a fit warns of it.

    Nothing where the rows are few against the parameters: every such fit has components on a few rows.
    """
    seen = evidence.of_estimator(mixture, network=False)._replace(sites=None)
    if seen.sampling_error > PLENTY:
        return []
    return examine(seen, tuple(check for check in CHECKS if check.at_fit)).findings


def rounds_needed(mixture: Any) -> tuple[int, int] | None:
    """The rounds that a fit needs in all, and those to ask for, where it settles at a steady rate."""
    seen = evidence.of_estimator(mixture, network=False)
    decay = late_decay(seen)
    missing = None if decay is None else rounds_to(seen.tol, decay)
    return None if missing is None else (seen.rounds + missing, rounded_up(seen.rounds + missing))


def swings(mixture: Any) -> bool:
    """Whether a fit jumps over the answer, so that more rounds do not help."""
    return moving.swings(evidence.of_estimator(mixture, network=False)) > 0
