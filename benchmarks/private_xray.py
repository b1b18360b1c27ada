"""Private fits of chest X-ray features over eight sites: the AUC of COVID beside that without privacy.

    GAUSSIP_DATA=... python benchmarks/private_xray.py --splits 5

The splits of the X-ray study, a fifth of the training rows labelled. The principal components are the study's, and
taken as known: computing them is not part of the guarantee. Bounds are 20 in both directions, in a unit in which
their mean variance is one.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from gaussip import NetworkGaussianMixture
from gaussip.errors import GaussipError
from gaussip.studies.features.design import load
from gaussip.studies.features.table import read_features
from gaussip.studies.features.trial import Replicate, reduced, replicates
from results import Table, report

CLASS, BOUNDS = "covid", [-20, 20]
KEPT = (5, 10, 20, 40)
EPSILONS = (4, 8, None)


def auc(split: Replicate, kept: int, epsilon: float | None) -> float:
    """Of one fit, on the rows that no site trained on; NaN where it is refused."""
    table, training = split.table, split.training
    names = np.array([*table.classes, None], dtype=object)
    y = names[np.where(split.labelled, table.labels, len(table.classes))][training]
    privacy = None if epsilon is None else {"epsilon": epsilon, "bounds": BOUNDS}
    mixture = NetworkGaussianMixture(
        len(table.classes), init_params="labels", random_state=split.start_seed, privacy=privacy, tol=1e-4
    )
    try:
        mixture.fit(table.X[training][:, :kept], y, sites=np.array(table.names)[table.sites[training]])
    except GaussipError as error:
        print(error, file=sys.stderr)
        return float("nan")
    X, truth = split.holdout("cpu")
    shares = mixture.predict_proba(X[:, :kept])[:, list(mixture.classes_).index(CLASS)]
    return float(roc_auc_score(truth == table.classes.index(CLASS), shares))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    n_splits = parser.parse_args().splits
    design = load("xray").design
    data = read_features(Path(os.environ["GAUSSIP_DATA"]) / "radiography" / "features_resnet50.npz")
    table = reduced(data, design)
    splits = replicates(table, design, range(n_splits))
    lines: list[list[Any]] = []
    for kept in KEPT:
        found = [[auc(split, kept, epsilon) for split in splits] for epsilon in EPSILONS]
        lines.append([kept, *(float(np.mean(each)) for each in found)])
        print(*lines[-1], file=sys.stderr, flush=True)
    columns = ["components", *("without privacy" if e is None else f"epsilon {e}" for e in EPSILONS)]
    report("private-xray", [Table(f"AUC of {CLASS}, mean of {n_splits} splits", "", columns, lines)])


if __name__ == "__main__":
    main()
