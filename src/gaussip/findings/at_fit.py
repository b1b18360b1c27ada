"""The checks that a fit runs when it ends: those that are certain and cheap."""

from typing import Any

from gaussip.findings import evidence, moving
from gaussip.findings.checks import CHECKS, examine
from gaussip.findings.decay import late_decay, rounds_to
from gaussip.findings.finding import Finding, rounded_up

PLENTY = 0.3  # sampling error with about ten rows for each parameter


def certain(mixture: Any) -> list[Finding]:
    """The findings that a fit warns of, from the consensus of a fitted estimator.

    None if there are few rows for each parameter: then every fit has components with few rows.
    """
    run = evidence.of_estimator(mixture, network=False)._replace(sites=None)
    if run.sampling_error > PLENTY:
        return []
    return examine(run, tuple(check for check in CHECKS if check.at_fit)).findings


def rounds_needed(mixture: Any) -> tuple[int, int] | None:
    """The rounds that a fit needs in all, and those to ask for; None if the change does not fall at a steady rate."""
    run = evidence.of_estimator(mixture, network=False)
    decay = late_decay(run)
    missing = None if decay is None else rounds_to(run.tol, decay)
    return None if missing is None else (run.rounds + missing, rounded_up(run.rounds + missing))


def swings(mixture: Any) -> float | None:
    """How near to the answer a fit whose iterates oscillate may be taken to be; None where more rounds help."""
    run = evidence.of_estimator(mixture, network=False)
    return moving.nearest(run) if moving.swings(run) > 0 else None
