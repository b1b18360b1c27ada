"""Unlabelled X-rays help once classes have several components, their number chosen by `choose_per_class`.

    GAUSSIP_DATA=... python benchmarks/per_class.py            # 20 splits, an hour on one core; resumes

The splits of the X-ray study: 70% of every site's rows are for training, a fifth of these labelled; the rest is for
scoring. On 95 principal components: masked fits over the sites with the components chosen, with one component a
class, and with one component a class to the labelled rows alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from gaussip import NetworkGaussianMixture
from gaussip.selection import choose_per_class
from gaussip.studies.features.design import load
from gaussip.studies.features.table import read_features
from gaussip.studies.features.trial import Replicate, reduced, replicates
from results import FOLDER, Table, report

CLASS = "covid"
SETTINGS: dict[str, Any] = {
    "algorithm": "masked", "network": "ring", "shrinkage": 0.5, "tol": 1e-4, "max_rounds": 300,
}  # fmt: skip
SHOWN = ("several", "one", "labelled rows alone")


def score(mixture: NetworkGaussianMixture, split: Replicate) -> float:
    """The AUC of one class against the others, on the rows that no site trained on."""
    X, truth = split.holdout("cpu")
    place = list(mixture.classes_).index(CLASS)
    return float(roc_auc_score(truth == split.table.classes.index(CLASS), mixture.predict_proba(X)[:, place]))


def measured(split: Replicate) -> dict[str, Any]:
    """The three AUCs of one split, and the components chosen."""
    table, training, labelled = split.table, split.training, split.labelled
    names = np.array([*table.classes, None], dtype=object)
    y = names[np.where(labelled, table.labels, len(table.classes))]
    X, sites = table.X[training], np.array(table.names)[table.sites[training]]
    mixture = NetworkGaussianMixture(random_state=split.start_seed, **SETTINGS)
    choice = choose_per_class(mixture, X, y[training], sites=sites)
    several = NetworkGaussianMixture(
        choice.n_components, components_per_class=choice.components_per_class, random_state=split.start_seed,
        **SETTINGS,
    ).fit(X, y[training], sites=sites)  # fmt: skip
    C = len(table.classes)
    one = NetworkGaussianMixture(C, random_state=split.start_seed, **SETTINGS).fit(X, y[training], sites=sites)
    known = labelled[training]
    alone = NetworkGaussianMixture(C, random_state=split.start_seed, **SETTINGS)
    alone.fit(X[known], y[training][known], sites=sites[known])
    fits = dict(zip(SHOWN, (several, one, alone), strict=True))
    return {
        "auc": {name: score(mixture, split) for name, mixture in fits.items()},
        "components": choice.components_per_class,
        "brier": {str(line.n_components): [line.brier, line.failed] for line in choice.lines},
    }


def main() -> None:
    """Measure what is not yet measured, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=20)

    given = parser.parse_args()
    folder = FOLDER / "per-class"
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"split-{number}.json" for number in range(given.splits)]
    missing = [number for number, file in enumerate(files) if not file.exists()]
    if missing:
        design = load("xray").design
        data = read_features(Path(os.environ["GAUSSIP_DATA"]) / "radiography" / "features_resnet50.npz")
        table = reduced(data, design)
        for number, split in zip(missing, replicates(table, design, missing), strict=True):
            found = measured(split)
            files[number].write_text(json.dumps(found), encoding="utf-8")
            print(number, found, file=sys.stderr, flush=True)
    splits = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    lines = [
        [n, ", ".join(f"{c} {k}" for c, k in s["components"].items()), *s["auc"].values()]
        for n, s in enumerate(splits)
    ]
    aucs = np.array([list(s["auc"].values()) for s in splits])
    mean = ["mean", "", *aucs.mean(axis=0)]
    above = f"Above the labelled rows alone in {int((aucs[:, 0] > aucs[:, 2]).sum())} of {len(splits)} splits."
    columns = ["split", "components chosen", *SHOWN]
    report("per-class", [Table(f"AUC of {CLASS}", above, columns, [*lines, mean])])


if __name__ == "__main__":
    main()
