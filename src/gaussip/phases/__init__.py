"""What one site computes in a federation, phase by phase; simulation, MPI and real sites run the same program."""
