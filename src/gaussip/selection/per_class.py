"""How many components each class has, by labels that a fit does not see.

A class of few labelled rows cannot fill many components: a candidate n gives each class n components, or as many as
its labelled rows allow. Labels that are held out are hidden, and their rows stay: as rows without a label. Fits are
compared by the Brier score. With many features probabilities are near 0 or 1, and a log-loss would be that of the few
rows that a fit is surest of and wrong about.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError, GaussipError, LabelError, PrivacyError, SettingError, StartError, Text
from gaussip.rows.cells import observed_rows
from gaussip.rows.checks import check_row_weights
from gaussip.rows.frames import as_numbers, by_column_name, names_of
from gaussip.rows.labels import Labels, encode_labels, label_column
from gaussip.rows.streaming import on_disk
from gaussip.selection.folds import labelled_folds
from gaussip.settings import broken
from gaussip.tabular import Table

CANDIDATES = (1, 2, 4, 8, 16)
FOLDS = 4  # of which one is held out
EACH = 20  # labelled rows of a class for each of its components


class PerClassLine(NamedTuple):
    """One candidate."""

    components_per_class: dict[Any, int]
    n_components: int
    brier: float  #: mean squared distance of the probabilities from the labels held out; infinite without a fit
    accuracy: float  #: share of these labels that are predicted
    failed: str  #: why there is no fit; empty if there is one

    @property
    def shown(self) -> str:
        """The components as people read them: ill 4, well 2."""
        return ", ".join(f"{name} {number}" for name, number in self.components_per_class.items())


class PerClass(NamedTuple):
    """What a choice of components for each class ends with."""

    lines: list[PerClassLine]
    held_out: int  #: labels

    @property
    def best(self) -> int:
        """The place of the least Brier score."""
        return int(np.argmin([line.brier for line in self.lines]))

    @property
    def components_per_class(self) -> dict[Any, int]:
        """The components of each class chosen."""
        return self.lines[self.best].components_per_class

    @property
    def n_components(self) -> int:
        """The number of all of them."""
        return self.lines[self.best].n_components

    def table(self) -> Table:
        """The candidates, the best marked: a table that prints."""
        names = list(self.lines[0].components_per_class)
        columns: dict[str, list[Any]] = {"K": [line.n_components for line in self.lines]}
        for name in names:
            columns[str(name)] = [line.components_per_class[name] for line in self.lines]
        columns["Brier score"] = ["-" if line.failed else line.brier for line in self.lines]
        columns["accuracy"] = ["-" if line.failed else line.accuracy for line in self.lines]
        return Table(columns, head=f"{self.held_out} labels held out", marked=self.best)

    def failures(self) -> list[str]:
        """The candidates without a fit, and why."""
        return [
            Text("no fit with {each}: {why}", each=line.shown, why=line.failed) for line in self.lines if line.failed
        ]

    def to_frame(self) -> Any:
        """The table as a `pandas.DataFrame`."""
        return self.table().to_frame()

    def __str__(self) -> str:
        return "\n".join([str(self.table()), *self.failures()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def choose_per_class(
    mixture: Any,
    X: Any,
    y: Any,
    *,
    sites: Any = None,
    sample_weight: Any = None,
    candidates: Sequence[int] = CANDIDATES,
    random_state: Any = None,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> PerClass:
    """Choose how many components each class has.

    A quarter of the labels of each class is hidden. Of the fits to what is left, one for each candidate, the one is
    best whose probabilities of the classes come nearest to the hidden labels (the least Brier score). All sites' rows
    must be in this process.

    Parameters
    ----------
    mixture : NetworkGaussianMixture
        The settings of the fits; it is not changed. All components belong to classes.
    X, y, sites, sample_weight : as for its ``fit``
    candidates : numbers of components of each class; a class gets fewer where it has less than twenty labelled rows,
        after some are hidden, for each
    random_state : which labels are hidden; the mixture's by default
    watch : called with the number of candidates done, and of all

    Examples
    --------
    >>> import numpy as np
    >>> from gaussip import NetworkGaussianMixture
    >>> from gaussip.selection import choose_per_class
    >>> rng = np.random.default_rng(0)
    >>> ill = rng.random(600) < 0.5
    >>> side = rng.choice([-3, 3], 600)  # the ill are on both sides of the well
    >>> X = np.where(ill, side, 0.0)[:, None] + rng.normal(size=(600, 2))
    >>> y = np.where(rng.random(600) < 0.3, np.where(ill, "ill", "well"), None)
    >>> mixture = NetworkGaussianMixture(random_state=0)
    >>> choose_per_class(mixture, X, y, sites=np.arange(600) % 4, candidates=(1, 2)).components_per_class
    {'ill': 2, 'well': 2}
    """
    from sklearn.base import clone  # not when a site starts
    from sklearn.exceptions import ConvergenceWarning

    numbers = _checked(candidates)
    if mixture.privacy is not None:
        raise PrivacyError(
            "every candidate of choose_per_class would spend privacy again",
            remedy="choose on rows that are public, or say how many components each class has",
        )
    if on_disk(X):
        raise DataError("choose_per_class needs the rows in one array", remedy="choose on a part of them")
    X, y, sites, sample_weight = by_column_name(X, y, sites, sample_weight)
    X = X if names_of(X) is not None or isinstance(X, np.ndarray) else np.asarray(X, dtype=float)
    seed = mixture.random_state if random_state is None else random_state
    weights = check_row_weights(sample_weight, len(X))
    weights = np.ones(len(X)) if weights is None else weights
    counting = (weights > 0) & observed_rows(as_numbers(X))
    labels, held = _held_out(y, counting, seed)
    assert labels.codes is not None
    hidden: NDArray = np.array(label_column(y, len(X)), dtype=object)
    hidden[held] = None
    classes, truth = labels.classes.tolist(), labels.codes[held]
    left = np.bincount(labels.codes[counting & (labels.codes >= 0) & ~held], minlength=len(classes))
    counts = [{name: min(n, max(1, int(left[c]) // EACH)) for c, name in enumerate(classes)} for n in numbers]
    distinct = [each for place, each in enumerate(counts) if each not in counts[:place]]
    lines: list[PerClassLine] = []
    for each in distinct:
        K = sum(each.values())
        trial = clone(mixture).set_params(n_components=K, components_per_class=each)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # labels are as probable a little before the end
                trial.fit(X, hidden, sites=sites, sample_weight=sample_weight)
        except GaussipError as error:
            lines.append(PerClassLine(each, K, np.inf, np.nan, Text("{why}", why=error)))
        else:
            shares = trial.predict_proba(_rows(X, held))
            apart = ((shares - np.eye(len(classes))[truth]) ** 2).sum(axis=1)
            right = shares.argmax(axis=1) == truth
            brier, accuracy = (float(np.average(part, weights=weights[held])) for part in (apart, right))
            lines.append(PerClassLine(each, K, brier, accuracy, ""))
        watch(len(lines), len(distinct))
    if all(line.failed for line in lines):
        raise StartError(
            Text("no candidate could be fitted: {why}", why=lines[0].failed),
            remedy="label more rows, or look at fewer components",
        )
    return PerClass(lines, int(held.sum()))


def _checked(candidates: Any) -> list[int]:
    """The numbers of components to try."""
    if isinstance(candidates, str) or not isinstance(candidates, Iterable):
        raise SettingError(f"candidates={candidates!r} must be whole numbers, as in [1, 2, 4]", setting="candidates")
    numbers = list(candidates)
    for count in numbers:
        if broken("components_per_class", count):
            raise SettingError(
                f"candidates has {count!r}, which is not a whole number of at least 1", setting="candidates"
            )
    if not numbers:
        raise SettingError("candidates must name at least one number of components", setting="candidates")
    return [int(count) for count in numbers]


def _held_out(y: Any, counting: NDArray, seed: Any) -> tuple[Labels, NDArray]:
    """The labels as numbers, and which rows (n,) lose theirs: a quarter of each class's rows that count."""
    labels = encode_labels(y, len(counting), len(counting))
    codes = np.full(len(counting), -1) if labels.codes is None else np.where(counting, labels.codes, -1)
    known = np.bincount(codes[codes >= 0], minlength=len(labels.classes))
    for name, n in zip(labels.classes.tolist(), known.tolist(), strict=False):
        if n < FOLDS:
            raise LabelError(
                f"class {name!r} has {n} labelled row{'s' * (n != 1)}, of which a quarter would be hidden",
                label=name, remedy=f"label at least {FOLDS} of its rows, or leave the class out",
            )  # fmt: skip
    alone = np.where(codes < len(labels.classes), codes, -1)  # not a set of classes
    return labels, np.asarray(labelled_folds(alone, FOLDS, random_state=seed).test_fold) == 0


def _rows(X: Any, chosen: NDArray) -> Any:
    """Some rows of an array or a frame."""
    numbers = np.flatnonzero(chosen)
    if hasattr(X, "iloc"):
        return X.iloc[numbers]
    return X.take(numbers) if hasattr(X, "column_names") else X[numbers]
