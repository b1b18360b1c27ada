"""Data: the paper's simulation model, and ways to deal rows out to sites."""
