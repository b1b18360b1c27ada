"""What one site makes of its neighbours' messages: to the last bit what the exchange of a simulation gives."""

from collections.abc import Mapping

import numpy as np
from scipy import sparse

from gaussip.arrays import NDArray
from gaussip.exchange.base import Message, Outgoing


class Neighbours:
    """One site's row of W.

    Parameters
    ----------
    weights : (M, M) sparse array, W
    index : the site's
    """

    def __init__(self, weights: sparse.csr_array, index: int) -> None:
        W = sparse.csr_array(weights)
        W.sort_indices()
        W.eliminate_zeros()
        row = slice(W.indptr[index], W.indptr[index + 1])
        self.index = index
        self._terms = [(int(q), float(w)) for q, w in zip(W.indices[row], W.data[row], strict=True)]
        self.senders = [q for q, _ in self._terms if q != index]  #: from whom the site receives, in sorted order
        column = W.tocsc()[:, [index]].nonzero()[0]
        self.receivers = [int(m) for m in sorted(set(column.tolist())) if m != index]  #: who receive from it

    @property
    def all(self) -> list[int]:
        """Whom the site talks to, one way or the other."""
        return sorted({*self.senders, *self.receivers})

    def gossip(self, message: Message) -> Outgoing:
        """The same message to all who receive from the site, and one of its shapes from all it receives from."""
        return Outgoing(message, tuple(self.receivers), dict.fromkeys(self.senders, message))

    def combine(self, own: Message, received: Mapping[int, Message]) -> Message:
        """Each channel over the neighbours in sorted order, one after the other."""
        combined: Message = {}
        for channel, mine in own.items():
            terms = [(w, mine if q == self.index else received[q][channel]) for q, w in self._terms]
            combined[channel] = _mean(terms) if channel == "mean" else _max([values for _, values in terms])
        return combined


def _mean(terms: list[tuple[float, NDArray]]) -> NDArray:
    (w, values), *others = terms
    total = w * values
    for w, values in others:
        total += w * values
    return total


def _max(parts: list[NDArray]) -> NDArray:
    largest, *others = parts
    for values in others:
        largest = np.maximum(largest, values)
    return largest
