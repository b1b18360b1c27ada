"""Tables that print in a terminal and in a notebook, and become data frames."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from gaussip.errors import SettingError

MOST = 60  # lines that are printed
GAP = "  "


@dataclass(frozen=True, repr=False)
class Table:
    """Columns of names and numbers. `str` and a notebook show them, `to_frame` makes a data frame of them.

    Attributes
    ----------
    columns : the cells of each column, by name
    head : what stands above
    formats : how the numbers of a column are written; four digits by default
    marked : the row that gets a star
    turned : whether a column is printed as a line, where there are more columns than rows
    """

    columns: Mapping[str, Sequence[Any]]
    head: str = ""
    formats: Mapping[str, str] = field(default_factory=dict)
    marked: int | None = None
    turned: bool = False

    def cells(self) -> list[list[str]]:
        """The rows as they are printed."""
        written = [[_cell(v, self.formats.get(name, ".4g")) for v in cells] for name, cells in self.columns.items()]
        rows = [list(row) for row in zip(*written, strict=True)]
        if self.marked is not None:
            rows[self.marked][0] += " *"
        return rows

    def __str__(self) -> str:
        lines, more = self._lines()
        words = {name for name, cells in self.columns.items() if any(isinstance(cell, str) for cell in cells)}
        left = [lines[0][0], *([] if self.turned else words)]
        blocks = [_aligned(block, left) for block in _blocks(lines, shutil.get_terminal_size((100, 24)).columns)]
        return "\n\n".join([*[self.head] * bool(self.head), *blocks, *[more] * bool(more)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        lines, more = self._lines()
        head, *rows = ["".join(f"<td>{escape(cell)}</td>" for cell in line) for line in lines]
        head = head.replace("td>", "th>")
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        above, below = (f"<p>{escape(text)}</p>" if text else "" for text in (self.head, more))
        return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"

    def to_frame(self) -> Any:
        """The columns as a `pandas.DataFrame`, with all rows and digits."""
        try:
            import pandas
        except ImportError as error:
            raise SettingError(
                "a data frame needs pandas, which is not installed",
                remedy="install pandas, or take .columns, which maps names to cells",
            ) from error
        return pandas.DataFrame(dict(self.columns))

    def _lines(self) -> tuple[list[list[str]], str]:
        """The lines that are shown, the first a heading, and what to say of the others."""
        lines = [list(self.columns), *self.cells()]
        if self.turned:
            lines = [list(line) for line in zip(*lines, strict=True)]
        left = len(lines) - 1 - MOST
        return lines[: 1 + MOST], f"and {left} more lines: to_frame() has all" if left > 0 else ""


def _cell(value: Any, format: str) -> str:
    if value is None:
        return ""
    return f"{value:{format}}" if isinstance(value, float) else str(value)


def _blocks(lines: Sequence[Sequence[str]], width: int) -> list[list[list[str]]]:
    """Lines as several tables, none wider than this; each repeats the first column."""
    wide = [max(map(len, column)) + len(GAP) for column in zip(*lines, strict=True)]
    cuts, used = [1], wide[0]
    for j in range(1, len(wide)):
        if used + wide[j] > width + len(GAP) and j > cuts[-1]:
            cuts, used = [*cuts, j], wide[0]
        used += wide[j]
    ends = [*cuts[1:], len(wide)]
    return [[[line[0], *line[a:b]] for line in lines] for a, b in zip(cuts, ends, strict=True)]


def _aligned(lines: Sequence[Sequence[str]], left: Sequence[str]) -> str:
    """Some columns to the left, by their headings, and the others to the right."""
    columns = []
    for column in zip(*lines, strict=True):
        wide = max(map(len, column))
        columns.append([cell.ljust(wide) if column[0] in left else cell.rjust(wide) for cell in column])
    return "\n".join(GAP.join(line).rstrip() for line in zip(*columns, strict=True))
