"""Figures, one per file. Each is drawn from a table, and the table is written beside it."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gaussip.errors import SettingError
from gaussip.files import whole

ENDINGS = (".png", ".svg", ".pdf")
STYLE = Path(__file__).with_name("gaussip.mplstyle")


@contextmanager
def styled() -> Iterator[Any]:
    """matplotlib.pyplot with gaussip's style and no window."""
    import matplotlib
    import matplotlib.pyplot as plt

    with matplotlib.rc_context(fname=str(STYLE)):
        plt.switch_backend("agg")
        yield plt


def paths_of(path: str | os.PathLike[str]) -> list[Path]:
    """The files of a figure: the picture, and the table it is drawn from."""
    picture = Path(path)
    if picture.suffix.lower() not in ENDINGS:
        raise SettingError(f"{picture}: pictures are {', '.join(ENDINGS)} files")
    return [picture, picture.with_suffix(".csv")]


def save(
    figure: Any, path: str | os.PathLike[str], table: Mapping[str, Sequence[Any]], also: str | None = None
) -> list[Path]:
    """Write a figure and, beside it, the table it was drawn from; returns the paths.

    ``also`` is the ending of a second picture.
    """
    import matplotlib.pyplot as plt

    picture, numbers = paths_of(path)
    pictures = [picture, *([picture.with_suffix(also)] if also else [])]
    for target in pictures:
        with whole(target) as partial:
            figure.savefig(partial, metadata={"Date": None} if target.suffix == ".svg" else None)
    plt.close(figure)
    write_csv(numbers, list(table), zip(*table.values(), strict=True))
    return [*pictures, numbers]


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table whole."""
    with whole(path) as partial, open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
