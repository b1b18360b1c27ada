"""The style that all figures share, and what a drawing function returns."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

STYLE = Path(__file__).with_name("gaussip.mplstyle")
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
