"""Trees of arrays: nested tuples (NamedTuples among them) whose leaves are arrays and plain numbers."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gaussip.arrays.libraries import Array, namespace, to_numpy


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, in order."""
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, tuple) else [tree]


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with a function applied to every leaf."""
    return rebuilt([function(leaf) for leaf in leaves(tree)], tree)


def rebuilt(values: Sequence[Any], like: Any) -> Any:
    """The tree that has these leaves and the structure of another."""
    left = iter(values)
    tree = _grown(left, like)
    if next(left, None) is not None:
        raise ValueError("there are more leaves than the structure has")
    return tree


def _grown(left: Iterator[Any], like: Any) -> Any:
    if not isinstance(like, tuple):
        return next(left)
    parts = [_grown(left, part) for part in like]
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)


def keep(done: Array, before: Any, after: Any) -> Any:
    """A tree of arrays after something, with those entries of the leading axes that are done left as before."""
    if isinstance(done, (np.ndarray, np.generic)) and not done.any():
        return after
    if isinstance(after, tuple):
        return type(after)(*(keep(done, old, new) for old, new in zip(before, after, strict=True)))
    if not hasattr(after, "shape"):
        return after
    xp = namespace(after)
    done = to_numpy(done) if xp is np else done  # a tree on a GPU may have leaves on the host
    return xp.where(xp.reshape(done, done.shape + (1,) * (after.ndim - done.ndim)), before, after)
