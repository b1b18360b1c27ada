"""What is asked of a private fit, and what it then guarantees."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError, SettingError, Text, some
from gaussip.exchange.masks import ALL_PAIRS, COLLUDING
from gaussip.privacy.accounting import epsilon_of, mu_of, together
from gaussip.privacy.discrete_gaussian import Below, SystemRandomness
from gaussip.settings import broken, default

KEYS = ("epsilon", "delta", "bounds", "colluding", "patient", "noise_seed")
ROW, PATIENT = "one row added or removed", "all rows of one patient at a site added or removed"
GAUSSIAN = 0.999  # of delta; the rest is for what a discrete Gaussian is not (see `gaussip.privacy.noised`)
ROUNDING = 1e-5  # of mu, kept for the rounding of parts


@dataclass(frozen=True)
class Privacy:
    """What is asked for: a table's ``privacy``."""

    epsilon: float
    delta: float
    bounds: Any  #: the least and the largest value of each feature by name, or one pair for all
    colluding: int  #: sites that may share what they know with the one that reads the sums
    patient: str | None  #: the column that names whose each row is; None: every row is somebody else's
    noise_seed: int | None  #: for studies: noise that can be drawn again guarantees nothing

    @classmethod
    def of(cls, given: Any) -> Privacy:
        """From a mapping, checked."""
        if not isinstance(given, Mapping):
            raise _wrong(f"must be a table such as {{'epsilon': 4, 'bounds': {{'age': [0, 120]}}}}, not {given!r}")
        unknown = [name for name in given if name not in KEYS]
        if unknown:
            raise _wrong(f"has {unknown[0]!r}, which is none of {', '.join(KEYS)}")
        if "epsilon" not in given:
            raise _wrong("has no epsilon: 4 is usual, smaller guarantees more and adds more noise")
        if given.get("bounds") is None:
            raise _wrong(
                "has no bounds: the least and the largest value of each feature, known without looking at the rows, "
                "such as bounds = {'age': [0, 120]}"
            )
        values = {name: given.get(name, default(name)) for name in ("epsilon", "delta", "colluding")}
        for name, value in values.items():
            if (sentence := broken(name, value)) is not None:
                raise _wrong(f"has {name}={value!r}, which must be {sentence}")
        seed = given.get("noise_seed")
        if seed is not None and (isinstance(seed, bool) or broken("random_state", seed)):
            raise _wrong(f"has noise_seed={seed!r}, which must be a whole number")
        patient = given.get("patient")
        if not (patient is None or (isinstance(patient, str) and patient)):
            raise _wrong(f"has patient={patient!r}, which must be the name of a column")
        epsilon, delta, colluding = float(values["epsilon"]), float(values["delta"]), int(values["colluding"])
        return cls(epsilon, delta, given["bounds"], colluding, patient, seed)

    @property
    def mu(self) -> float:
        """What all releases may add up to."""
        return mu_of(self.epsilon, GAUSSIAN * self.delta) * (1 - ROUNDING)

    def asked(self) -> dict[str, Any]:
        """What is asked for, beside the bounds: for a report before the end."""
        epsilon = self.epsilon if self.noise_seed is None else None
        return {"epsilon": epsilon, "delta": self.delta, "mu": self.mu, "neighbours": self.neighbours,
                "colluding": self.colluding}  # fmt: skip

    @property
    def neighbours(self) -> str:
        """How two data sets may differ that a reader cannot distinguish."""
        return ROW if self.patient is None else PATIENT

    @property
    def counted(self) -> str:
        """What counts as one."""
        return counted(self.neighbours)

    def limits(self, features: Sequence[str]) -> NDArray:
        """The least and the largest value of each feature, (p, 2)."""
        p, given = len(features), self.bounds
        if isinstance(given, Mapping):
            names = list(map(str, given))
            absent, extra = [f for f in features if f not in names], [n for n in names if n not in features]
            if absent or extra:
                if absent:
                    raise _wrong(f"has no bounds for {some(absent)}: give them, or leave the column out")
                raise _wrong(f"has bounds for {some(extra)}, which is no feature")
            by_name = dict(zip(names, given.values(), strict=True))
            given = [by_name[name] for name in features]
        try:
            limits = np.array(np.broadcast_to(np.asarray(given, dtype=float), (p, 2)))
        except (TypeError, ValueError) as error:
            raise _wrong("has bounds that are not two numbers for each feature, the least and the largest") from error
        for name, (low, high) in zip(features, limits.tolist(), strict=True):
            if not np.isfinite([low, high]).all():
                raise _wrong(f"has bounds from {low:g} to {high:g} of {name!r}: both must be finite numbers")
            if not low < high:
                raise _wrong(f"has bounds from {low:g} to {high:g} of {name!r}: the first must be the smaller")
            if high - low < 1e-9 * max(abs(low), abs(high)):
                raise _wrong(
                    f"has bounds of {name!r} that differ in digits which numbers do not have: shift them to 0"
                )
        return limits

    def shares(self, n_sites: int) -> int:
        """The sites whose noise together is enough: all but the one that reads, and those it shares with."""
        if n_sites < 3:
            there = "are 2" if n_sites == 2 else "is 1"
            raise DataError(
                f"a private fit needs at least 3 sites, and there {there}: of two, each takes its own part off the "
                "sum and is left with the other's",
                remedy="find more sites",
            )
        if n_sites - 1 - self.colluding < 1:
            raise _wrong(
                f"has colluding={self.colluding}: of {n_sites} sites at most {n_sites - 2} can collude with another"
            )
        if n_sites > ALL_PAIRS and 1 + self.colluding > COLLUDING * n_sites:
            raise _wrong(
                f"has colluding={self.colluding}: of {n_sites} sites masks hide the others from a third at most, "
                f"that is, with the one that reads, from {int(COLLUDING * n_sites)}"
            )
        return n_sites - 1 - self.colluding

    def randomness(self) -> Callable[[int, int], Below]:
        """Where noise comes from, for the number of a sum and a site's place."""
        if self.noise_seed is None:
            system = SystemRandomness()
            return lambda number, place: system
        return lambda number, place: random.Random(f"{self.noise_seed} {number} {place}").randrange


def counted(neighbours: str) -> str:
    """What counts as one where data sets differ so."""
    return "rows" if neighbours == ROW else "patients"


class Guarantee(NamedTuple):
    """What a fit guarantees, as model files and reports have it."""

    epsilon: float  #: infinite where the noise was seeded
    delta: float
    mu: float  #: of all releases together
    neighbours: str  #: the data sets that a reader cannot distinguish
    colluding: int
    releases: tuple[tuple[str, float, int], ...]  #: what was summed: its name, its mu, how many numbers

    @classmethod
    def of(cls, privacy: Privacy, releases: Sequence[tuple[str, float, int]]) -> Guarantee:
        """The one that is reported: of the releases that there were."""
        mu = together(mu for _, mu, _ in releases)
        epsilon = np.inf if privacy.noise_seed is not None else epsilon_of(mu, GAUSSIAN * privacy.delta)
        return cls(float(epsilon), privacy.delta, mu, privacy.neighbours, privacy.colluding, tuple(releases))

    @property
    def counted(self) -> str:
        """What counts as one."""
        return counted(self.neighbours)

    @property
    def private(self) -> bool:
        """Whether it guarantees anything."""
        return bool(np.isfinite(self.epsilon))

    def as_json(self) -> dict[str, Any]:
        """In JSON's own types, which have no infinity."""
        epsilon = self.epsilon if self.private else None
        return self._asdict() | {"epsilon": epsilon, "releases": [list(release) for release in self.releases]}

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> Guarantee:
        """What `as_json` gave."""
        epsilon = np.inf if given["epsilon"] is None else given["epsilon"]
        releases = tuple((str(name), float(mu), int(n)) for name, mu, n in given["releases"])
        return cls(**{**given, "epsilon": epsilon, "releases": releases})

    def __str__(self) -> str:
        if not self.private:
            return "no privacy: the noise was drawn with noise_seed, for a study"
        others = "another site shares what it knows"
        if self.colluding != 1:
            others = f"{self.colluding} other sites share what they know"
        with_others = f", even if {others}" * (self.colluding > 0)
        return (
            f"({self.epsilon:.4g}, {self.delta:g})-differential privacy for {self.neighbours}{with_others}; "
            f"{self.mu:.4g}-GDP in {len(self.releases)} sum{'s' * (len(self.releases) != 1)}"
        )


def _wrong(what: str) -> SettingError:
    return SettingError(Text("{privacy} {what}", what=what), setting="privacy")
