"""Searching for a good start when nothing is known in advance, by sums on which all sites agree."""

from gaussip.starts.search.climb import Totals, part_of
from gaussip.starts.search.numbers import Best, over
from gaussip.starts.search.simulated import run, searched, shared_by

__all__ = ["Best", "Totals", "over", "part_of", "run", "searched", "shared_by"]
