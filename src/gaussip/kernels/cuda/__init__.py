"""The hot function and the small algebra of a round on a CUDA device."""
