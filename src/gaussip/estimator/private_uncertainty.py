"""Standard errors of a private fit, noise included, without its rows."""

from __future__ import annotations

from typing import Any

from gaussip.errors import PrivacyError, Text
from gaussip.inference.intervals import Uncertainty
from gaussip.mixture.covariance_types import LINEAR
from gaussip.mixture.owners import component_names
from gaussip.privacy.plan import MOST_SOLVED
from gaussip.rows.checks import feature_names


def private_uncertainty(mixture: Any, X: Any, robust: bool) -> Uncertainty:
    """What the fit found out by itself."""
    if X is not None or robust:
        raise PrivacyError(
            "this fit is private: standard errors from its rows would not be",
            remedy=Text("leave out the rows and {robust:True}; those of the fit itself count the noise"),
        )
    if mixture.private_covariance_ is None:
        text = Text(
            "there are no standard errors of this private fit: they are for {types}, up to {most} parameters, and "
            "need components that the rows tell apart",
            types=", ".join(LINEAR),
            most=MOST_SOLVED,
        )
        raise PrivacyError(text)
    names = component_names(mixture.classes_.tolist(), mixture.class_of_component_)
    return Uncertainty(mixture._theta(), mixture.private_covariance_, 0.0, False, names, feature_names(mixture))
