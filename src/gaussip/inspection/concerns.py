"""What a look at the rows may find: the feature and the sites, the numbers, a sentence, and what to do."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from gaussip.arrays import NDArray
from gaussip.errors import some
from gaussip.inspection.units import Apart, Place, Ratio
from gaussip.inspection.values import Values
from gaussip.rows.cells import about_pairs

CODE, CONSTANT = "code for missing", "constant"
ORDER = (
    CODE, "never recorded", CONSTANT, "few values", "heap", "other units",
    "never observed together", "few labelled rows",
)  # fmt: skip


class Concern(NamedTuple):
    """One thing about the rows that may spoil a fit."""

    name: str
    features: tuple[str, ...]
    sites: tuple[Any, ...]  #: where it shows
    evidence: dict[str, Any]  #: the numbers, by what they are
    sentence: str
    remedy: str


def in_order(found: list[Concern]) -> list[Concern]:
    """Sorted by kind, in the order in which to see to them."""
    return sorted(found, key=lambda concern: ORDER.index(concern.name))


def code(
    feature: str,
    sites: tuple[Any, ...],
    codes: Sequence[float],
    values: Values,
    rest: Values,
    own: bool,
    elsewhere: bool,
) -> Concern:
    """Numbers that look like codes for missing cells.

    Parameters
    ----------
    rest : what the codes lie apart from
    own : whether a site looks at its own rows alone
    elsewhere : whether another site has the same numbers among others
    """
    n = sum(map(values.count, codes))
    least, largest = float(rest.distinct[0]), float(rest.distinct[-1])
    stand = "stands" if len(codes) == 1 else "stand"
    remedy = "leave these cells empty there" if elsewhere else emptied(feature, codes, own)
    return Concern(
        CODE, (feature,), sites,
        {"codes": list(codes), "cells": n, "of": values.n, "least": least, "largest": largest,
         "elsewhere": elsewhere},
        f"{_listed(codes)} {stand} in {n} of {values.n} cells, apart from all others ({least:g} to {largest:g})",
        f'if that means "not measured", {remedy}',
    )  # fmt: skip


def few_values(feature: str, sites: tuple[Any, ...], values: Values, elsewhere: int, own: bool) -> Concern:
    """So few different values that they are classes, or steps of a scale; ``elsewhere`` at other sites, or zero."""
    shown = _listed(values.distinct.tolist())
    return Concern(
        "few values", (feature,), sites,
        {"distinct": len(values), "cells": values.n, "elsewhere": elsewhere, "everywhere": not elsewhere},
        f"only {len(values)} different values in {values.n} cells ({shown})"
        + (f", {elsewhere} at the other sites" if elsewhere else "")
        + ": a component that shrinks onto one of them has no variance",
        "measure it alike at all sites, or leave it out: " + _left_out(feature, own) if elsewhere
        else f"leave it out ({_left_out(feature, own)}), or fit each of its groups alone",
    )  # fmt: skip


def constant(feature: str, sites: tuple[Any, ...], values: Values, varies: bool, own: bool) -> Concern:
    """One value in all cells; ``varies`` says that other sites have others."""
    value = float(values.distinct[0])
    remedy = f"leave it out: {_left_out(feature, own)}"
    if varies:
        remedy = "if it was filled in, leave the cells empty there"
    elif own:
        remedy = f"if it was filled in, leave the cells empty; if it is so at all sites, {_left_out(feature, own)}"
    return Concern(
        CONSTANT, (feature,), sites,
        {"value": value, "cells": values.n, "everywhere": not varies},
        f"{value:.10g} in all {values.n} cells" + ", while it varies at other sites" * varies, remedy,
    )  # fmt: skip


def heap(feature: str, sites: tuple[Any, ...], heaps: Sequence[float], values: Values, own: bool) -> Concern:
    """Values that many rows have, with few others near them."""
    shares = {value: values.count(value) / values.n for value in heaps}
    stand = " and ".join(f"{value:g} stands in {share:.0%}" for value, share in shares.items())
    empty = f'if that means "not measured", {emptied(feature, heaps, own)}'
    return Concern(
        "heap", (feature,), sites, {"values": list(heaps), "shares": list(shares.values()), "cells": values.n},
        f"{stand} of {values.n} cells, with few others near: a component can shrink onto it",
        f"{empty}; if it was measured, look whether a component of the fit collapses onto it, and leave the feature "
        f"out then ({_left_out(feature, own)})",
    )  # fmt: skip


def other_units(feature: str, names: Sequence[Any], found: Apart) -> Concern:
    """Sites whose values are a multiple of those at others."""
    sites, others = ([names[m] for m in few] for few in (found.sites, found.others))
    sentence = f"the values are {_multiple(found.ratio, some(others), found.place, found.others_place, 'median')}"
    return Concern(
        "other units", (feature,), tuple(sites), _ratio(found.ratio, found.place, found.others_place), sentence,
        f"ask which unit {some(sites)} uses, and write one unit at all sites",
    )  # fmt: skip


def own_units(feature: str, ratio: Ratio, here: Place, others: Place) -> Concern:
    """A site's own values are a multiple of the other sites'."""
    return Concern(
        "other units", (feature,), (), _ratio(ratio, here, others),
        f"the values here are {_multiple(ratio, 'the other sites together', here, others, 'mean')}",
        "this site or another uses another unit: ask the others, and write one unit at all sites",
    )  # fmt: skip


def never_recorded(feature: str, sites: tuple[Any, ...], everywhere: bool, own: bool) -> Concern:
    """A feature without any value."""
    lacks = f'lacks = ["{feature}"] beside the site\'s address in federation.toml says so'
    nothing = "nothing to do if it is not measured there: its cells are missing" + f" ({lacks})" * own
    return Concern(
        "never recorded", (feature,), sites, {"everywhere": everywhere},
        "no value at any site" if everywhere else "no value",
        f"leave it out: {_left_out(feature, own)}" if everywhere else nothing,
    )  # fmt: skip


def never_together(features: Sequence[str], pairs: NDArray) -> Concern:
    """Features that no row has both of."""
    named = tuple(features[j] for j in sorted(set(pairs.ravel().tolist())))
    return Concern(
        "never observed together", named, (), {"pairs": [[features[i], features[j]] for i, j in pairs.tolist()]},
        about_pairs(pairs, features), "leave one of them out, or trust no correlation between them",
    )  # fmt: skip


def few_labelled(label: Any, n: int, least: int, sites: tuple[Any, ...]) -> Concern:
    """A class whose sums would reveal its labelled rows."""
    rows = f"{n} labelled row{'s' * (n > 1)}"
    return Concern(
        "few labelled rows", (), sites, {"class": label, "rows": n, "min_count": least},
        f"the class {label!r} has {rows} at all sites together, fewer than min_count={least}",
        "label more of them, or leave their labels out",
    )  # fmt: skip


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.10g}" for value in values)


def emptied(feature: str, values: Sequence[float], own: bool) -> str:
    """How to say that numbers stand for missing cells."""
    if own:
        codes = f"{{ {json.dumps(feature)} = [{_listed(values)}] }}"
        return f"leave these cells empty, or agree with all sites on na_values = {codes} in federation.toml"
    codes = ",".join(f"{feature}={value:.10g}" for value in values)
    return f"leave these cells empty, or give --na-values {shlex.quote(codes)}"


def _left_out(feature: str, own: bool) -> str:
    """How to do without a feature."""
    if own:
        return f"agree with all sites on features without {json.dumps(feature)}"
    return f"--no-features {shlex.quote(feature)}"


def _multiple(ratio: Ratio, others: str, here: Place, there: Place, what: str) -> str:
    factor = f"{ratio.factor:.3g} times" if ratio.factor > 1 else f"1/{1 / ratio.factor:.3g} of"
    return (
        f"about {factor} those of {others} ({what} {here.location:.4g} against {there.location:.4g}, "
        f"spread {here.spread:.3g} against {there.spread:.3g})"
        + (f": as between {ratio.hint}" if ratio.hint else "")
    )  # fmt: skip


def _ratio(ratio: Ratio, here: Place, others: Place) -> dict[str, Any]:
    return {
        "factor": ratio.factor, "units": ratio.hint, "location": here.location, "location of others": others.location,
        "spread": here.spread, "spread of others": others.spread,
    }  # fmt: skip
