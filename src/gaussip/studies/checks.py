"""Checks of the values in a design.

A check takes a key and its value, and returns the value or raises an error that names both. `Table` adds the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gaussip.errors import GaussipError, SettingError
from gaussip.files.toml import Path, Source
from gaussip.networks.named import parse
from gaussip.studies.methods import SEMI, parse_method

Check = Callable[[str, Any], Any]


class Table:
    """A table of a TOML file whose errors name their line."""

    def __init__(self, source: Source, path: Path, values: dict[str, Any]) -> None:
        self.source, self.path, self.values = source, path, values

    def error(self, message: str, key: str = "") -> GaussipError:
        """An error about the table, or about a key of it."""
        return self.source.error(message, (*self.path, key) if key else self.path)

    def judge(self, key: str, check: Check, value: Any) -> Any:
        """A value that passed its check."""
        try:
            return check(key, value)
        except GaussipError as error:
            raise self.error(str(error), key) from error

    def get(self, key: str, check: Check, default: Any = None) -> Any:
        """The value of a key that passed its check, or the default where the key is missing."""
        return self.judge(key, check, self.values[key]) if key in self.values else default

    def tables(self, key: str) -> list[Table]:
        """The tables [[key]]."""
        tables = self.values.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(values, dict) for values in tables):
            raise self.error(f"{key} are tables: write [[{key}]] above the keys of each", key)
        return [Table(self.source, (*self.path, key, n), values) for n, values in enumerate(tables)]

    def check_keys(self, known: Iterable[str], needed: Iterable[str] = ()) -> None:
        """Reject keys that are not known, and tables without those that are needed."""
        for key in self.values:
            if key not in known:
                raise self.error(f"unknown key {key!r}; there are {', '.join(known)}", key)
        for key in needed:
            if key not in self.values:
                raise self.error(f"{key} is missing")


def must_be(name: str, fits: Callable[[Any], bool]) -> Check:
    """A check that a value fits; ``name`` says in an error what it must be."""

    def check(key: str, value: Any) -> Any:
        if not fits(value):
            raise SettingError(f"{key} = {value!r} must be {name}")
        return value

    return check


def whole(least: int) -> Check:
    """Whole numbers."""
    return must_be(
        f"a whole number of at least {least}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least,
    )


def number(low: float, high: float, name: str, *, above_low: bool = False) -> Check:
    """Numbers in a range, as floats."""

    def fits(value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and low <= value <= high and not (above_low and value == low)

    return lambda key, value: float(must_be(name, fits)(key, value))


def choice(choices: Sequence[str]) -> Check:
    """One of some words."""
    return must_be(f"one of {', '.join(map(repr, choices))}", lambda value: value in choices)


text = must_be("a text", lambda value: isinstance(value, str))
flag = must_be("true or false", lambda value: isinstance(value, bool))
table = must_be("a table", lambda value: isinstance(value, dict))
fraction = number(0, 1, "a fraction in [0, 1]")
not_negative = number(0, 1e6, "a number of at least 0")


def each(check: Check) -> Check:
    """Lists whose items pass a check."""

    def check_all(key: str, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise SettingError(f"{key} = {value!r} must be a list")
        return tuple(check(key, item) for item in value)

    return check_all


def network_name(key: str, value: Any) -> str:
    """The name of a network."""
    if not isinstance(value, str):
        raise SettingError(f"{key} = {value!r} must be a network's name, for instance {key} = 'circle'")
    parse(value)
    return value


def method_name(key: str, value: Any) -> str:
    """A method with its step; the design says which rows are labelled."""
    if not isinstance(value, str):
        raise SettingError(f"{key}: {value!r} is not a method; write for instance 'mnem' or 'ngd=0.003'")
    if parse_method(value, 0.01).semi:
        bare = value.strip()[len(SEMI) :]
        raise SettingError(f"{key}: write {bare!r} for {value!r}; the design says which rows are labelled")
    return value
