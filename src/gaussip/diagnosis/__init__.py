"""Why a fit failed, or may not be trusted: from a fitted estimator, a model file, or a real site's folder."""

from gaussip.diagnosis.sources import diagnose, evidence_of

__all__ = ["diagnose", "evidence_of"]
