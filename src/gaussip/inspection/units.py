"""Sites whose values are a multiple of the others', as those of other units are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gaussip.inspection.values import TAILS, Values

ROWS = 20  # of a site, before its spread is known well enough
LEAST = 1.5  # times: sites less far from each other are taken together
LARGE = 5.0  # times: from there on any factor may be one of units
WIDER = 8.0  # times: the same where only spreads can be compared
APART = 5.0  # standard deviations of the logarithms between sites that differ by such a factor
NAMED_APART = 3.5  # the same for a factor below, if it is one of NAMED
WITHIN = 0.07  # of the logarithm of such a factor
HINTED = 0.12  # the same of a factor that is only a hint
COARSE = 1.5  # steps of a grid in a standard deviation: coarser numbers are not held against finer ones
CELSIUS = (30.0, 45.0)  # between which temperatures of bodies lie

NAMED = {2.2046: "pounds and kilograms", 2.54: "centimetres and inches"}
KNOWN = NAMED | {
    7.5006: "mmHg and kPa",
    10.0: "mm and cm, or mg/l and mg/dl",
    17.1: "umol/l and mg/dl of bilirubin",
    18.016: "mg/dl and mmol/l of glucose",
    38.67: "mg/dl and mmol/l of cholesterol",
    59.48: "umol/l and mg/dl of uric acid",
    88.42: "umol/l and mg/dl of creatinine, or mg/dl and mmol/l of triglycerides",
    100.0: "cm and m, or percent and shares",
    1000.0: "g and kg, or mg and g",
}


class Place(NamedTuple):
    """Where the values of a feature lie at a site."""

    location: float
    spread: float  #: a standard deviation
    log_spread: float  #: the standard deviation of the logarithms; NaN where values have both signs

    @classmethod
    def of(cls, values: Values) -> Place | None:
        """From quantiles; zeros are left out where the others have one sign. None where too little is known."""
        if values.quantile(0.05) >= 0:
            values = values.where(values.distinct > 0)
        elif values.quantile(0.95) <= 0:
            values = values.where(values.distinct < 0)
        if values.n < ROWS or len(values) < 2 or values.spread < COARSE * np.diff(values.distinct).min():
            return None
        low, high = values.quantile(0.05), values.quantile(0.95)
        logs = abs(math.log(high / low)) / TAILS if low * high > 0 else math.nan
        return cls(values.quantile(0.5), values.spread, logs)

    @classmethod
    def of_moments(cls, mean: float, sd: float, one_sign: bool) -> Place:
        """From a mean and a standard deviation, as if values whose sign is one were log-normal."""
        logs = math.sqrt(math.log1p((sd / mean) ** 2)) if one_sign and mean else math.nan
        return cls(float(mean), float(sd), logs)


class Ratio(NamedTuple):
    """By what a site's values differ from the others'."""

    factor: float
    spread: float  #: the same of the spread
    hint: str  #: units that differ by about the factor; empty where none are known


def ratio_of_units(one: Place, others: Place) -> Ratio | None:
    """By what one is larger, if that looks like other units: location and spread differ by much the same factor.

    Other patients shift the location alone, or by no more than some standard deviations of the logarithms.
    """
    wide = one.spread / others.spread
    if not one.location * others.location > 0 or math.isnan(one.log_spread + others.log_spread):
        return Ratio(wide, wide, _hint(wide)) if abs(math.log(wide)) >= math.log(WIDER) else None
    factor = one.location / others.location
    size, width = abs(math.log(factor)), math.log(wide) * math.copysign(1, math.log(factor))
    apart = size / (0.5 * (one.log_spread + others.log_spread))
    if apart >= NAMED_APART and (_fahrenheit(one, others) or _fahrenheit(others, one)):
        return Ratio(factor, wide, "degrees Fahrenheit and Celsius")
    if abs(width - size) > 0.25 * size + 0.05:
        return None
    named = any(abs(size - math.log(known)) <= WITHIN for known in NAMED)
    if (size >= math.log(LARGE) and apart >= APART) or (named and apart >= NAMED_APART):
        return Ratio(factor, wide, _hint(factor))
    return None


def _fahrenheit(one: Place, other: Place) -> bool:
    """Whether these are the same temperatures, one of them in degrees Celsius."""
    low, high = CELSIUS
    expected = 1.8 * other.location + 32
    near = abs(one.location - expected) <= 3 * one.spread and one.spread < math.e * other.spread
    return low <= other.location <= high and near and other.spread < math.e * one.spread


def _hint(factor: float) -> str:
    """The units that differ by about a factor."""
    size = abs(math.log(factor))
    return ", or ".join(units for known, units in KNOWN.items() if abs(size - math.log(known)) <= HINTED)


class Apart(NamedTuple):
    """Sites that seem to have a feature in other units than others."""

    sites: list[int]
    others: list[int]
    place: Place
    others_place: Place
    ratio: Ratio


def other_units(places: Mapping[int, Place]) -> list[Apart]:
    """The sites whose values are a multiple of those of most sites; the sites' places by their numbers."""
    groups = _groups(places)
    usual = max(groups, key=len, default=[])
    found = []
    for group in groups:
        mine, theirs = (_middle([places[m] for m in few]) for few in (group, usual))
        ratio = None if group is usual else ratio_of_units(mine, theirs)
        if ratio is not None:
            found.append(Apart(sorted(group), sorted(usual), mine, theirs, ratio))
    return found


def _middle(places: Sequence[Place]) -> Place:
    """The place of the rows of several sites; how far these lie from each other counts as spread of logarithms."""
    location, spread, logs = np.median(np.array(places), axis=0).tolist()
    ratios = np.array([place.location / location if location else math.nan for place in places])
    between = np.log(ratios).std() if (ratios > 0).all() else math.nan
    return Place(location, spread, math.hypot(logs, between))


def _groups(places: Mapping[int, Place]) -> list[list[int]]:
    """The sites, divided where their locations, or their spreads where signs differ, lie far from each other."""
    signs = [place.location * place.log_spread for place in places.values()]
    logs = all(sign > 0 for sign in signs) or all(sign < 0 for sign in signs)
    order = sorted(places, key=lambda m: _size(places[m], logs))
    groups = [order[:1]] if order else []
    for m in order[1:]:
        before, here = places[groups[-1][-1]], places[m]
        bar = 0.5 * NAMED_APART * (before.log_spread + here.log_spread) if logs else math.log(WIDER)
        if _size(here, logs) - _size(before, logs) >= max(bar, math.log(LEAST)):
            groups.append([m])
        else:
            groups[-1].append(m)
    return groups


def _size(place: Place, logs: bool) -> float:
    return math.log(abs(place.location) if logs else place.spread)
