"""The hot function in array-API terms: the reference, and batched matrix products for many features."""
