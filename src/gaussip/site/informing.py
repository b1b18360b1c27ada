"""A site's part in the last sum: the information that all rows hold about the estimate, for standard errors."""

from __future__ import annotations

from gaussip.arrays import NDArray
from gaussip.chunks import of_array
from gaussip.exchange import Message
from gaussip.parameters import Theta
from gaussip.site.state import Agreed
from gaussip.site.summing import Memory, Summing
from gaussip.site.task import Own, Task
from gaussip.uncertainty.information import scales, site_part


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
            self._summing.memory = memory
        self.information: NDArray | None = None  #: of all rows, when it is known

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
            self.information = total
            return
        rows = of_array(self._own.X, self._own.labels, self._own.weights)
        robust, tempered = self._task.intervals == "robust", self._task.unlabelled_weight
        self._summing.begin(
            site_part(rows, self._theta, scales_of(self._agreed), robust=robust, unlabelled_weight=tempered)
        )
