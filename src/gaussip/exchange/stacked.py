"""All sites in one process: the exchange is a weighted gather along the site axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from gaussip.arrays import Array, indices, namespace
from gaussip.exchange.base import Message


class Stacked:
    """The exchange of a simulation, for messages (..., M, size).

    Parameters
    ----------
    weights : (M, M) array or sparse array, W with W[m, q] > 0 where m hears q

    The sum over q is taken neighbour by neighbour in sorted order, not by a matrix product: sites in
    processes of their own can then give the same numbers to the last bit, and the cost follows the largest
    degree, not M.
    """

    def __init__(self, weights: Any) -> None:
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
        self.bytes_sent = 0  # by all sites together, for each leading index before the site axis
        self._messages = int(W.nnz - np.count_nonzero(W.diagonal()))

    def __call__(self, message: Message) -> Message:
        """The neighbourhood average of each channel."""
        size = sum(v.shape[-1] * namespace(v).finfo(v.dtype).bits // 8 for v in message.values())
        self.bytes_sent += int(size) * self._messages
        combine = {"mean": self._mean}
        return {channel: combine[channel](values) for channel, values in message.items()}

    def _mean(self, values: Array) -> Array:
        xp = namespace(values)
        total: Array = 0.0
        for heard, weight in zip(self._heard, self._weight, strict=True):
            factor = xp.asarray(weight[:, None], dtype=values.dtype, device=values.device)
            total = total + factor * xp.take(values, indices(heard, values), axis=-2)
        return total
