"""EM at each site on its own rows alone: what a site can do without the others."""

from dataclasses import dataclass, field

from gaussip.algorithms.base import ALONE, register
from gaussip.algorithms.em import EM
from gaussip.rows.moments import Moments


@register
@dataclass(frozen=True)
class Local(EM):
    """EM whose sum goes over one site: its own."""

    accelerate: bool = field(default=False, init=False)
    name = "local"
    title = "Local"
    source = ALONE
    one_estimate = False
    shows_contraction = False

    def gather(self, moments: Moments) -> Moments:
        """The site's own moments."""
        return moments
