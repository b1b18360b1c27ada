"""A replicated computation: all sites ask themselves the same questions, and go on from the same totals.

It is a generator. It yields an `Ask`, receives the sum of all sites' parts, and returns a result that is the same at
all sites, since nothing but totals goes into it. Here all sites are in one process; `gaussip.phases.summing` runs the
same generator at one real site.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from gaussip.arrays import NDArray
from gaussip.exchange.codes import Code, Raw
from gaussip.exchange.plan import MOST_FLOODED, RECEIPT, Flood, Network

PIECE = 60 * 2184  # words of a sum: longer parts are summed in pieces, all words of a number in the same
ANNOUNCEMENT = 4096  # bytes, with which a site makes itself known
CHECK = 1  # word of every piece, zero at every site: masks that do not cancel show in its sum

Result = TypeVar("Result")


class Ask(NamedTuple):
    """A question to every site."""

    part: Callable[[Any], NDArray]  #: from the rows of M sites to their parts, (M, size)
    code: Code
    about: bytes = b""  #: where the parts are taken: sites that ask about something else find out by the next sum


Replicated: TypeAlias = Generator[Ask, NDArray, Result]


class Spent(NamedTuple):
    """What a run has sent so far, over the whole network."""

    exchanges: int
    bytes: int

    def plus(self, other: Spent, times: int = 1) -> Spent:
        """This, and so many times the other."""
        return Spent(self.exchanges + times * other.exchanges, self.bytes + times * other.bytes)


NOTHING = Spent(0, 0)


def pieces(words: int) -> Iterator[slice]:
    """The words of a part as they are summed; the last piece, and no other, is shorter than the longest."""
    for first in range(0, words + 1, PIECE):
        yield slice(first, min(first + PIECE, words))


def cost(network: Network, words: int) -> Spent:
    """What the sum of so many words costs."""
    spent = NOTHING
    for piece in pieces(words):
        size = piece.stop - piece.start + CHECK
        plan = network.plan(size)
        spent = spent.plus(Spent(plan.exchanges, 8 * plan.words_sent(size)))
    return spent


def announced(network: Network) -> Spent:
    """What it costs that all sites know all keys, before the first sum."""
    words = ANNOUNCEMENT // 8
    if network.n_sites > MOST_FLOODED:
        plan = network.plan(words)
        return Spent(plan.exchanges, 8 * plan.words_sent(words))
    plan = Flood(network)
    return Spent(plan.exchanges, 8 * plan.words_sent(words - RECEIPT))


def answered(
    computation: Replicated[Result], held: Any, n_sites: int, count: Callable[[int], None] = lambda words: None
) -> Result:
    """Run a computation with all sites in this process; ``count`` is called with the words of each sum."""
    try:
        ask = next(computation)
        while True:
            words = ask.code.encode(ask.part(held), n_sites)
            count(words.shape[-1])
            ask = computation.send(ask.code.decode(words.sum(axis=0)))
    except StopIteration as end:
        result: Result = end.value
        return result


def broadcast(values: NDArray) -> Ask:
    """Everybody adopts the first site's numbers, to the last bit."""

    def part(held: Any) -> NDArray:
        mine = np.zeros((len(held.indices), values.size))
        mine[np.asarray(held.indices) == 0] = values.ravel()
        return mine

    return Ask(part, Raw())
