"""Sites as the processes of an MPI job: an exchange is a message to each neighbour that is to get one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.exchange.base import Message, Outgoing


class Mpi:
    """The exchange of one rank, which is the site of the same number.

    Parameters
    ----------
    communicator : of mpi4py, with as many ranks as there are sites
    """

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator
        self.bytes_sent = 0  # by this rank

    def __call__(self, outgoing: Outgoing) -> Mapping[int, Message]:
        """Send and receive; every channel travels by itself."""
        communicator, received, open_calls = self._communicator, dict[int, Message](), []
        for sender, due in outgoing.due.items():
            received[sender] = {channel: np.empty_like(values) for channel, values in due.items()}
            open_calls += [communicator.Irecv(_flat(part), source=sender) for part in received[sender].values()]
        for receiver in outgoing.to:
            for values in outgoing.message.values():
                open_calls.append(communicator.Isend(_flat(values), dest=receiver))
                self.bytes_sent += values.nbytes
        for call in open_calls:
            call.Wait()
        return received


def _flat(values: NDArray) -> NDArray:
    return np.ascontiguousarray(values).reshape(-1)
