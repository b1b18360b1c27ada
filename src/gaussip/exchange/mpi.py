"""Sites as the processes of an MPI job: the exchange is one neighbourhood collective."""

import math
from typing import Any

import numpy as np
from scipy import sparse

from gaussip.exchange.base import Message
from gaussip.exchange.neighbourhood import Neighbours


class Mpi:
    """The exchange of one rank, which is the site of the same number.

    Parameters
    ----------
    communicator : of mpi4py, with as many ranks as there are sites
    weights : (M, M) sparse array, W
    """

    def __init__(self, communicator: Any, weights: sparse.csr_array) -> None:
        self._near = Neighbours(weights, communicator.Get_rank())
        self._graph = communicator.Create_dist_graph_adjacent(self._near.heard, self._near.hearers, reorder=False)
        self.bytes_sent = 0  # by this rank

    def __call__(self, message: Message) -> Message:
        """What is heard of each channel; all ranks send arrays of the same shapes."""
        sizes = [math.prod(values.shape) for values in message.values()]
        mine = np.concatenate([np.ravel(values) for values in message.values()])
        heard = np.empty((len(self._near.heard), len(mine)))
        self._graph.Neighbor_allgather(mine, heard)
        self.bytes_sent += mine.nbytes * len(self._near.hearers)
        cuts = np.cumsum(sizes)[:-1]
        messages = {
            q: {
                channel: part.reshape(values.shape)
                for part, (channel, values) in zip(np.split(row, cuts), message.items(), strict=True)
            }
            for q, row in zip(self._near.heard, heard, strict=True)
        }
        return self._near.combine(message, messages)
