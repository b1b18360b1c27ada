"""A study's numbers beside published ones."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gaussip.studies.claims.base import said
from gaussip.studies.parts import Published
from gaussip.studies.results import NotRunError, Results


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
    verdict: str  #: reproduced, not reproduced, reported or not run
    note: str


def comparisons(results: Results) -> list[Comparison]:
    """Every published number of the design beside ours."""
    return [_compared(results, one) for one in results.design.published]


def _compared(results: Results, one: Published) -> Comparison:
    told: dict[str, Any] = {
        "round": one.round or "last",
        "source": one.source,
        "published": one.value,
        "note": one.note,
    }
    try:
        cell = results.one(**one.where)
        ours = results.log_mse(cell, one.round)
    except NotRunError:
        name = ", ".join(f"{key} {value}" for key, value in one.where.items())
        numbers: dict[str, Any] = dict.fromkeys(("measured", "standard_error", "difference", "allowed"), math.nan)
        return Comparison(cell=name, verdict="not run", **numbers, **told)
    apart = ours.value - one.value
    limits = [] if one.within is None else [one.within]
    if one.within_errors is not None and math.isfinite(ours.error):
        limits.append(one.within_errors * ours.error)
    verdict = "reported" if not limits else "reproduced" if abs(apart) <= max(limits) else "not reproduced"
    return Comparison(
        cell=said(cell, results),
        measured=ours.value,
        standard_error=ours.error,
        difference=apart,
        allowed=max(limits, default=math.nan),
        verdict=verdict,
        **told,
    )
