"""A stand-in for the COVID-19 Radiography Database, made by code: its classes, its sites, and none of its images."""

import os
from pathlib import Path

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import FileError, SettingError
from gaussip.studies.features.table import FeatureTable
from gaussip.studies.simulation_model import streams
from gaussip.studies.xray.radiography import CLASSES, SOURCES, extra

CELLS = {  # (site, label) -> images in the database; every other cell is empty
    ("RSNA", "lung_opacity"): 6012,
    ("RSNA", "normal"): 8851,
    ("Kermany", "normal"): 1341,
    ("Kermany", "viral_pneumonia"): 1345,
    ("BIMCV", "covid"): 2474,
    ("COVID-CXNet", "covid"): 400,
    ("Eurorad", "covid"): 258,
    ("Hannover", "covid"): 183,
    ("ieee8023", "covid"): 182,
    ("SIRM", "covid"): 119,
}
FEWEST = 12  # rows of a cell
LATENT = 6  # dimensions in which the classes differ
PIXELS = 64


def stand_in(rows: int = 2000, features: int = 128, seed: int = 0) -> FeatureTable:
    """A feature table with the database's sites and classes, in its proportions.

    Classes are Gaussian clouds, of means and covariances of their own, in a few dimensions. Each feature sees a
    mixture of those, with noise, and is never negative, as a network's pooled features are.
    """
    if rows < FEWEST * len(CELLS) or features < LATENT:
        raise SettingError(
            f"{rows} rows of {features} features are too few: the stand-in needs {FEWEST * len(CELLS)} and {LATENT}"
        )
    model, drawing = streams(seed, 2)
    labels = list(CLASSES.values())
    means = 0.8 * model.standard_normal((len(labels), LATENT))
    shapes = np.eye(LATENT) + 0.35 * model.standard_normal((len(labels), LATENT, LATENT))
    loadings = model.standard_normal((LATENT, features)) / np.sqrt(LATENT)
    base = model.normal(0.5, 0.5, features)
    cell = drawing.permutation(np.repeat(np.arange(len(CELLS)), cell_rows(rows)))
    site, label = np.array(list(CELLS))[cell].T
    k = np.array([labels.index(name) for name in label])
    latent = means[k] + np.einsum("nij,nj->ni", shapes[k], drawing.standard_normal((rows, LATENT)))
    seen = base + latent @ loadings + 0.3 * drawing.standard_normal((rows, features))
    return FeatureTable(np.logaddexp(0, seen).astype(np.float32), label, site)


def cell_rows(rows: int) -> NDArray:
    """How many rows each cell gets: the database's proportions, but no cell fewer than `FEWEST`.

    Rows are given one by one to the cell that lacks most (the method of Sainte-Lague).
    """
    counts = np.array(list(CELLS.values()))
    given = np.full(len(counts), FEWEST)
    for _ in range(rows - given.sum()):
        given[np.argmax(counts / (2 * given + 1))] += 1
    return given


def write_images(folder: str | os.PathLike[str], per_cell: int = 2, seed: int = 0) -> None:
    """Small images and workbooks in the database's layout, each class a pattern of blobs; a few are RGB."""
    openpyxl, pillow = extra("openpyxl"), extra("PIL.Image")
    root = Path(folder)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise FileError(f"{root} exists and is not an empty folder; choose another name")
    if not root.parent.is_dir():
        raise FileError(f"there is no folder {root.parent} for {root.name}; make it first")
    urls = {site: f"https://{pattern}" for pattern, site in SOURCES.items()}
    model, drawing = streams(seed, 2)
    for name, label in CLASSES.items():
        (root / name / "images").mkdir(parents=True)
        book = openpyxl.Workbook()
        book.active.append(["FILE NAME", "FORMAT", "SIZE", "URL"])
        centres = model.uniform(0.2, 0.8, (4, 2))
        sites = [site for site, of in CELLS if of == label for _ in range(per_cell)]
        for j, site in enumerate(sites, start=1):
            kind = "RGB" if j % 5 == 2 else "L"
            image = pillow.fromarray(_blobs(centres, drawing)).convert(kind)
            image.save(root / name / "images" / f"{name}-{j}.png")
            listed = f"{name.upper() if name == 'Normal' else name}-{j}"  # as the database writes them
            book.active.append([listed, "PNG", f"{PIXELS}*{PIXELS}", urls[site]])
        book.save(root / f"{name}.metadata.xlsx")


def _blobs(centres: NDArray, rng: np.random.Generator) -> NDArray:
    """A smooth pattern (PIXELS, PIXELS) of bytes: blobs about centres in the unit square, a little moved."""
    pixels = np.moveaxis(np.indices((PIXELS, PIXELS)), 0, -1) / PIXELS
    moved = centres + 0.03 * rng.standard_normal(centres.shape)
    squares = ((pixels[:, :, None] - moved) ** 2).sum(axis=-1)
    heights = rng.uniform(0.5, 1.0, len(centres))
    pattern = (heights * np.exp(-squares / 0.02)).sum(axis=-1) + 0.02 * rng.standard_normal((PIXELS, PIXELS))
    return np.asarray(255 * np.clip(pattern, 0, 1), dtype=np.uint8)
