"""A study's numbers beside published numbers."""

import math
from typing import Any, NamedTuple

from gaussip.studies.cells import matches
from gaussip.studies.parts import Published
from gaussip.studies.results import NotRunError, Results

FEW = 10  # data sets: a standard error of fewer says little


class Comparison(NamedTuple):
    """A published number and the study's."""

    cell: str
    round: int | str
    source: str
    published: float
    measured: float
    standard_error: float
    difference: float
    allowed: float  #: NaN where nothing was asked for
    verdict: str  #: reproduced, not reproduced, reported (nothing was asked for), not run or round not reached
    note: str


def comparisons(results: Results) -> list[Comparison]:
    """Every published number of the design beside the study's."""
    return [_compared(results, published) for published in results.design.published]


def _compared(results: Results, published: Published) -> Comparison:
    (cell,) = [cell for cell in results.design.cells if matches(cell.values, published.where)]
    known: dict[str, Any] = {
        "cell": results.describe(cell), "round": published.round or "end", "source": published.source,
        "published": published.value, "note": published.note,
    }  # fmt: skip
    try:
        measured = results.log_mse(cell, published.round)
    except NotRunError:
        numbers: dict[str, Any] = dict.fromkeys(("measured", "standard_error", "difference", "allowed"), math.nan)
        return Comparison(verdict="not run" if cell in results.missing else "round not reached", **numbers, **known)
    apart = measured.value - published.value
    limits = [] if published.within is None else [published.within]
    if published.within_errors is not None and results.design.replicates >= FEW:
        limits.append(published.within_errors * measured.error)
    verdict = "reported" if not limits else "reproduced" if abs(apart) <= max(limits) else "not reproduced"
    return Comparison(
        measured=measured.value,
        standard_error=measured.error,
        difference=apart,
        allowed=max(limits, default=math.nan),
        verdict=verdict,
        **known,
    )
