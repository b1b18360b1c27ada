"""Designs by name or from a TOML file, checked: an error names the line."""

from importlib.resources import files
from pathlib import Path

from gaussip.errors import DesignError
from gaussip.files.toml import Source
from gaussip.studies.cells import KEYS, LOOKS, cells_of
from gaussip.studies.checks import Table, each, flag, number, text, whole
from gaussip.studies.parts import Design
from gaussip.studies.reading import claims_of, drawing_of, figures_of, published_of

SHIPPED = files("gaussip.studies") / "designs"
ORDER = ("figure1", "figure2", "figure3", "figure4", "networks", "circles", "label-fractions", "starts", "theory",
         "exact")  #: the studies that come with gaussip  # fmt: skip
TOP = ("title", "about", "replicates", "seed", "looks", "levels", "contraction", "cells", "figures", "published",
       "claims", "drawing")  # fmt: skip
LEVEL = number(0, 1e6, "a positive distance", above_low=True)


def load(name: str | Path, replicates: int | None = None, most_rounds: int | None = None) -> Design:
    """A design that comes with gaussip, by name, or one's own, by the path of its TOML file."""
    if str(name) in ORDER:
        return of_text((SHIPPED / f"{name}.toml").read_text(encoding="utf-8"), str(name), replicates, most_rounds)
    path = Path(name)
    if path.suffix != ".toml":
        raise DesignError(
            f"there is no study {str(name)!r}; there are: {', '.join(ORDER)}, xray. Your own is a .toml file"
        )
    try:
        toml = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DesignError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return of_text(toml, path.stem, replicates, most_rounds)


def of_text(toml: str, name: str, replicates: int | None = None, most_rounds: int | None = None) -> Design:
    """A design from its TOML; ``replicates`` replaces the design's, and no cell runs more than ``most_rounds``."""
    source = Source(toml, f"{name}.toml", DesignError)
    design = Table(source, (), source.values)
    design.check_keys((*TOP, *KEYS))
    for key, value in (("replicates", replicates), ("rounds", most_rounds)):
        if value is not None:
            whole(1)(key, value)
    seed = design.get("seed", whole(0), 1)
    looks = design.get("looks", whole(2), LOOKS)
    cells = cells_of(design, seed, most_rounds)
    drawing = drawing_of(design)
    if not cells and drawing is None:
        raise design.error("the design has no [[cells]]; add at least one")
    return Design(
        name=name,
        title=design.get("title", text, name),
        about=design.get("about", text, "").strip(),
        replicates=replicates or design.get("replicates", whole(1), 100),
        seed=seed,
        looks=looks,
        levels=design.get("levels", each(LEVEL), ()),
        contraction=design.get("contraction", flag, False),
        cells=cells,
        figures=figures_of(design, cells),
        published=published_of(design, cells, looks, reduced=most_rounds is not None),
        claims=claims_of(design),
        drawing=drawing,
        text=toml,
        most_rounds=most_rounds,
    )
