"""The plan of the package: its rooms, their order, and the map that people read."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "gaussip"


def layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    assert not any("ignore_imports" in contract for contract in contracts)
    return [room for layer in contracts[0]["layers"] for room in layer.split(" | ")]


def test_the_map_for_contributors_is_the_list_that_is_checked():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = re.search(r"^```\n(__main__ .*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert drawn is not None
    assert [line.split()[0] for line in drawn[1].splitlines()] == layers()


def test_every_room_stands_at_its_place_and_says_what_it_is_for():
    modules = sorted(path.stem for path in PACKAGE.glob("*.py"))
    rooms = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
    assert len(modules) <= 6
    assert sorted([*modules, *rooms]) == sorted(["__init__", *layers()])
    for door in PACKAGE.rglob("__init__.py"):
        text = door.read_text(encoding="utf-8")
        assert text.startswith('"""'), door
        assert len(text.splitlines()) <= 60, door
