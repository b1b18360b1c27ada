"""What may be wrong with a fit: checks of the history and estimates of a run, without its rows."""

from gaussip.findings.checks import CHECKS, Check, Diagnosis, examine
from gaussip.findings.evidence import Evidence, of_estimator
from gaussip.findings.finding import Finding

__all__ = ["CHECKS", "Check", "Diagnosis", "Evidence", "Finding", "examine", "of_estimator"]
