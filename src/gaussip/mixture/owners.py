"""Which components belong to which class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray


def free_outcome(classes: NDArray) -> Any:
    """What rows of free components are called beside these classes: none, or -1 where they are numbers."""
    if classes.dtype.kind not in "UO":
        return -1
    name = "none"
    while name in classes.tolist():
        name = f"({name})"
    return name


def component_names(classes: Sequence[Any], class_of_component: NDArray) -> list[str]:
    """How people see the components: by class where they have one, else by number."""
    known = [str(name) for name in classes]
    names = []
    for k, c in enumerate(class_of_component.tolist()):
        if c < 0:
            name = f"component {k}"
            names.append(f"{name} (unlabelled)" if name in known else name)
        elif (class_of_component == c).sum() > 1:
            names.append(f"{known[c]} {1 + int((class_of_component[:k] == c).sum())}")
        else:
            names.append(known[c])
    return names


class Owners(NamedTuple):
    """A class's components stand side by side, in the order of the classes; components after them are free."""

    counts: tuple[int, ...]  #: components of each class

    @classmethod
    def one_each(cls, n_classes: int) -> Owners:
        """Component k is class k."""
        return cls((1,) * n_classes)

    @property
    def owned(self) -> int:
        """The components that are not free."""
        return sum(self.counts)

    @property
    def single(self) -> bool:
        """Whether component k is class k."""
        return all(count == 1 for count in self.counts)

    def of(self, number: int) -> tuple[int, ...]:
        """The components of a class."""
        first = sum(self.counts[:number])
        return tuple(range(first, first + self.counts[number]))

    def classes(self, n_components: int) -> NDArray:
        """The class of each component, (K,); -1 where it is free."""
        owned = np.repeat(np.arange(len(self.counts)), self.counts)
        return np.concatenate([owned, np.full(n_components - len(owned), -1)]).astype(int)
