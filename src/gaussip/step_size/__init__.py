"""Choosing eta, the step of MNEM, by predicting its bias and rounds for one data set and one network."""

from gaussip.step_size.choice import Step, choose_eta

__all__ = ["Step", "choose_eta"]
