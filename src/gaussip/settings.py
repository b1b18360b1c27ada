"""The settings of a fit: their choices and constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gaussip.errors import SettingError

WEIGHTINGS = ("rows", "equal")
MIXINGS = ("row", "metropolis")
STARTS = ("kmeans", "labels", "search")
CRITERIA = ("bic", "aic", "icl")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse a setting that is not one of its choices."""
    if value not in choices:
        raise SettingError(f"{name}={value!r} is not one of {', '.join(map(repr, choices))}")
