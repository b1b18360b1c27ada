"""What all sites of a federation agree on: its description, and certificates."""
