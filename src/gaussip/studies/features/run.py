"""Running a study of a feature table: each replicate of each cell once, on a GPU all replicates together."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaussip.arrays import NDArray, to_numpy
from gaussip.mixture.theta import Theta, at, distance, per_replicate, place, to_psi, to_theta
from gaussip.networks import mixing_weights, two_way_weights
from gaussip.rows.moments import shrinkage_of
from gaussip.rows.rows import Rows
from gaussip.simulation.history import Progress
from gaussip.studies.cells import POOLED
from gaussip.studies.features import scores
from gaussip.studies.features.design import Cell, FeatureDesign, Loaded
from gaussip.studies.features.folder import FeatureFolder, digest_of, kept_basis
from gaussip.studies.features.table import FeatureTable
from gaussip.studies.features.trial import Replicate, reduced, replicates
from gaussip.studies.storage import log, write_arrays


def run(
    loaded: Loaded,
    data: FeatureTable,
    out: Path,
    *,
    device: str = "cpu",
    watch: Callable[[str, float], None] = lambda text, done: None,
) -> FeatureFolder:
    """Compute what a folder lacks; a run may end at any time, and the next resumes it."""
    design = loaded.design
    digest = digest_of(data)
    basis = kept_basis(out, loaded, digest)
    networks = {cell: _weights(cell, design, len(np.unique(data.site))) for cell in design.cells}
    table = reduced(data, design, basis, lambda part: watch("agreeing on principal components", 0.02 * part))
    splits = replicates(table, design, range(design.replicates))  # rejected before anything is written
    folder = FeatureFolder.for_run(out, loaded, table, digest)
    missing = {cell: folder.missing(cell) for cell in design.cells}
    together = (lambda left: [left]) if device != "cpu" else (lambda left: [[r] for r in left])
    work = [(cell, group) for cell, left in missing.items() if left for group in together(left)]
    work.sort(key=lambda item: item[0].method.algorithm != POOLED)  # first: the others are compared with these
    total, done = sum(map(len, missing.values())), 0
    log(out, event="run", device=device, fits=total)
    for cell, group in work:

        def follow(now: Progress, cell: Cell = cell, before: int = done, size: int = len(group)) -> None:
            part = before + size * min(1.0, now.round / design.rounds)
            watch(f"{cell.name}, round {now.round}", 0.02 + 0.98 * part / total)

        began = time.perf_counter()
        pooled = folder.pooled(cell, group)
        some = [splits[r] for r in group]
        results = compute(cell, some, design, networks[cell], device, pooled=pooled, watch=follow)
        folder.file_of(cell, 0).parent.mkdir(exist_ok=True)
        for r, numbers in zip(group, results, strict=True):
            write_arrays(folder.file_of(cell, r), numbers)
        done += len(group)
        seconds = round(time.perf_counter() - began, 2)
        log(out, event="cell", cell=cell.name, replicates=group, seconds=seconds, device=device)
    return folder


def _weights(cell: Cell, design: FeatureDesign, n_sites: int) -> Any:
    """The weights of a cell's network; rejected where its method cannot work on it."""
    W = mixing_weights(design.network_of(cell), range(n_sites), seed=design.seed)
    return two_way_weights(W, range(n_sites), cell.method.algorithm) if design.is_two_way(cell) else W


def compute(
    cell: Cell,
    splits: Sequence[Replicate],
    design: FeatureDesign,
    W: Any,
    device: str,
    *,
    pooled: NDArray | None = None,
    watch: Callable[[Progress], None] | None = None,
) -> list[dict[str, NDArray]]:
    """Fit some replicates together, and score every site's mixture.

    Parameters
    ----------
    W : (M, M) weights
    pooled : (R, K, f), the whole sample's psi, which distances are taken to

    Returns
    -------
    for each replicate ``auc`` (M, C), ``distance`` of the sites from the whole sample's estimate, and how the fit
    ended; for the whole sample ``psi``, and ``start_auc`` (C,) and ``start_distance`` of the start
    """
    semi, table = cell.method.semi, splits[0].table
    R, M = len(splits), len(table.names)
    start = per_replicate([split.from_labels if semi else split.from_kmeans for split in splits])
    rows = Rows.stack([split.rows(semi, cell.unlabelled_weight, device) for split in splits])
    alone = cell.method.algorithm == "local"
    if alone:  # every site by itself: one that collapses does not end the others
        rows = Rows.joined([rows.site(m) for m in range(R * M)], (R * M, 1))
        start = Theta(*(np.repeat(part, M, axis=0) for part in start))
        W = np.ones((1, 1))
    start = place(start, device)
    ended = cell.method.run(
        start, rows, W, max_rounds=design.rounds, tol=design.tol, reg_covar=design.reg_covar,
        shrinkage=shrinkage_of(design.shrinkage, start), weighting=design.weighting, watch=watch,
    )  # fmt: skip
    estimates = [at(ended.theta, slice(r * M, (r + 1) * M), 0) if alone else at(ended.theta, r) for r in range(R)]
    collapsed, converged = ended.collapsed.reshape(R, -1), ended.converged.reshape(R, -1)
    results: list[dict[str, NDArray]] = []
    for r, (split, theta) in enumerate(zip(splits, estimates, strict=True)):
        here = Theta(*map(to_numpy, theta))
        numbers = {
            "auc": score(split, theta, semi, device), "collapsed": collapsed[r], "converged": converged[r],
            "rounds": np.array(ended.n_rounds),
        }  # fmt: skip
        if cell.method.algorithm == POOLED:
            numbers["psi"] = to_psi(here)[0]
            begin = at(start, r)
            numbers["start_auc"] = score(split, begin, semi, device)[0]
            numbers["start_distance"] = np.array(distance(begin, at(here, 0)))
        elif pooled is not None:
            numbers["distance"] = np.array(distance(here, to_theta(pooled[r])))
        results.append(numbers)
    return results


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
