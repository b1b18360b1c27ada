"""EM at each site on its own rows, hearing nobody: what a site can do alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gaussip.algorithms.base import register
from gaussip.algorithms.em import EM
from gaussip.rows.moments import Moments


@register
@dataclass(frozen=True)
class Local(EM):
    """EM whose sum goes over one site: its own."""

    name: ClassVar[str] = "local"

    def gather(self, moments: Moments) -> Moments:
        """The site's own moments."""
        return moments
