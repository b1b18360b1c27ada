"""All sites in one process, round after round, on the CPU or a GPU."""

from gaussip.simulation.history import History, Progress
from gaussip.simulation.run import Run, simulate

__all__ = ["History", "Progress", "Run", "simulate"]
