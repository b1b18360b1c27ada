"""Rows by site, in memory or on disk: reading, checking, and their moments at a mixture (the hot function)."""

from gaussip.rows.chunks import Chunk, Chunks
from gaussip.rows.moments import Moments
from gaussip.rows.rows import Rows

__all__ = ["Chunk", "Chunks", "Moments", "Rows"]
