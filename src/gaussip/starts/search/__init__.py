"""Searching for good mixtures when nothing is known, by sums on which all sites agree."""

from gaussip.starts.search.climb import Totals, part_of
from gaussip.starts.search.numbers import Best, over
from gaussip.starts.search.simulated import run, searched, shared_by
from gaussip.starts.search.standard import Standard

__all__ = ["Best", "Standard", "Totals", "over", "part_of", "run", "searched", "shared_by"]
