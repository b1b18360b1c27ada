"""What a drawing function returns, the style that all figures share, and the files: a picture and its table."""

import csv
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gaussip.errors import SettingError
from gaussip.files import whole

STYLE = Path(__file__).with_name("gaussip.mplstyle")
ENDINGS = (".png", ".svg", ".pdf")
LETTERS = 13  # of a title in an inch


class Drawing(NamedTuple):
    """What a function drew."""

    axes: Any  #: a matplotlib Axes, or an array of them where there are panels
    table: Mapping[str, Sequence[Any]]  #: the columns that it was drawn from


@contextmanager
def style() -> Iterator[Any]:
    """matplotlib.pyplot, with gaussip's style until the block ends."""
    import matplotlib
    import matplotlib.pyplot as plt

    with matplotlib.rc_context(fname=str(STYLE)):
        yield plt


def colour(number: int) -> str:
    """A colour of the style, by its place; "C0" would be looked up only later, in the user's style."""
    import matplotlib

    colours: list[str] = matplotlib.rcParams["axes.prop_cycle"].by_key()["color"]
    return colours[number % len(colours)]


def set_title(figure: Any, title: str) -> None:
    """A title above all panels, in as many lines as it needs."""
    wrapped = textwrap.fill(title, int(LETTERS * figure.get_figwidth()))
    figure.suptitle(wrapped, x=0.01, ha="left", fontsize=11)


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
