"""Implementations of the hot function for arrays of any library, CPUs and CUDA devices, and which one serves."""

from gaussip.kernels.choice import REFERENCE, WIDE, Kernel, filling_for, kernel_for

__all__ = ["REFERENCE", "WIDE", "Kernel", "filling_for", "kernel_for"]
