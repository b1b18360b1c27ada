"""The paper's claims as assertions over a study's results: the numbers keep or refute each.

A claim is a function of the results that yields what it looked at: a line of evidence, and whether it holds there. It
is kept when it holds everywhere. A design names the claims it is to be held against.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gaussip.studies.cells import Cell
from gaussip.studies.results import NotRunError, Results

Evidence = Iterator[tuple[bool, str]]
SORTED = "heterogeneous"


class Claim(NamedTuple):
    """A sentence and how it is held against results."""

    text: str
    look: Callable[[Results], Evidence]


CLAIMS: dict[str, Claim] = {}


def claim(name: str, text: str) -> Callable[[Callable[[Results], Evidence]], Callable[[Results], Evidence]]:
    """Decorator: a claim by its name, with its text."""

    def decorate(look: Callable[[Results], Evidence]) -> Callable[[Results], Evidence]:
        CLAIMS[name] = Claim(text, look)
        return look

    return decorate


class Verdict(NamedTuple):
    """A claim after a look at the results."""

    name: str
    text: str
    verdict: str  #: kept, refuted or not run
    evidence: list[str]


def verdicts(results: Results) -> list[Verdict]:
    """The verdict on every claim of the design."""
    judged = []
    for name in results.design.claims:
        text, look = CLAIMS[name]
        try:
            seen = list(look(results))
        except NotRunError as error:
            judged.append(Verdict(name, text, "not run", [str(error)]))
            continue
        kept = "kept" if all(holds for holds, _ in seen) else "refuted"
        evidence = [line if holds else f"{line} (fails)" for holds, line in seen]
        judged.append(Verdict(name, text, kept if seen else "not run", evidence or ["no such cell was run"]))
    return judged


def height(results: Results, cell: Cell) -> float:
    """A cell's last log MSE; infinite where every data set collapsed."""
    value = results.log_mse(cell).value
    return value if np.isfinite(value) else np.inf


def behind(results: Results, cell: Cell) -> float:
    """How far a cell's last log MSE lies above the whole sample's, over the data sets that did not collapse."""
    ratio = results.mse_ratio(cell).value
    return float(np.log(ratio)) if np.isfinite(ratio) else np.inf
