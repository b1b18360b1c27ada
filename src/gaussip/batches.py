"""Rounds on a CUDA device without the host between them: captured once as a CUDA graph, replayed in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gaussip.arrays import Array, to_numpy
from gaussip.rounds import Carry, Look, Rounds, Seen, arrays_of, numbers_of

LENGTH = 50  # rounds of one graph


def in_batches(rounds: Rounds, carry: Carry, max_rounds: int, length: int = LENGTH) -> Iterator[Look]:
    """The rounds of `Rounds.one_by_one`, seen ``length`` at a time.

    The first round is run eagerly: it compiles kernels, which no capture allows. A State that holds plain numbers, or
    a round that only exchanges, depends on the round's number, which a graph cannot know: such runs go one by one.
    """
    import torch

    with torch.cuda.device(carry.psi.device):
        yield from _in_batches(rounds, carry, max_rounds, length)


def _in_batches(rounds: Rounds, carry: Carry, max_rounds: int, length: int) -> Iterator[Look]:
    import torch

    before = numbers_of(carry.state)
    first = next(rounds.one_by_one(carry, 1))
    yield first
    carry = first.carry
    if max_rounds == 1:
        return
    if not first.rounds or len(before) or len(numbers_of(carry.state)):
        for look in rounds.one_by_one(carry, max_rounds - 1):
            yield Look(look.carry, [(n + 1, seen, sent) for n, seen, sent in look.rounds], look.before)
        return
    sent, each = rounds.exchange.bytes_sent, rounds.exchange.bytes_sent
    held = _copied(carry)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        now, seen = held, []
        for _ in range(min(length, max_rounds - 1)):
            now, one = rounds(now)
            seen.append(one)
        together = [torch.stack(list(parts)) for parts in zip(*seen, strict=True)]
        for place, value in zip(arrays_of(held), arrays_of(now), strict=True):
            place.copy_(value)
    done = 1
    while done < max_rounds:
        count = min(len(seen), max_rounds - done)
        if count < len(seen):  # the last few
            for look in rounds.one_by_one(_copied(held), count):
                yield Look(look.carry, [(done + n, s, sent + n * each) for n, s, _ in look.rounds], look.before)
            return
        graph.replay()
        arrays = [to_numpy(array) for array in together]
        looked = [(done + n + 1, Seen(*(a[n] for a in arrays)), sent + (n + 1) * each) for n in range(count)]
        done, sent = done + count, sent + count * each
        yield Look(held, looked, held)  # who collapsed stands where it stood before


def _copied(tree: Any) -> Any:
    """The same nested tuples with arrays of their own."""
    if isinstance(tree, tuple):
        parts = [_copied(part) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)
    return _clone(tree) if hasattr(tree, "shape") else tree


def _clone(array: Array) -> Array:
    return array.clone().contiguous()
