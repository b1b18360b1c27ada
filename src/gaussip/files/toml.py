"""TOML whose errors name the file and the line."""

import re
import tomllib
from typing import Any

from gaussip.errors import GaussipError

Path = tuple[str | int, ...]  # for instance ("cells", 1, "delta")


class Source:
    """A file's TOML text, its values, and where each key stands; errors of a kind name the file."""

    def __init__(self, text: str, name: str, kind: type[GaussipError]) -> None:
        self.text, self.name, self.kind = text, name, kind
        try:
            self.values: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise kind(f"{name} is not TOML: {error}") from error
        self._lines = _lines(text)

    def error(self, message: str, path: Path = ()) -> GaussipError:
        """An error about the value at a path; the line is that of the nearest key above it that has one."""
        while path and path not in self._lines:
            path = path[:-1]
        where = f"{self.name}, line {self._lines[path]}" if path else self.name
        return self.kind(f"{where}: {message}")

    def converted(self, values: Any, kind: type[Any], at: Path = ()) -> Any:
        """Values as a structure; what does not fit is reported with its line."""
        import msgspec  # not here for studies of drawn data, which run without it

        try:
            return msgspec.convert(values, kind)
        except msgspec.ValidationError as error:
            what, _, where = str(error).partition(" - at ")
            path = [int(part) if part.isdigit() else part for part in re.findall(r"[\w-]+", where.strip("`$"))]
            unknown = re.search(r"unknown field `([^`]+)`", what)
            if unknown:
                keys = ", ".join(field.name for field in msgspec.structs.fields(kind))
                what = f"unknown key {unknown[1]!r}" + (f"; there are: {keys}" if not path else "")
                path = [*path, unknown[1]]
            raise self.error(what[0].lower() + what[1:], (*at, *path)) from None


def _lines(text: str) -> dict[Path, int]:
    """The line of each table and key: enough of TOML's grammar for keys at the beginning of a line."""
    lines: dict[Path, int] = {}
    table: Path = ()
    depth, quote = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not depth and not quote:
            header = re.match(r"\s*(\[\[?)\s*([\w.-]+)\s*\]", line)
            key = re.match(r"\s*([\w-]+)\s*=", line)
            if header:
                table = tuple(header[2].split("."))
                if header[1] == "[[":
                    table = (*table, sum(1 for path in lines if path[:-1] == table and isinstance(path[-1], int)))
                lines[table] = number
                continue
            if key:
                lines.setdefault((*table, key[1]), number)
        depth, quote = _open_after(line, depth, quote)
    return lines


def _open_after(line: str, depth: int, quote: str) -> tuple[int, str]:
    """How many brackets, and which long string, are open after a line."""
    place = 0
    while place < len(line):
        if quote:
            if line[place] == "\\" and quote == '"""':
                place += 1
            elif line.startswith(quote, place):
                place, quote = place + 2, ""
        elif line.startswith(('"""', "'''"), place):
            place, quote = place + 2, line[place : place + 3]
        elif line[place] == "#":
            break
        elif text := re.compile(r'"(?:[^"\\\\]|\\\\.)*"|\'[^\']*\'').match(line, place):
            place = text.end() - 1
        else:
            depth += (line[place] in "[{") - (line[place] in "]}")
        place += 1
    return depth, quote
