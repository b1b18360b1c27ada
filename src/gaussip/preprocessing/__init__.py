"""Preprocessing across sites: standardisation and principal components, by exchanging moments with neighbours."""

from gaussip.preprocessing.transformers import NetworkPCA, NetworkStandardScaler

__all__ = ["NetworkPCA", "NetworkStandardScaler"]
