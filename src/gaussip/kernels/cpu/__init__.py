"""The hot function and the small algebra of a round on the CPU, compiled by Numba."""
