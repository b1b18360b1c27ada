"""How sure a fitted mixture is: standard errors and confidence intervals, from one sum over the sites."""

from gaussip.inference.intervals import Uncertainty

__all__ = ["Uncertainty"]
