"""Rounds on a CUDA device without the host between them: captured once as a CUDA graph, replayed in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gaussip.arrays import Array, to_numpy
from gaussip.rounds import Carry, Look, Rounds, Seen

LENGTH = 50  # rounds of one graph


def in_batches(rounds: Rounds, carry: Carry, max_rounds: int) -> Iterator[Look]:
    """The rounds of `Rounds.one_by_one`, seen several at a time.

    The first round is run eagerly: it compiles kernels, which no capture allows. A State that holds plain numbers, or
    a round that only exchanges, depends on the round's number, which a graph cannot know: such runs go one by one.
    """
    import torch

    with torch.cuda.device(carry.psi.device):
        yield from _in_batches(rounds, carry, max_rounds)


def _in_batches(rounds: Rounds, carry: Carry, max_rounds: int) -> Iterator[Look]:
    import torch

    first = next(rounds.one_by_one(carry, 1))
    yield first
    carry = first.carry
    length = min(LENGTH, max_rounds - 1)
    if not first.rounds or not all(hasattr(leaf, "shape") for leaf in _leaves(carry.state)):
        length = 0
    done = 1
    each = sent = rounds.exchange.bytes_sent
    if length:
        held = _copied(carry)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            now, seen = held, []
            for _ in range(length):
                now, one = rounds(now)
                seen.append(one)
            together = [torch.stack(list(parts)) for parts in zip(*seen, strict=True)]
            for place, value in zip(_leaves(held), _leaves(now), strict=True):
                place.copy_(value)
        while max_rounds - done >= length:
            graph.replay()
            arrays = [to_numpy(array) for array in together]
            looked = [(done + n + 1, Seen(*(a[n] for a in arrays)), sent + (n + 1) * each) for n in range(length)]
            done, sent = done + length, sent + length * each
            yield Look(held, looked, held)  # who collapsed stands where it stood before
        rounds.exchange.bytes_sent = sent  # capturing counted other rounds than were run
        carry = held
    for look in rounds.one_by_one(carry, max_rounds - done):
        yield Look(look.carry, [(done + n, seen, sent) for n, seen, sent in look.rounds], look.before)


def _leaves(tree: Any) -> list[Array]:
    """What nested tuples hold, in order."""
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, tuple) else [tree]


def _copied(tree: Any) -> Any:
    """The same nested NamedTuples with arrays of their own."""
    return type(tree)(*map(_copied, tree)) if isinstance(tree, tuple) else tree.clone().contiguous()
