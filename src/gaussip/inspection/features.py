"""The concerns of one feature, from its values at each site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gaussip.inspection import concerns
from gaussip.inspection.concerns import Concern
from gaussip.inspection.units import ROWS, Place, other_units
from gaussip.inspection.values import HEAP, REPEATED, Values, codes_in, has_few, heaps_in

FINER = 3  # times as many different values


def concerns_of(feature: str, parts: Sequence[Values], sites: Sequence[Any], *, own: bool = False) -> list[Concern]:
    """What may spoil a fit; ``own`` says that a site looks at its own rows alone."""
    return list(_concerns_of(feature, parts, sites, own))


def _concerns_of(feature: str, parts: Sequence[Values], sites: Sequence[Any], own: bool) -> Iterator[Concern]:
    there = [m for m, part in enumerate(parts) if part.n]
    without = [m for m, part in enumerate(parts) if not part.n]
    if without:
        yield concerns.never_recorded(feature, _named(sites, without), everywhere=not there and not own, own=own)
    if not there:
        return
    codes = codes_at(parts)
    rest = [part.without(codes[m]) for m, part in enumerate(parts)]
    found = [m for m in there if codes[m]]
    if found:
        all_codes = sorted({value for m in found for value in codes[m]})
        elsewhere = any(rest[m].count(value) for m in there for value in all_codes)
        those, apart = Values.joined([parts[m] for m in found]), Values.joined([rest[m] for m in found])
        others = apart if apart.n else Values.joined(rest)
        yield concerns.code(feature, _named(sites, found), all_codes, those, others, own, elsewhere)
    parts, there = rest, [m for m in there if rest[m].n]
    pooled = Values.joined([parts[m] for m in there])
    if len(pooled) == 1 and pooled.n > 1:
        yield concerns.constant(feature, _named(sites, there), pooled, varies=False, own=own)
    elif has_few(pooled):
        yield concerns.few_values(feature, _named(sites, there), pooled, 0, own)
    else:
        yield from _at_some(feature, parts, pooled, sites, there, own)


def _at_some(
    feature: str, parts: Sequence[Values], pooled: Values, sites: Sequence[Any], there: list[int], own: bool
) -> Iterator[Concern]:
    """Those of a feature with many values."""
    alike = [m for m in there if len(parts[m]) == 1 and parts[m].n >= ROWS]
    for m in alike:
        yield concerns.constant(feature, (sites[m],), parts[m], varies=True, own=own)
    rest = [m for m in there if m not in alike]
    for m in [m for m in rest if has_few(parts[m])]:
        finer = _finer(parts[m], [parts[o] for o in there if o != m])
        if finer:
            yield concerns.few_values(feature, (sites[m],), parts[m], finer, own)
            rest.remove(m)
    of_all = set(heaps_in(pooled))
    at = {m: [v for v in {*of_all, *heaps_in(parts[m])} if parts[m].count(v) >= HEAP * parts[m].n] for m in rest}
    found = [m for m in rest if at[m]]
    if found:
        heaps = sorted({value for m in found for value in at[m]})
        yield concerns.heap(feature, _named(sites, found), heaps, Values.joined([parts[m] for m in found]), own)
    places = {m: place for m in rest if (place := Place.of(parts[m])) is not None}
    for apart in other_units(places):
        yield concerns.other_units(feature, sites, apart)


def _finer(values: Values, others: Sequence[Values]) -> int:
    """How many different values others have between the least and the largest; zero if not far more."""
    between = Values.joined(others)
    n = int(((between.distinct >= values.distinct[0]) & (between.distinct <= values.distinct[-1])).sum())
    return n if n >= FINER * len(values) else 0


def codes_at(parts: Sequence[Values]) -> list[list[float]]:
    """The codes for missing cells of a feature at each site: those of its rows, if repeated, or of all rows."""
    of_all = codes_in(Values.joined(parts))
    return [
        sorted({*codes_in(part, REPEATED), *(value for value in of_all if part.count(value))}) for part in parts
    ]  # fmt: skip


def _named(sites: Sequence[Any], places: Sequence[int]) -> tuple[Any, ...]:
    return tuple(sites[m] for m in places)
