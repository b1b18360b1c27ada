"""What may be wrong with a fit, judged from what a run leaves, without a row: the checks, and what they rest on."""

from gaussip.findings.checks import CHECKS, Check, Diagnosis, examine
from gaussip.findings.evidence import Evidence, of_estimator
from gaussip.findings.finding import Finding

__all__ = ["CHECKS", "Check", "Diagnosis", "Evidence", "Finding", "examine", "of_estimator"]
