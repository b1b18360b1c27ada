"""Figures, one per file. Each is drawn from a table, and the table is written beside it."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STYLE = Path(__file__).with_name("gaussip.mplstyle")


@contextmanager
def styled() -> Iterator[Any]:
    """matplotlib.pyplot with gaussip's style and no window."""
    import matplotlib
    import matplotlib.pyplot as plt

    with matplotlib.rc_context(fname=str(STYLE)):
        plt.switch_backend("agg")
        yield plt


def save(figure: Any, path: str | os.PathLike[str], table: Mapping[str, Sequence[Any]]) -> list[Path]:
    """Write a figure and, beside it, the table it was drawn from; returns both paths."""
    import matplotlib.pyplot as plt

    picture = Path(path)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture)
    plt.close(figure)
    numbers = picture.with_suffix(".csv")
    with open(numbers, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return [picture, numbers]
