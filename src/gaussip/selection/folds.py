"""Folds for scikit-learn's cross-validation where only some rows have a label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gaussip.errors import LabelError, SettingError
from gaussip.rows.labels import encode_labels

if TYPE_CHECKING:
    from sklearn.model_selection import PredefinedSplit


def labelled_folds(y: Any, n_folds: int = 5, *, random_state: Any = None) -> PredefinedSplit:
    """Folds of the labelled rows, each with every class; the unlabelled rows are in every fit and in no fold.

    A score such as AUC compares predictions with labels, so that it needs rows that have one.

    Parameters
    ----------
    y : (n,) labels, -1, None or NaN where unlabelled; a set of several classes counts as unlabelled
    n_folds : at most as many as the smallest class has rows

    Examples
    --------
    >>> from gaussip.selection import labelled_folds
    >>> for train, test in labelled_folds(["ill", None, "well", "well", "ill", None], 2, random_state=0).split():
    ...     print(train, test)
    [0 1 3 5] [2 4]
    [1 2 4 5] [0 3]
    """
    from sklearn.model_selection import PredefinedSplit, StratifiedKFold  # not when a site starts

    n = len(y)
    labels = encode_labels(y, n, n)
    if labels.codes is None:
        raise LabelError("no row has a label: there is nothing to hold out and predict")
    known = np.flatnonzero((labels.codes >= 0) & (labels.codes < len(labels.classes)))
    codes = labels.codes[known]
    counts = np.bincount(codes)
    if not isinstance(n_folds, (int, np.integer)) or not 2 <= n_folds <= counts.min():
        name = labels.classes[counts.argmin()].item()
        raise SettingError(
            f"n_folds={n_folds!r} must be a whole number of at least 2, and of at most {counts.min()}: the rows "
            f"that are labelled {name!r}",
            label=name,
        )
    fold = np.full(n, -1)
    split = StratifiedKFold(n_folds, shuffle=True, random_state=random_state).split(known, codes)
    for number, (_, test) in enumerate(split):
        fold[known[test]] = number
    return PredefinedSplit(fold)
