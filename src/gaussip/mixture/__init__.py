"""A Gaussian mixture: its parameters, units and densities, and whether the parameters are valid."""

from gaussip.mixture.theta import Psi, Theta, align, consensus, distance, pack, to_psi, to_theta, unpack

__all__ = ["Psi", "Theta", "align", "consensus", "distance", "pack", "to_psi", "to_theta", "unpack"]
