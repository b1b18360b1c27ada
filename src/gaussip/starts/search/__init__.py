"""Searching for a good start when nothing is known in advance, by sums on which all sites agree."""

from gaussip.starts.search.climb import Climbed
from gaussip.starts.search.numbers import Best, over

__all__ = ["Best", "Climbed", "over"]
