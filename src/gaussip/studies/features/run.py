"""Running a study of a feature table: each replicate of each cell once, on a GPU all replicates together.

study.toml   the design
study.json   how it is run, and of which table
table.csv    rows of each site and class
cells/       CELL/NUMBER.npz, one for each replicate, written whole when it is done
log.jsonl    a line for each run and each piece of work
report/      tables, figures and pages
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaussip import algorithms
from gaussip.arrays import NDArray, to_numpy
from gaussip.data.features import FeatureTable
from gaussip.errors import DesignError, FileError, PooledTargetWarning
from gaussip.files import whole
from gaussip.history import Progress
from gaussip.methods import Method
from gaussip.moments import shrinkage_of
from gaussip.networks import mixing_weights
from gaussip.parameters import Theta, to_psi, to_theta
from gaussip.plots import write_csv
from gaussip.rows import Rows
from gaussip.simulation import distance, place, simulate
from gaussip.studies.cells import POOLED
from gaussip.studies.features import scores
from gaussip.studies.features.design import KIND, Cell, FeatureDesign, Loaded, of_text
from gaussip.studies.features.trial import Replicate, Table, reduced, replicates
from gaussip.studies.folder import log_line, read_arrays, write_arrays

LOCAL = "local"


class FeatureFolder:
    """The folder of one study of a feature table."""

    def __init__(self, path: Path, loaded: Loaded, about: dict[str, Any]) -> None:
        self.path, self.design, self.name, self.text = path, loaded.design, loaded.name, loaded.text
        self.about = about  #: what study.json says

    @classmethod
    def for_run(cls, path: Path, loaded: Loaded, table: Table) -> FeatureFolder:
        """A new folder, or one in which the same study of the same table was begun; anything else is refused."""
        about = {
            "kind": KIND, "name": loaded.name, "settings": loaded.design.settings, "classes": table.classes,
            "sites": table.names, "rows": len(table.X), "features": table.n_features, "dimensions": table.X.shape[1],
            "explained": table.explained, "basis": table.digest,
        }  # fmt: skip
        held = path / "study.json"
        if held.exists():
            before = json.loads(held.read_text(encoding="utf-8"))
            for key in ("kind", "settings", "classes", "sites", "rows", "basis"):
                if before.get(key) != json.loads(json.dumps(about[key])):
                    what = "of another table" if key not in ("kind", "settings") else "with other settings"
                    raise DesignError(
                        f"{path} holds a study {what} ({key} differ); choose another --out, or delete it"
                    )
        elif path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise DesignError(f"{path} exists and holds no study; choose another --out")
        try:
            (path / "cells").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make the folder {path}: {error.strerror or error}") from error
        write_csv(path / "table.csv", ["site", *table.classes], [
            [name, *row] for name, row in zip(table.names, table.counts.tolist(), strict=True)])  # fmt: skip
        for name, text in (("study.toml", loaded.text), ("study.json", json.dumps(about, indent=1) + "\n")):
            with whole(path / name) as partial:
                partial.write_text(text, encoding="utf-8")
        return cls(path, loaded, about)

    @classmethod
    def for_report(cls, path: Path) -> FeatureFolder:
        """The folder of a study that was run, wholly or partly."""
        about = json.loads((path / "study.json").read_text(encoding="utf-8"))
        text = (path / "study.toml").read_text(encoding="utf-8")
        settings = about["settings"]
        return cls(path, of_text(text, about["name"], settings["replicates"], settings["rounds"]), about)

    def file_of(self, cell: Cell, replicate: int) -> Path:
        """Where a replicate's numbers are kept."""
        return self.path / "cells" / cell.name / f"{replicate:03d}.npz"

    def missing(self, cell: Cell) -> list[int]:
        """Replicates that are not done."""
        return [r for r in range(self.design.replicates) if not self.file_of(cell, r).exists()]

    def read(self, cell: Cell) -> list[dict[str, NDArray]]:
        """The replicates that are done."""
        files = (self.file_of(cell, r) for r in range(self.design.replicates))
        return [read_arrays(file) for file in files if file.exists()]

    def pooled(self, cell: Cell, group: Sequence[int]) -> NDArray | None:
        """The whole sample's psi of some replicates, (R, K, f), if they are done."""
        whole_sample = cell._replace(method=Method(POOLED, 1.0, cell.method.semi))
        files = [self.file_of(whole_sample, r) for r in group]
        if whole_sample not in self.design.cells or not all(file.exists() for file in files):
            return None
        return np.stack([read_arrays(file)["psi"] for file in files])


def holds_features(path: Path) -> bool:
    """Whether a folder holds a study of a feature table."""
    try:
        return bool(json.loads((path / "study.json").read_text(encoding="utf-8")).get("kind") == KIND)
    except (OSError, ValueError, AttributeError):
        return False


def run(
    loaded: Loaded,
    data: FeatureTable,
    out: Path,
    *,
    device: str = "cpu",
    watch: Callable[[str, float], None] = lambda text, done: None,
) -> FeatureFolder:
    """Compute what a folder lacks; a run may end at any time, and the next goes on."""
    design = loaded.design
    table = reduced(data, design, lambda part: watch("agreeing on principal components", 0.02 * part))
    splits = replicates(table, design, range(design.replicates))  # refused before anything is written
    folder = FeatureFolder.for_run(out, loaded, table)
    missing = {cell: folder.missing(cell) for cell in design.cells}
    together = (lambda left: [left]) if device != "cpu" else (lambda left: [[r] for r in left])
    work = [(cell, group) for cell, left in missing.items() if left for group in together(left)]
    work.sort(key=lambda one: one[0].method.algorithm != POOLED)  # first: the others are held against these
    total, done = sum(map(len, missing.values())), 0
    log_line(out, event="run", device=device, fits=total)
    for cell, group in work:

        def follow(now: Progress, cell: Cell = cell, before: int = done, size: int = len(group)) -> None:
            part = before + size * min(1.0, now.round / design.rounds)
            watch(f"{cell.name}, round {now.round}", 0.02 + 0.98 * part / total)

        began = time.perf_counter()
        pooled = folder.pooled(cell, group)
        found = compute(cell, [splits[r] for r in group], design, device, pooled=pooled, watch=follow)
        folder.file_of(cell, 0).parent.mkdir(exist_ok=True)
        for r, numbers in zip(group, found, strict=True):
            write_arrays(folder.file_of(cell, r), numbers)
        done += len(group)
        seconds = round(time.perf_counter() - began, 2)
        log_line(out, event="cell", cell=cell.name, replicates=group, seconds=seconds, device=device)
    return folder


def compute(
    cell: Cell,
    splits: Sequence[Replicate],
    design: FeatureDesign,
    device: str,
    *,
    pooled: NDArray | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> list[dict[str, NDArray]]:
    """Fit some replicates together, and score every site's mixture.

    Parameters
    ----------
    pooled : (R, K, f), the whole sample's psi, which distances are taken to

    Returns
    -------
    for each replicate ``auc`` (M, C), ``distance`` of the sites from the whole sample's estimate, and how the fit
    ended; for the whole sample ``psi``, and ``start_auc`` (C,) and ``start_distance`` of the start
    """
    semi, table = cell.method.semi, splits[0].table
    R, M = len(splits), len(table.names)
    begins = [split.from_labels if semi else split.from_kmeans for split in splits]
    start = Theta(*(np.stack(parts)[:, None] for parts in zip(*begins, strict=True)))
    rows = Rows.stack([split.rows(semi, cell.unlabelled_weight, device) for split in splits])
    W: Any = mixing_weights(design.network_of(cell), range(M), seed=design.seed)
    alone = cell.method.algorithm == LOCAL
    if alone:  # every site by itself: one that collapses does not end the others
        rows = Rows.joined([rows.one(m) for m in range(R * M)], (R * M, 1))
        start = Theta(*(np.repeat(part, M, axis=0) for part in start))
        W = np.ones((1, 1))
    start = place(start, device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PooledTargetWarning)
        ended = simulate(
            algorithms.make(cell.method.algorithm, cell.method.eta), start, rows, W, max_rounds=design.rounds,
            tol=design.tol, reg_covar=design.reg_covar, shrinkage=shrinkage_of(design.shrinkage, start),
            weighting=design.weighting, record_collapse=True, watch=watch,
        )  # fmt: skip
    estimates = [_one(ended.theta, r, M, alone) for r in range(R)]
    collapsed, converged = ended.collapsed.reshape(R, -1), ended.converged.reshape(R, -1)
    found: list[dict[str, NDArray]] = []
    for r, (split, theta) in enumerate(zip(splits, estimates, strict=True)):
        here = Theta(*map(to_numpy, theta))
        numbers = {
            "auc": score(split, theta, semi, device), "collapsed": collapsed[r], "converged": converged[r],
            "rounds": np.array(ended.n_rounds),
        }  # fmt: skip
        if cell.method.algorithm == POOLED:
            numbers["psi"] = to_psi(here)[0]
            begin = Theta(*(part[r] for part in start))
            numbers["start_auc"] = score(split, begin, semi, device)[0]
            numbers["start_distance"] = np.array(distance(begin, Theta(*(part[0] for part in here))))
        elif pooled is not None:
            numbers["distance"] = np.array(distance(here, to_theta(pooled[r])))
        found.append(numbers)
    return found


def _one(theta: Theta, r: int, n_sites: int, alone: bool) -> Theta:
    """A replicate's mixtures, one for each site."""
    return Theta(*(part[r * n_sites : (r + 1) * n_sites, 0] if alone else part[r] for part in theta))


def score(split: Replicate, theta: Theta, semi: bool, device: str) -> NDArray:
    """AUC of each site's mixture and each class on the common hold-out, (M, C)."""
    X, labels = split.holdout(device)
    joints = scores.log_joints(X, theta)
    if not semi:
        known, classes = split.known(device)
        matches = [
            scores.matched(joint, classes, len(split.table.classes)) for joint in scores.log_joints(known, theta)
        ]
        joints = np.stack([joint[:, order] for joint, order in zip(joints, matches, strict=True)])
    return np.stack([scores.aucs(scores.log_odds(joint), labels) for joint in joints])
