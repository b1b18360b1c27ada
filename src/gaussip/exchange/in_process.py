"""All sites in one process: the exchange is a weighted gather along the site axis, or a sum that is only counted."""

import math
from typing import Any

import numpy as np
from scipy import sparse

from gaussip.arrays import Array, compiled, indices, namespace
from gaussip.exchange.base import Message
from gaussip.exchange.plan import Network
from gaussip.exchange.questions import announced, cost


class Stacked:
    """The exchange of a simulation.

    Parameters
    ----------
    weights : (M, M) array or sparse array, W with W[m, q] > 0 where m receives from q
    site_axis : which axis of the messages goes over the sites: 0, or 1 where the first goes over replicates

    The sum over q is taken neighbour by neighbour in sorted order, not by a matrix product: sites in
    processes of their own can then give the same numbers to the last bit, and the cost follows the largest
    degree, not M.
    """

    def __init__(self, weights: Any, site_axis: int = 0) -> None:
        W = sparse.csr_array(weights)
        W.sort_indices()
        W.eliminate_zeros()
        degrees = np.diff(W.indptr)
        M, slots = W.shape[0], int(degrees.max())
        self._heard = np.zeros((slots, M), dtype=np.int64)
        self._weight = np.zeros((slots, M))
        for m in range(M):
            row = slice(W.indptr[m], W.indptr[m + 1])
            self._heard[:, m] = W.indices[row.start]  # lower degrees are padded with a neighbour of weight zero
            self._heard[: degrees[m], m] = W.indices[row]
            self._weight[: degrees[m], m] = W.data[row]
        self._axis = site_axis
        self._moved: dict[Any, tuple[Array, Array, int]] = {}
        self.exchanges = 0
        self.bytes_sent = 0  # by all sites together, for each leading index before the site axis
        self._messages = int(W.nnz - np.count_nonzero(W.diagonal()))

    def __call__(self, message: Message) -> Message:
        """What every site receives of each channel, combined."""
        self.exchanges += 1
        for values in message.values():
            size = math.prod(values.shape[self._axis + 1 :]) * self._beside(values)[2]
            self.bytes_sent += size * self._messages
        combine = {"mean": self._mean, "max": self._max}
        return {channel: combine[channel](values) for channel, values in message.items()}

    def _mean(self, values: Array) -> Array:
        xp = namespace(values)
        shape = (-1, values.shape[self._axis], math.prod(values.shape[self._axis + 1 :]))
        flat = xp.reshape(values, shape)
        heard, weight, _ = self._beside(values)
        small = compiled(values)
        if small is not None:
            return xp.reshape(small.average(flat, heard, weight), values.shape)
        total: Array = 0.0
        for slot in range(heard.shape[0]):
            total = total + weight[slot, :][:, None] * xp.take(flat, heard[slot, :], axis=1)
        return xp.reshape(total, values.shape)

    def _max(self, values: Array) -> Array:
        xp = namespace(values)
        heard = self._beside(values)[0]
        flat = xp.reshape(values, (-1, values.shape[self._axis], math.prod(values.shape[self._axis + 1 :])))
        largest = xp.take(flat, heard[0, :], axis=1)
        for slot in range(1, heard.shape[0]):
            largest = xp.maximum(largest, xp.take(flat, heard[slot, :], axis=1))
        return xp.reshape(largest, values.shape)

    def _beside(self, values: Array) -> tuple[Array, Array, int]:
        """Who is heard and with what weight, in the values' library and on their device, moved there once.

        And the bytes of one number.
        """
        key = (type(values), values.dtype, values.device)
        if key not in self._moved:
            xp = namespace(values)
            weight = xp.asarray(self._weight, dtype=values.dtype, device=values.device)
            self._moved[key] = indices(self._heard, values), weight, xp.finfo(values.dtype).bits // 8
        return self._moved[key]


class Sums:
    """The exchange of a simulation whose sites add words: the algorithm adds them, and here their cost is counted.

    Parameters
    ----------
    counting, each : words of the sum that counts rows, and of a round's
    """

    def __init__(self, weights: Any, counting: int, each: int) -> None:
        network = Network(weights)
        self._counting, self._each = cost(network, counting), cost(network, each)
        self.exchanges, self.bytes_sent = announced(network)

    def __call__(self, message: Message) -> Message:
        """Count the sums of a round."""
        for one in (self._each, self._counting)[: 1 + bool(message["counting"])]:
            self.exchanges += one.exchanges
            self.bytes_sent += one.bytes
        return message
