"""Codes for missing cells: what people write into a table where nothing was measured, such as -9 or "unknown"."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError


class Codes(NamedTuple):
    """Numbers and words that mean that a cell is missing."""

    everywhere: tuple[str | float, ...] = ()
    by_column: Mapping[str, tuple[str | float, ...]] = {}

    @classmethod
    def of_text(cls, text: str) -> Codes:
        """From words with commas between them: a code for all features, or COLUMN=CODE."""
        everywhere: list[str | float] = []
        by_column: dict[str, list[str | float]] = {}
        for word in filter(None, map(str.strip, text.split(","))):
            name, of_column, code = word.rpartition("=")
            if of_column:
                by_column.setdefault(name.strip(), []).append(code_of(code.strip()))
            else:
                everywhere.append(code_of(word))
        return cls(tuple(everywhere), {name: tuple(codes) for name, codes in by_column.items()})

    @classmethod
    def of_description(cls, values: Sequence[Any] | Mapping[str, Sequence[Any]]) -> Codes:
        """From a list for all features, or a table of lists by feature; "*" there is for all."""
        if not isinstance(values, Mapping):
            return cls(tuple(map(code_of, values)))
        by_column = {name: tuple(map(code_of, codes)) for name, codes in values.items() if name != "*"}
        return cls(tuple(map(code_of, values.get("*", ()))), by_column)

    def of(self, column: str) -> tuple[str | float, ...]:
        """The codes of one feature."""
        return (*self.everywhere, *self.by_column.get(column, ()))

    def words(self, column: str) -> list[str]:
        """Those that are not numbers."""
        return [code for code in self.of(column) if isinstance(code, str)]

    def cleared(self, column: str, numbers: NDArray) -> NDArray:
        """A feature's numbers with NaN in place of codes."""
        codes = [code for code in self.of(column) if not isinstance(code, str)]
        return np.where(np.isin(numbers, codes), np.nan, numbers) if codes else numbers

    def refuse_unknown(self, columns: Sequence[str]) -> None:
        """Refuse codes of a column that is not a feature."""
        unknown = [name for name in self.by_column if name not in columns]
        if unknown:
            raise DataError(
                f"there are codes for missing cells of {unknown[0]!r}, which is not a feature",
                column=unknown[0], remedy=f"the features are {', '.join(columns)}",
            )  # fmt: skip


NO_CODES = Codes()


def code_of(value: Any) -> str | float:
    """A code as it is compared with cells: a number where it reads as one."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else str(value)
