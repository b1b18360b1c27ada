"""Figures, one per file, each drawn from a table."""
