"""EM at each site on its own rows alone: what a site can do without the others."""

from dataclasses import dataclass, field

from gaussip.algorithms.base import ALONE, register
from gaussip.algorithms.em import EM, State
from gaussip.algorithms.summed import Pooled
from gaussip.arrays import Array
from gaussip.mixture.theta import Theta
from gaussip.rows.moments import Moments, summary


@register
@dataclass(frozen=True)
class Local(EM):
    """EM whose sum goes over one site: its own."""

    accelerate: bool = field(default=False, init=False)
    name = "local"
    title = "Local"
    source = ALONE
    one_estimate = False
    replicated = False
    shows_contraction = False

    def common(self, start: Theta, share: Array) -> Theta:
        """Each site's own."""
        return start

    def gather(self, state: State, moments: Moments) -> Pooled:
        """The site's own moments."""
        return Pooled(summary(moments), moments.mass, moments.log_likelihood)
