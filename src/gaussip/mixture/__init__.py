"""A Gaussian mixture: its parameters, units, densities, and whether it is one."""

from gaussip.mixture.theta import Psi, Theta, align, consensus, distance, pack, to_psi, to_theta, unpack

__all__ = ["Psi", "Theta", "align", "consensus", "distance", "pack", "to_psi", "to_theta", "unpack"]
