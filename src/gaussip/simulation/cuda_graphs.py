"""Rounds on a CUDA device without the host between them: captured once as a CUDA graph, replayed in batches."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gaussip.arrays import Array, to_numpy
from gaussip.arrays.trees import leaves, mapped
from gaussip.simulation.rounds import Carry, Look, Rounds, Seen

LENGTH = 50  # rounds of one graph; a second graph of one round goes the rest of the way to a mark


def in_batches(
    rounds: Rounds, carry: Carry, max_rounds: int, until_seen: int = 0, marks: Sequence[int] = ()
) -> Iterator[Look]:
    """The rounds of `Rounds.one_by_one`, seen several at a time; a marked round is the last of those it is seen with.

    The first round is run eagerly: it compiles kernels, which no capture allows. A State with plain numbers or arrays
    of the host, or a round that only exchanges, needs the host between two rounds: such runs go one by one.
    """
    import torch

    with torch.cuda.device(carry.psi.device):
        yield from _in_batches(rounds, carry, max_rounds, until_seen, marks)


def _in_batches(
    rounds: Rounds, carry: Carry, max_rounds: int, until_seen: int, marks: Sequence[int]
) -> Iterator[Look]:
    first = next(rounds.one_by_one(carry, 1))
    yield first
    carry = first.carry
    done = 1
    each = sent = rounds.spent
    if not first.rounds or not all(getattr(leaf, "is_cuda", False) for leaf in leaves(carry.state)):
        for look in rounds.one_by_one(carry, max_rounds - done, 0 if first.rounds else until_seen - done):
            yield Look(look.carry, [(done + n, seen, sent) for n, seen, sent in look.rounds], look.before)
        return
    held = mapped(lambda array: array.clone().contiguous(), carry)
    captured: dict[int, tuple[Any, list[Array]]] = {}
    for mark in sorted({*(mark for mark in marks if mark < max_rounds), max_rounds}):
        while done < mark:
            length = LENGTH if mark - done >= LENGTH else 1
            if length not in captured:
                captured[length] = _captured(rounds, held, length)
            graph, together = captured[length]
            graph.replay()
            arrays = [to_numpy(array) for array in together]
            looked = [(done + n + 1, Seen(*(a[n] for a in arrays)), sent.plus(each, n + 1)) for n in range(length)]
            done, sent = done + length, sent.plus(each, length)
            rounds.exchange.exchanges, rounds.exchange.bytes_sent = sent  # capturing counted others than were run
            yield Look(held, looked, held)  # who collapsed stands where it stood before


def _captured(rounds: Rounds, held: Carry, length: int) -> tuple[Any, list[Array]]:
    """A graph of so many rounds that begins and ends in the arrays of ``held``, and what is seen of each round."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        now, seen = held, []
        for _ in range(length):
            now, numbers = rounds(now)
            assert numbers is not None
            seen.append(numbers)
        together = [
            torch.stack(list(parts)) if hasattr(parts[0], "shape") else np.asarray(parts)
            for parts in zip(*seen, strict=True)
        ]
        for place, value in zip(leaves(held), leaves(now), strict=True):
            place.copy_(value)
    return graph, together
