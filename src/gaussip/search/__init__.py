"""Searching for good mixtures when nothing is known, by sums on which all sites agree."""

from gaussip.search.climb import Totals, part_of
from gaussip.search.over import Best, over
from gaussip.search.simulated import run, searched, shared_by
from gaussip.search.standard import Standard

__all__ = ["Best", "Standard", "Totals", "over", "part_of", "run", "searched", "shared_by"]
