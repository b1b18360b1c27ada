"""One site of a federation, in a process of its own."""
