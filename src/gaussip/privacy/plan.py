"""How the budget of a private fit is spent, from numbers that all may know."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import chdtri

from gaussip.errors import DataError
from gaussip.mixture.covariance_types import FULL, LINEAR, n_parameters, named
from gaussip.privacy.clipped import Radius

LOOK = (0.02, 0.02)  # of mu^2: the features one by one, and their products
START = {"labels": 0.05, "kmeans": 0.06, "given": 0.0}
APPROACH = {True: 0.15, False: 0.3}  # of what is left: steps of EM, until the end is near
STEPS = {True: (6, 6), False: (14, 8)}  # of EM, and after them: with labels, and without
FEW, WHOLE = 2, {True: 0.99, False: 0.97}  # the share of a component's rows that is not cut, with few features or not
STEPS_OF_KMEANS = 5
MOST_SOLVED = 600  # parameters, whose information is computed in every step
FAINT = 0.5  # of a component's variance: more noise than that in its moments is refused


class Plan(NamedTuple):
    """The rounds of a private fit, and the mu of each release."""

    look: tuple[float, float]
    start: float
    rounds: tuple[float, ...]  #: the mu of each
    approach: int  #: rounds of EM; the results of later ones are averaged
    solved: bool  #: whether later rounds are Newton's steps, in place of EM's
    radius: Radius
    shares: tuple[float, float, float]  #: of a round's mu^2: counts, sums, squares

    @classmethod
    def of(cls, mu: float, n_components: int, n_features: int, start: str, covariance_type: str) -> Plan:
        """For a budget mu in all; the start is from "labels", by "kmeans", or "given"."""
        labels = start == "labels"
        left = 1 - sum(LOOK) - START[start]
        parameters = n_parameters(FULL, n_components, n_features)
        solved = named(covariance_type) in LINEAR and parameters <= MOST_SOLVED
        approach, last = STEPS[labels] if solved else (10, 30)
        first = math.sqrt(left * APPROACH[labels] / approach) * mu
        later = math.sqrt(left * (1 - APPROACH[labels]) / last) * mu
        looks = (math.sqrt(LOOK[0]) * mu, math.sqrt(LOOK[1]) * mu)
        begin = math.sqrt(START[start]) * mu
        radius = Radius(math.sqrt(chdtri(n_features, 1 - WHOLE[n_features <= FEW])), n_features)
        rounds = (first,) * approach + (later,) * last
        return cls(looks, begin, rounds, approach, solved, radius, _shares(radius))

    @property
    def most_sums(self) -> int:
        """The look, the start, and for each round the sums and the mixture that follows."""
        return len(self.look) + STEPS_OF_KMEANS + 3 + 2 * len(self.rounds)

    def refuse_hopeless(
        self, rows: float, n_components: int, epsilon: float, excess: float, counted: str = "rows"
    ) -> None:
        """Refuse a fit whose noise, with that much more than is accounted for, would drown the components."""
        faint = excess * self.faint(rows / n_components)
        if faint <= FAINT:
            return
        wanted = self.rows_needed(n_components, excess)
        raise DataError(
            f"about {rows:.0f} {counted} at all sites are too few for {n_components} components of "
            f"{self.radius.n_features} features at epsilon={epsilon:g}: the noise of a round would be {faint:.0%} of "
            f"a component's variance, and may be {FAINT:.0%}",
            remedy=f"find some {wanted} {counted}, allow a larger epsilon, or fit fewer features (principal "
            "components) or components",
        )

    def rows_needed(self, n_components: int, excess: float) -> int:
        """The fewest rows, in hundreds, that are not refused."""
        return math.ceil(n_components * excess * self.faint(1.0) / FAINT / 100) * 100

    def faint(self, rows: float) -> float:
        """The noise of a round of EM in the covariance of a component of so many rows: its largest eigenvalue."""
        block = self.radius.blocks(1, self.shares)[2]
        return math.sqrt(2 * self.radius.n_features) * block.deviation(self.rounds[0]) / rows


def _shares(radius: Radius) -> tuple[float, float, float]:
    """Shares of counts, sums and squares: what their noise adds to the variance of the estimate is least in all."""
    p = radius.n_features
    sizes = [1.0, math.sqrt(p) * radius.length, math.sqrt(p / 2 + p * (p - 1) / 4) * radius.of_squares]
    total = sum(sizes)
    return (sizes[0] / total, sizes[1] / total, sizes[2] / total)
