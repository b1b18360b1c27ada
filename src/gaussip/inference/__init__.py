"""Standard errors and confidence intervals of a fitted mixture, from one sum over the sites."""

from gaussip.inference.intervals import Uncertainty

__all__ = ["Uncertainty"]
