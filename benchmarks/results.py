"""Results as data: machine, versions, commit and figures in one JSON file, and the Markdown made from it."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from machine import description

FOLDER = Path("out/benchmarks")


class Table(NamedTuple):
    """Some figures; text alone where there are no columns."""

    title: str
    about: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()  #: numbers as measured, or text


def commit() -> str:
    """The commit of the source tree, and whether files differ from it."""
    root = Path(__file__).parent
    try:
        return subprocess.check_output(
            ["git", "describe", "--always", "--abbrev=12", "--dirty"], cwd=root, text=True
        ).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def report(name: str, tables: Sequence[Table]) -> None:
    """Write NAME.json and NAME.md into ``out/benchmarks``, and print the Markdown."""
    data = {
        "benchmark": name,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": commit(),
        "machine": description(),
        "tables": [table._asdict() for table in tables],
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = markdown(data)
    (FOLDER / f"{name}.json").write_text(json.dumps(data, indent=1, default=float) + "\n", encoding="utf-8")
    (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")
    print(text)


def markdown(data: dict[str, Any]) -> str:
    """The page of a results file."""
    machine = ", ".join(f"{name} {value}" for name, value in data["machine"].items())
    parts = [f"# Benchmark: {data['benchmark']}", f"{data['date']}, commit {data['commit']}; {machine}."]
    for table in data["tables"]:
        parts += [f"## {table['title']}"] + [table["about"]] * bool(table["about"])
        if table["columns"]:
            rows = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
            parts.append("\n".join(f"| {' | '.join(map(shown, row))} |" for row in rows))
    return "\n\n".join(parts) + "\n"


def shown(value: Any) -> str:
    """A number as people read it: three digits, thousands apart."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
