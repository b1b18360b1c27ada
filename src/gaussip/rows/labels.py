"""Labels as people give them: a class, a set of classes of which one is right, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import LabelError, SettingError, Text, some
from gaussip.mixture.owners import Owners
from gaussip.rows.checks import as_column, check_unlabelled_weight, is_unlabelled, one_kind
from gaussip.rows.groups import Allowed
from gaussip.settings import check

SET = (set, frozenset, tuple, list)
Sets: TypeAlias = tuple[tuple[int, ...], ...]
EITHER = "|"  # in tables, between the classes of a label that is one of several


class Labels(NamedTuple):
    """Labels as numbers."""

    codes: NDArray | None  #: (n,), first the classes, then the sets of classes; -1 where there is none. None: nowhere
    sets: Sets  #: of classes, by their numbers
    classes: NDArray  #: (C,), sorted names
    owners: Owners

    @property
    def allowed(self) -> Allowed | None:
        """The components of each number; None where number k is component k."""
        return allowed_by(self.owners, self.sets)


def encode_labels(
    y: Any,
    n_rows: int,
    n_components: int,
    unlabelled_weight: Any = 1.0,
    components_per_class: int | Mapping[Any, int] = 1,
) -> Labels:
    """The numbers of labels (n,); a cell is a class, a set of classes, or nothing (-1, None, NaN)."""
    column = [] if y is None else label_column(y, n_rows).tolist()
    cells = [_as_set(v) for v in column]
    if all(v is None for v in cells):
        check_unlabelled_weight(unlabelled_weight, labelled=False)
        if components_per_class != 1:
            text = Text("{components_per_class:{given!r}} needs labels: no row has one", given=components_per_class)
            raise LabelError(text, setting="components_per_class", remedy=Text("give {y}, or leave it out"))
        return Labels(None, (), np.empty(0, dtype=int), Owners(()))
    _refuse_unnamed(cells)
    classes = _classes([name for v in cells if v is not None for name in v])
    number = {name: c for c, name in enumerate(classes.tolist())}
    owners = owners_of(classes.tolist(), n_components, components_per_class)
    check_unlabelled_weight(unlabelled_weight, labelled=True, n_unseen=n_components - owners.owned)
    found: list[tuple[int, ...] | None] = [
        None if v is None else tuple(sorted(number[name] for name in v)) for v in cells
    ]
    _refuse_unlabelled_classes(found, classes)
    return Labels(*numbered(found, len(classes)), classes, owners)


def numbered(found: Sequence[tuple[int, ...] | None], n_classes: int) -> tuple[NDArray, Sets]:
    """The numbers (n,) of sets of classes, -1 for None, and those sets of several that the last numbers stand for."""
    sets = tuple(sorted({few for few in found if few is not None and len(few) > 1}))
    code: dict[tuple[int, ...], int] = {(c,): c for c in range(n_classes)}
    code |= {few: n_classes + i for i, few in enumerate(sets)}
    return np.array([-1 if few is None else code[few] for few in found], dtype=int), sets


def allowed_by(owners: Owners, sets: Sequence[Sequence[int]]) -> Allowed | None:
    """The components of each class, and of each set of classes; None where class k is component k."""
    if owners.single and not sets:
        return None
    own = [owners.of(c) for c in range(len(owners.counts))]
    return [*own, *(tuple(k for c in few for k in own[c]) for few in sets)]


def owners_of(classes: Sequence[Any], n_components: int, per_class: int | Mapping[Any, int]) -> Owners:
    """How many components each class has, refused where there are not as many."""
    if isinstance(per_class, Mapping):
        unknown = [name for name in per_class if name not in classes]
        if unknown:
            text = Text(
                "{components_per_class} has the class {name!r}, which no row is labelled with",
                name=unknown[0],
            )
            raise LabelError(text, label=unknown[0], remedy=f"the classes are {some(list(classes))}")
        counts = tuple(per_class.get(name, 1) for name in classes)
    else:
        counts = (per_class,) * len(classes)
    for count in counts:
        check(components_per_class=count)
    if sum(counts) > n_components:
        one = all(count == 1 for count in counts)
        text = Text(
            "{y} has {n} classes ({names}) but {n_components:{K}}; "
            + ("each class needs a component of its own: raise {n_components}" if one else
               "they have {needed} components together: use {n_components:{needed}}")
            + ", or use -1 for unlabelled rows" * one,
            n=len(classes), names=some(list(classes)), K=n_components, needed=sum(counts),
        )  # fmt: skip
        raise LabelError(text, setting="n_components")
    return Owners(tuple(int(count) for count in counts))


def label_column(y: Any, n_rows: int) -> NDArray:
    """Labels, (n,), of whatever kind."""
    if isinstance(y, (list, tuple)) and any(isinstance(v, (list, tuple, set, frozenset)) for v in y):
        values: NDArray = np.empty(len(y), dtype=object)
        for i, v in enumerate(y):
            values[i] = frozenset(v) if isinstance(v, (list, tuple, set)) else v
    else:
        values = as_column(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (n_rows,):
        raise LabelError(Text("{y} has shape {shape}; {n} rows need ({n},)", shape=values.shape, n=n_rows))
    return values


def holds_sets(column: NDArray) -> bool:
    """Whether some label names several classes, or none of them by an empty set."""
    return column.dtype == object and any(isinstance(cell, SET) for cell in column.tolist())


def is_labelled(value: Any) -> bool:
    """Whether a cell names a class, or a set of them."""
    return _as_set(value) is not None


def _as_set(value: Any) -> frozenset[Any] | None:
    """The classes that a row may be of; None where nothing is known."""
    if isinstance(value, SET):
        return frozenset(value)
    return None if is_unlabelled(value) else frozenset([value])


def _classes(names: list[Any]) -> NDArray:
    """The sorted names of classes."""
    seen = one_kind(names, "y", LabelError)
    if seen.dtype.kind == "f":
        if not (np.isfinite(seen) & (seen == np.round(seen))).all():
            raise LabelError(
                Text("{y} has labels that are not whole numbers (or infinity); give class names or whole numbers")
            )
        seen = seen.astype(int)
    return np.unique(seen)


def _refuse_unnamed(cells: Sequence[frozenset[Any] | None]) -> None:
    """Refuse sets without a class, or with one that stands for none, and names that a table would read as sets."""
    for row, names in enumerate(cells, 1):
        if names is None:
            continue
        if not names or any(map(is_unlabelled, names)):
            what = "a set of classes with one that has no name (or is -1)" if names else "an empty set of classes"
            raise LabelError(
                Text("{y} has {what} in row {row}, counted from 1", what=what, row=row), row=row,
                remedy="a set names the classes that a row may be of; leave the cell empty where all may be",
            )  # fmt: skip
        several = next((name for name in names if isinstance(name, str) and EITHER in name), None)
        if several is not None:
            raise LabelError(
                Text("{y} has the label {name!r} in row {row}, counted from 1", name=several, row=row), row=row,
                label=several,
                remedy=f"a class's name has no {EITHER!r}, which stands between classes in tables; give the set "
                f"{{{', '.join(repr(part.strip()) for part in several.split(EITHER))}}}",
            )  # fmt: skip


def _refuse_unlabelled_classes(found: Sequence[tuple[int, ...] | None], classes: NDArray) -> None:
    """Refuse classes that stand in sets of classes alone: nothing says where they are."""
    alone = {v[0] for v in found if v is not None and len(v) == 1}
    for c, name in enumerate(classes.tolist()):
        if c not in alone:
            raise LabelError(
                Text("{y} names the class {name!r} in sets of classes alone", name=name), label=name,
                remedy="label some of its rows with it alone, or leave it out of the sets",
            )  # fmt: skip


def check_components_per_class(value: Any) -> None:
    """Refuse what is neither a number of components nor one for each class."""
    if isinstance(value, Mapping):
        for count in value.values():
            check(components_per_class=count)
        return
    if not isinstance(value, Integral):
        text = Text("{components_per_class:{value!r}} must be a whole number, or map classes to numbers", value=value)
        raise SettingError(text, setting="components_per_class")
    check(components_per_class=value)
