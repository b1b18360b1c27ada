"""The scikit-learn style estimator: fitting, what a fitted mixture can do, and its file."""

from gaussip.estimator.network_mixture import NetworkGaussianMixture

__all__ = ["NetworkGaussianMixture"]
