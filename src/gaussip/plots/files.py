"""Writing drawings: a picture, and beside it the table that it shows."""

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaussip.errors import SettingError
from gaussip.files import whole
from gaussip.plots.style import Drawing, style

ENDINGS = (".png", ".svg", ".pdf")


def paths_of(path: str | os.PathLike[str]) -> list[Path]:
    """The files of a drawing: the picture and its table."""
    picture = Path(path)
    if picture.suffix.lower() not in ENDINGS:
        raise SettingError(f"{picture}: pictures are {', '.join(ENDINGS)} files")
    return [picture, picture.with_suffix(".csv")]


def save(drawing: Drawing, path: str | os.PathLike[str], also: str | None = None) -> list[Path]:
    """Write a drawing's picture and its table, and close its figure; returns the paths.

    ``also`` is the ending of a second picture.
    """
    picture, numbers = paths_of(path)
    pictures = [picture, *([picture.with_suffix(also)] if also else [])]
    figure = np.ravel(drawing.axes)[0].figure
    with style() as plt:
        for target in pictures:
            with whole(target) as partial:
                figure.savefig(partial, metadata={"Date": None} if target.suffix == ".svg" else None)
        plt.close(figure)
    write_csv(numbers, list(drawing.table), zip(*drawing.table.values(), strict=True))
    return [*pictures, numbers]


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table whole."""
    with whole(path) as partial, open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
