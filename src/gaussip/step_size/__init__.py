"""Choosing eta, the step of MNEM: its bias and its rounds, predicted for one data set and one network."""

from gaussip.step_size.choice import Step, choose_eta

__all__ = ["Step", "choose_eta"]
