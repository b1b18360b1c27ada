"""The average of all sites' values, by exchanges with neighbours alone: exact but for rounding, after a known number.

The average is p(W) x for any polynomial p with p(1) = 1 that vanishes at W's other eigenvalues, and one product with
W is one exchange. Sites that know the network find p's coefficients themselves. Where the eigenvalues are few (a
ring of M sites has M/2 others, a complete network one) p has just these roots; where they are many, Chebyshev's
polynomial is as good as zero on all of them sooner, or with less rounding.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gaussip.arrays import NDArray
from gaussip.errors import NetworkError
from gaussip.exchange import Stacked
from gaussip.networks import stationary_weights

SAME = 1e-8  # eigenvalues nearer to each other than this are one
EXACT = (1e-12, 1e-10)  # how far p(W) may be from the average, and may be where no other does better


class Plan(NamedTuple):
    """How a network averages: after exchange j, y = a_j W y + b_j y + c_j (y before the last exchange)."""

    steps: NDArray  #: (J, 3), the coefficients (a, b, c)
    balance: NDArray  #: (M,), what each site's value is divided by first: M times its stationary weight


class Mixed(NamedTuple):
    """A site's vector on the way to the average."""

    y: NDArray
    before: NDArray
    stage: int  #: exchanges so far


def plan_of(W: Any) -> Plan:
    """The plan of fewest exchanges that averages exactly."""
    dense = sparse.csr_array(W).toarray()
    M = len(dense)
    if M == 1:
        return Plan(np.array([[1.0, 0.0, 0.0]]), np.ones(1))
    eigenvalues = np.linalg.eigvals(dense)
    others = np.delete(eigenvalues, np.abs(eigenvalues - 1).argmin())
    balance = M * stationary_weights(W)
    roots = [complex(value.real, 0.0 if abs(value.imag) < SAME else value.imag) for value in others.tolist()]
    upper = [root for root in roots if root.imag >= 0]  # of conjugate pairs
    plans = [Plan(_vanishing(_distinct(upper)), balance), Plan(_vanishing(upper), balance)]
    if np.abs(others.imag).max() < SAME:
        plans.append(Plan(_chebyshev(others.real.min(), others.real.max()), balance))
    judged = sorted(((len(plan.steps), _error(plan, dense), plan) for plan in plans), key=lambda entry: entry[:2])
    for allowed in EXACT:
        for _, error, plan in judged:
            if error <= allowed:
                return plan
    raise NetworkError(
        f"averages over this network of {M} sites would not be exact: its links are too one-sided, or too few for so "
        "many sites. Use a two-way network with more links, such as random-regular(4)"
    )


def begin(values: NDArray, plan: Plan, index: int) -> Mixed:
    """A site's vector before the first exchange."""
    y = values / plan.balance[index]
    return Mixed(y, y, 0)


def after(state: Mixed, heard: NDArray, plan: Plan) -> Mixed:
    """After one exchange of y, of which ``heard`` is the neighbourhood's average."""
    a, b, c = plan.steps[state.stage]
    return Mixed(a * heard + b * state.y + c * state.before, state.y, state.stage + 1)


def _error(plan: Plan, W: NDArray) -> float:
    """How far the plan is from the average, each site's unit of value taken by itself."""
    y = before = np.diag(1 / plan.balance)
    for a, b, c in plan.steps:
        y, before = a * (W @ y) + b * y + c * before, y
    error = float(np.abs(len(W) * y - 1).max())
    return error if math.isfinite(error) else math.inf


def _distinct(roots: list[complex]) -> list[complex]:
    """Each once: enough where W is like a symmetric matrix."""
    distinct: list[complex] = []
    for root in roots:
        if all(abs(root - other) > SAME for other in distinct):
            distinct.append(root)
    return distinct


def _vanishing(roots: list[complex]) -> NDArray:
    """Steps of the polynomial with these roots, far ones by turns (Leja's order), which keeps rounding small."""
    left, ordered = list(roots), list[complex]()

    def apart(root: complex) -> float:
        if not ordered:
            return abs(root)
        return sum(math.log(abs((root - other) / (1 - other)) + 1e-300) for other in ordered)

    while left:
        far = max(left, key=apart)
        left.remove(far)
        ordered.append(far)
    steps = []
    for root in ordered:
        size = abs(1 - root) ** 2
        if root.imag == 0:
            steps.append((1 / (1 - root.real), -root.real / (1 - root.real), 0.0))
        else:
            steps += [(1.0, 0.0, 0.0), (1 / size, -2 * root.real / size, abs(root) ** 2 / size)]
    return np.array(steps).reshape(-1, 3)


def _chebyshev(low: float, high: float) -> NDArray:
    """Steps of Chebyshev's polynomial on [low, high], enough that it is below the rounding of one."""
    centre, half = (high + low) / 2, max((high - low) / 2, 1e-12)
    growth = [1.0, (1 - centre) / half]
    steps = [(1 / (1 - centre), -centre / (1 - centre), 0.0)]
    while growth[-1] < 1e16 and len(steps) < 10_000:
        growth.append(2 * growth[1] * growth[-1] - growth[-2])
        ratio = 2 * growth[-2] / growth[-1]
        steps.append((ratio / half, -ratio * centre / half, -growth[-3] / growth[-1]))
    return np.array(steps)


def average(values: NDArray, W: Any) -> NDArray:
    """What each site ends with, all sites in this process: (M, size) to (M, size)."""
    plan, exchange = plan_of(W), Stacked(W)
    states = [begin(one, plan, m) for m, one in enumerate(values)]
    for _ in plan.steps:
        heard = exchange({"mean": np.stack([state.y for state in states])})["mean"]
        states = [after(state, heard[m], plan) for m, state in enumerate(states)]
    return np.stack([state.y for state in states])
