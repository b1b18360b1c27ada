"""Which rows all sites leave out, since sums would reveal them; see `gaussip.rows.rare`."""

from __future__ import annotations

from typing import Any

from gaussip.algorithms.base import SUMS
from gaussip.phases.base import Context
from gaussip.phases.summing import Computation
from gaussip.rows.rare import BINS, HASHES
from gaussip.starts.rare import COUNTS, ask_rare


class GroupsPhase(Computation):
    """One site's part."""

    name = "groups"
    doing = "counting"

    @classmethod
    def begin(cls, context: Context, results: dict[str, Any]) -> GroupsPhase | None:
        """Where the fit sums: gossip reveals more of a site than that."""
        task = context.task
        if task.algorithm.source != SUMS or task.min_count == 1:
            return None
        held = [context.local.grouped(task)]
        return cls(context, results, ask_rare(task.min_count), held, COUNTS.words(HASHES * BINS))
