"""Preprocessing across sites: standardisation and principal components, by sums over all sites."""

from gaussip.preprocessing.transformers import NetworkPCA, NetworkStandardScaler

__all__ = ["NetworkPCA", "NetworkStandardScaler"]
