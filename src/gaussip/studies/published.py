"""A study's numbers beside published ones."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gaussip.studies.cells import matches
from gaussip.studies.claims.base import said
from gaussip.studies.parts import Published
from gaussip.studies.results import NotRunError, Results

FEW = 10  # data sets: a standard error of fewer says little


class Comparison(NamedTuple):
    """A published number and ours."""

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
    """Every published number of the design beside ours."""
    return [_compared(results, one) for one in results.design.published]


def _compared(results: Results, one: Published) -> Comparison:
    (cell,) = [cell for cell in results.design.cells if matches(cell.values, one.where)]
    told: dict[str, Any] = {
        "cell": said(cell, results), "round": one.round or "end", "source": one.source, "published": one.value,
        "note": one.note,
    }  # fmt: skip
    try:
        ours = results.log_mse(cell, one.round)
    except NotRunError:
        numbers: dict[str, Any] = dict.fromkeys(("measured", "standard_error", "difference", "allowed"), math.nan)
        return Comparison(verdict="not run" if cell in results.missing else "round not reached", **numbers, **told)
    apart = ours.value - one.value
    limits = [] if one.within is None else [one.within]
    if one.within_errors is not None and results.design.replicates >= FEW:
        limits.append(one.within_errors * ours.error)
    verdict = "reported" if not limits else "reproduced" if abs(apart) <= max(limits) else "not reproduced"
    return Comparison(
        measured=ours.value,
        standard_error=ours.error,
        difference=apart,
        allowed=max(limits, default=math.nan),
        verdict=verdict,
        **told,
    )
