"""Putting a run back to where its journal says it stood, whatever it was doing."""

from __future__ import annotations

import numpy as np

from gaussip.node.journal import Entry, tree_of
from gaussip.node.run_store import Keeping
from gaussip.phases.masked_sums import NO_SUMS
from gaussip.phases.program import Program
from gaussip.phases.state import FIT, INTERVALS, REDUCE, SEARCH, Fitted


def resume(program: Program, entry: Entry, keeping: Keeping) -> None:
    """Put back what the journal and the run's folder keep: the program is before the entry's exchange."""
    if entry.phase != REDUCE and program.phase == REDUCE:
        program.resume_reduced(*keeping.basis())
    if entry.phase == REDUCE:
        program.resume_reducing(tree_of(entry.leaves, program.memory))
    elif entry.phase == SEARCH:
        memory = tree_of(entry.leaves, (np.empty(0), np.empty(0), NO_SUMS))
        program.resume_search(memory, keeping.sums(SEARCH, memory[-1].number))
    elif entry.phase in (FIT, INTERVALS):
        program.begin_fit(keeping.agreed())
        if entry.phase == FIT:
            program.memory = tree_of(entry.leaves, program.memory)
        else:
            fitted = tree_of(entry.leaves, Fitted(program.memory, 0, 0.0, 0.0, NO_SUMS))
            program.resume_intervals(fitted, keeping.sums(INTERVALS, fitted.summing.number))
    else:
        program.memory = tree_of(entry.leaves, (program.memory[0],) * (1 + entry.phase))
        program.phase = entry.phase
    program.exchanges = entry.exchange - 1
