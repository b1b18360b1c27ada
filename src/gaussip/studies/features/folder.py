"""The folder of a study of a feature table; see `gaussip.studies.storage`.

basis.npz    the principal components that the sites agreed on
table.csv    rows of each site and class
cells/       CELL/NUMBER.npz, one for each replicate
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DesignError
from gaussip.plots.drawing import write_csv
from gaussip.rows.basis import Basis, load
from gaussip.studies import storage
from gaussip.studies.cells import POOLED
from gaussip.studies.features.design import KIND, Cell, Loaded, of_text
from gaussip.studies.features.table import FeatureTable
from gaussip.studies.features.trial import Table
from gaussip.studies.methods import Method

KEYS = {"name", "settings", "table", "classes"}  # of study.json


class FeatureFolder:
    """The folder of one study of a feature table."""

    def __init__(self, path: Path, loaded: Loaded, about: dict[str, Any]) -> None:
        self.path, self.design, self.name, self.text = path, loaded.design, loaded.name, loaded.text
        self.about = about  #: what study.json says

    @classmethod
    def for_run(cls, path: Path, loaded: Loaded, table: Table, digest: str) -> FeatureFolder:
        """The folder, with what it needs for a run; `kept_basis` has seen that it may be used."""
        about = {
            "kind": KIND, "name": loaded.name, "settings": loaded.design.settings, "table": digest,
            "classes": table.classes, "sites": table.names, "rows": len(table.X), "features": table.n_features,
            "dimensions": table.X.shape[1], "explained": table.explained, "basis": table.basis.digest(),
        }  # fmt: skip
        storage.make(path)
        table.basis.save(path / "basis.npz", [])
        rows = [[name, *row] for name, row in zip(table.names, table.counts.tolist(), strict=True)]
        write_csv(path / "table.csv", ["site", *table.classes], rows)
        storage.write_design(path, loaded.text, about)
        return cls(path, loaded, about)

    @classmethod
    def for_report(cls, path: Path) -> FeatureFolder:
        """The folder of a study that was run, wholly or partly."""
        toml, about = storage.read_design(path, KEYS)
        settings = about["settings"]
        return cls(path, of_text(toml, about["name"], settings["replicates"], settings["rounds"]), about)

    def file_of(self, cell: Cell, replicate: int) -> Path:
        """Where a replicate's numbers are kept."""
        return self.path / "cells" / cell.name / f"{replicate:03d}.npz"

    def missing(self, cell: Cell) -> list[int]:
        """Replicates that are not done."""
        return [r for r in range(self.design.replicates) if not self.file_of(cell, r).exists()]

    def read(self, cell: Cell) -> list[dict[str, NDArray]]:
        """The replicates that are done."""
        files = (self.file_of(cell, r) for r in range(self.design.replicates))
        return [storage.read_arrays(file) for file in files if file.exists()]

    def pooled(self, cell: Cell, group: Sequence[int]) -> NDArray | None:
        """The whole sample's psi of some replicates, (R, K, f), if they are done."""
        whole_sample = cell._replace(method=Method(POOLED, 1.0, cell.method.semi))
        files = [self.file_of(whole_sample, r) for r in group]
        if whole_sample not in self.design.cells or not all(file.exists() for file in files):
            return None
        return np.stack([storage.read_arrays(file)["psi"] for file in files])

    def counts(self) -> tuple[list[str], list[list[str]]]:
        """Rows of each site and class: the columns and the lines of table.csv."""
        try:
            with open(self.path / "table.csv", encoding="utf-8", newline="") as file:
                head, *rows = csv.reader(file)
        except (OSError, ValueError) as error:
            raise storage.damaged(self.path / "table.csv", error) from error
        return head, rows


def digest_of(table: FeatureTable) -> str:
    """A digest of a table's features, labels, sites and split."""
    digest = hashlib.sha256(np.ascontiguousarray(table.features).tobytes())
    for words in (table.label, table.site, table.split):
        digest.update(b"none" if words is None else "\n".join(words.tolist()).encode())
    return digest.hexdigest()


def kept_basis(path: Path, loaded: Loaded, digest: str) -> Basis | None:
    """The basis of a folder in which the same study of the same table was begun; anything else is rejected.

    None where there is nothing yet. Replicates may be more or fewer: each depends on its own number alone.
    """
    before = storage.begun(path, KEYS)
    if before is None:
        return None
    if before["table"] != digest:
        raise DesignError(f"{path} holds a study of another table; {storage.ELSEWHERE}")
    settings = json.loads(json.dumps(loaded.design.settings))
    storage.compare_settings(path, before["settings"], settings, "replicates")
    return load(path / "basis.npz")[0]


def holds_features(path: Path) -> bool:
    """Whether a folder holds a study of a feature table."""
    try:
        return bool(json.loads((path / "study.json").read_text(encoding="utf-8")).get("kind") == KIND)
    except (OSError, ValueError, AttributeError):
        return False
