"""A site's part in the last sum: the information that all rows hold about the estimate, for standard errors."""

from __future__ import annotations

import numpy as np

from gaussip import sums
from gaussip.arrays import NDArray
from gaussip.chunks import of_array
from gaussip.errors import UncertaintyError
from gaussip.exchange import Message
from gaussip.parameters import Theta
from gaussip.site.state import Agreed
from gaussip.site.summing import Memory, Summing
from gaussip.site.task import Own, Task
from gaussip.uncertainty.information import part_size, scales, site_part


def scales_of(agreed: Agreed) -> NDArray:
    """In which the information is summed, the same at all sites."""
    return scales(agreed.start, float(agreed.facts[:, 0].sum()))


class Informing:
    """The machine of one site.

    Parameters
    ----------
    theta : the site's own estimate
    memory : to go on from
    """

    def __init__(
        self, task: Task, index: int, own: Own, theta: Theta, agreed: Agreed, secret: bytes, memory: Memory | None
    ) -> None:
        self._task, self._own, self._theta, self._agreed = task, own, theta, agreed
        self._summing = Summing(secret, "information", index, len(task.sites), task.diameter)
        if memory is not None:
            self._summing.resume(memory)
        self.over = False
        self.information: NDArray | None = None  #: of all rows, in the end, unless a site cannot tell its part

    @property
    def memory(self) -> Memory:
        """What is to be kept."""
        return self._summing.memory

    def message(self) -> Message:
        """What the neighbours get."""
        return self._summing.message()

    def check(self, message: Message) -> bool:
        """Whether a neighbour can have sent this."""
        return self._summing.check(message)

    def absorb(self, heard: Message) -> None:
        """One exchange."""
        total = self._summing.absorb(heard)
        if total is None:
            return
        if total.size:
            self.over, self.information = True, None if total[-1] else total[:-1]
            return
        rows = of_array(self._own.X, self._own.labels, self._own.weights)
        scale, robust = scales_of(self._agreed), self._task.intervals == "robust"
        try:
            part = site_part(
                rows, self._theta, scale, robust=robust, unlabelled_weight=self._task.unlabelled_weight,
                most=sums.LARGEST_SUM / len(self._task.sites),
            )  # fmt: skip
            failed = 0.0
        except UncertaintyError:  # the others must not wait for this site
            part, failed = np.zeros(part_size(*self._theta.means.shape, robust=robust)), 1.0
        self._summing.begin(np.append(part, failed))
