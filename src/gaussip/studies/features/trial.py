"""A table of features as the methods see it: reduced, split into training rows and hold-out, partly labelled."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gaussip.arrays import Array, NDArray, to_device
from gaussip.errors import DataError, DesignError, LabelError
from gaussip.mixture.theta import Theta
from gaussip.preprocessing import NetworkPCA
from gaussip.rows.basis import Basis
from gaussip.rows.held import Held
from gaussip.rows.rows import Rows
from gaussip.rows.sites import by_column
from gaussip.settings import default
from gaussip.starts.given import Regularised, found
from gaussip.studies.features.design import FeatureDesign
from gaussip.studies.features.table import FeatureTable


class Table(NamedTuple):
    """A feature table, checked and reduced."""

    X: NDArray  #: (n, d), principal components in a unit in which their mean variance is one
    labels: NDArray  #: (n,), class numbers
    sites: NDArray  #: (n,), site numbers
    classes: list[str]
    names: list[str]  #: of the sites, sorted
    is_training: NDArray | None  #: (n,), where the table has a split of its own
    basis: Basis
    explained: float  #: share of the variance
    n_features: int  #: before

    @property
    def counts(self) -> NDArray:
        """Rows of each site and class, (M, C)."""
        counts = np.zeros((len(self.names), len(self.classes)), dtype=int)
        np.add.at(counts, (self.sites, self.labels), 1)
        return counts


def reduced(
    table: FeatureTable,
    design: FeatureDesign,
    basis: Basis | None = None,
    watch: Callable[[float], None] = lambda _: None,
) -> Table:
    """Principal components, agreed on by the sites, or those of a basis that was agreed on before."""
    known = table.label != ""
    if not known.all():
        raise LabelError(
            f"row {int(np.argmin(known)) + 1} (counted from 1) has no label; a study needs one for every row, to "
            "hide most of them and to score on the others"
        )
    X = np.asarray(table.features, dtype=float)
    if isinstance(design.components, int) and design.components > X.shape[1]:
        raise DesignError(
            f"the design keeps components = {design.components}, and the table has {X.shape[1]} features: bring a "
            "table with more, or run a design of your own with fewer"
        )
    classes, labels = np.unique(table.label, return_inverse=True)
    if len(classes) < 2:
        raise LabelError(f"all rows are of class {str(classes[0])!r}; a study tells at least two apart")
    codes, names = by_column(table.site)
    if basis is None:
        pca = NetworkPCA(design.components, network=design.two_way)
        pca._watch = watch
        basis = pca.fit(X, sites=table.site).basis_
    scale = np.sqrt(basis.variances.mean())
    return Table(
        basis.reduced(X) / scale, labels, codes, classes.tolist(), [str(name) for name in names],
        None if table.split is None else table.split == "train", basis,
        float(basis.variances.sum() / basis.total), X.shape[1],
    )  # fmt: skip


class Replicate:
    """One split of a table, and one draw of labels: every site draws among its own rows."""

    def __init__(self, table: Table, design: FeatureDesign, seed: np.random.SeedSequence) -> None:
        self.table = table
        rng = np.random.default_rng(seed)
        self.start_seed = int(rng.integers(2**31))
        training, labelled = np.zeros(len(table.X), dtype=bool), np.zeros(len(table.X), dtype=bool)
        for m, name in enumerate(table.names):
            rows = rng.permutation(np.flatnonzero(table.sites == m))
            if table.is_training is None:
                rows = rows[: round(design.train * len(rows))]
            else:
                rows = rows[table.is_training[rows]]
            if not len(rows):
                raise DataError(f"site {name!r} has no training rows")
            training[rows] = True
            labelled[rows[: round(design.labelled * len(rows))]] = True
        if training.all():
            raise DataError("no row is left to score on: the table's split has no 'test'")
        left = np.bincount(table.labels[~training], minlength=len(table.classes))
        gone = [table.classes[c] for c in np.flatnonzero(left == 0)]
        if gone:
            raise DataError(f"no row of class {', '.join(gone)} is left to score on: train on fewer of them")
        self.training, self.labelled = training, labelled
        seen = np.bincount(table.labels[labelled], minlength=len(table.classes))
        missing = [table.classes[c] for c in np.flatnonzero(seen == 0)]
        if len(missing) == len(table.classes):
            raise LabelError(f"no training row is labelled: raise labelled = {design.labelled:g}")
        if missing:
            raise LabelError(
                f"no training row of class {', '.join(missing)} is labelled, so that no component can stand for it: "
                "raise labelled, or leave the class out"
            )

    @cached_property
    def values(self) -> list[NDArray]:
        """Training rows of each site."""
        t = self.table
        return [t.X[self.training & (t.sites == m)] for m in range(len(t.names))]

    @cached_property
    def codes(self) -> list[NDArray]:
        """Their labels, -1 where they are hidden."""
        t = self.table
        shown = np.where(self.labelled, t.labels, -1)
        return [shown[self.training & (t.sites == m)] for m in range(len(t.names))]

    def rows(self, semi: bool, unlabelled_weight: float, device: str) -> Rows:
        """The training rows of all sites, (M,), with their labels or without."""
        values = [to_device(x, device) for x in self.values]
        if not semi:
            return Rows.of_sites(values)
        K = len(self.table.classes)
        return Rows.of_sites(values, self.codes, None, K, unlabelled_weight=unlabelled_weight)

    @cached_property
    def from_labels(self) -> Theta:
        """The start from the moments of the labelled rows."""
        return self._found("labels", Rows.of_sites(self.values, self.codes, None, len(self.table.classes)))

    @cached_property
    def from_kmeans(self) -> Theta:
        """The start by k-means."""
        return self._found("kmeans", Rows.of_sites(self.values))

    def _found(self, kind: str, rows: Rows) -> Theta:
        held = Held.everything(rows, self.values, None)
        regularised = Regularised(0.0, 0.0, default("min_count"))
        return found(held, len(self.table.classes), kind, [self.start_seed], regularised)[0]

    def holdout(self, device: str) -> tuple[Array, NDArray]:
        """Rows that no site trained on, and their labels."""
        out = ~self.training
        return to_device(self.table.X[out], device), self.table.labels[out]

    def known(self, device: str) -> tuple[Array, NDArray]:
        """All labelled training rows, and their labels."""
        return to_device(self.table.X[self.labelled], device), self.table.labels[self.labelled]


def replicates(table: Table, design: FeatureDesign, numbers: Sequence[int]) -> list[Replicate]:
    """Some of the splits; each depends on the seed and its own number alone."""
    seeds = np.random.SeedSequence(design.seed).spawn(design.replicates)
    return [Replicate(table, design, seeds[r]) for r in numbers]
