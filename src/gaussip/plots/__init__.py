"""Figures, one per file. Each is drawn from a table, and the table is written beside it."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
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


def save(figure: Any, path: str | os.PathLike[str], table: Mapping[str, Sequence[Any]]) -> list[Path]:
    """Write a figure and, beside it, the table it was drawn from; returns both paths."""
    import matplotlib.pyplot as plt

    picture, numbers = paths_of(path)
    with whole(picture) as partial:
        figure.savefig(partial)
    plt.close(figure)
    with whole(numbers) as partial, open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return [picture, numbers]
