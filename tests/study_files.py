"""Texts and tables of studies, for their tests."""

import csv


def figure(name, title="log MSE", **keys):
    """A table [[figures]] of a design."""
    lines = [f"{key} = {value!r}" for key, value in {"name": name, "title": title, **keys}.items()]
    return "\n".join(["", "[[figures]]", *lines, ""])


def rows_of(path):
    """The rows of a CSV, by column."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
