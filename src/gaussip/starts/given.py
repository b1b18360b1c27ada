"""Starting values as a user asks for them: found by k-means, from labels or by a search, or given."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import StartError, Text
from gaussip.exchange.questions import Replicated, answered
from gaussip.mixture.covariance_types import FULL
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta, reorder
from gaussip.rows.checks import check_mean_weight
from gaussip.rows.held import Held
from gaussip.rows.problem import Problem
from gaussip.settings import check
from gaussip.starts.agreed import Wish, ask_start, confirmed
from gaussip.starts.facts import Facts, ask_classes, ask_facts, refuse_few_labelled
from gaussip.starts.mixtures import checked, order_by, order_of
from gaussip.starts.search import over

Count = Callable[[int], None]  # called with the words of each sum


class Given(NamedTuple):
    """Starting values a user gives; None where they are to be found."""

    weights: Any = None
    means: Any = None
    covariances: Any = None


class Regularised(NamedTuple):
    """How a fit restricts covariances, and the fewest rows whose sums may be known."""

    reg_covar: float
    shrinkage: float
    min_count: int
    covariance_type: str = FULL


def starts(
    problem: Problem,
    n_components: int,
    init_params: str,
    seeds: Sequence[int],
    given: Given,
    regularised: Regularised,
    count: Count = lambda words: None,
    features: Sequence[str] | None = None,
) -> list[Theta]:
    """Starting values: one per seed from k-means or a search, one from labels, with what is given in their place."""
    check(init_params=init_params)
    try:
        given = Given(*(None if part is None else np.asarray(part, dtype=float) for part in given))
    except (TypeError, ValueError) as error:
        text = Text("{weights_init}, {means_init} and {covariances_init} must be arrays of numbers: {e}", e=error)
        raise StartError(text, setting="means_init") from error
    if all(part is not None for part in given):
        thetas = [Theta(*given)]
    else:
        names = problem.classes.tolist()
        thetas = found(problem.held, n_components, init_params, seeds, regularised, count, names, features)
        if given.means is not None and given.means.shape == thetas[0].means.shape:
            numbers = np.arange(n_components)
            thetas = [reorder(theta, order_by(theta, given.means, numbers)) for theta in thetas]
    merged = (
        Theta(*(part if wanted is None else wanted for part, wanted in zip(theta, given, strict=True)))
        for theta in thetas
    )
    return [checked(theta, n_components, problem.values[0].shape[1]) for theta in merged]


def found(
    held: Held,
    n_components: int,
    init_params: str,
    seeds: Sequence[int],
    regularised: Regularised,
    count: Count = lambda words: None,
    classes: Sequence[Any] = (),
    features: Sequence[str] | None = None,
) -> list[Theta]:
    """Starts that the sites find together, all in this process; ``classes`` and ``features`` are names."""
    regularised = regularised._replace(min_count=held.least(regularised.min_count))

    def all_starts() -> Replicated[list[Theta]]:
        facts = yield from _asked(held, regularised.min_count, classes, features)
        if init_params == "search":
            return (yield from _searched(facts, n_components, seeds, regularised, held.owners, classes))
        thetas = []
        for seed in seeds[:1] if init_params == "labels" else seeds:
            wish = Wish(init_params, n_components, seed, regularised.min_count, held.owners, tuple(classes))
            thetas.append((yield from ask_start(facts, wish)))
        return thetas

    if init_params == "search":
        check_mean_weight(held.weights)
    return answered(all_starts(), held, held.n_sites, count)


def _asked(
    held: Held, min_count: int, classes: Sequence[Any], features: Sequence[str] | None = None
) -> Replicated[Facts]:
    facts = yield from ask_facts(held.values[0].shape[1], held.n_classes, min_count=min_count, names=features)
    refuse_few_labelled(facts, min_count, classes)
    return facts


def _searched(
    facts: Facts,
    n_components: int,
    seeds: Sequence[int],
    regularised: Regularised,
    owners: Owners | None,
    classes: Sequence[Any],
) -> Replicated[list[Theta]]:
    """The best of many starts, for each seed."""
    reg, numbers, thetas = regularised.reg_covar / facts.spread**2, range(n_components, n_components + 1), []
    for seed in seeds:
        best = yield from over(
            numbers, facts, seed, reg, regularised.min_count, regularised.shrinkage, owners,
            regularised.covariance_type, classes,
        )  # fmt: skip
        thetas.append((yield from confirmed(best.mixtures[0].theta, facts.unit)))
    return thetas


def class_order(held: Held, theta: Theta, min_count: int, classes: Sequence[Any]) -> NDArray:
    """The order of components in which component k lies nearest to labelled class k."""

    def ordered() -> Replicated[NDArray]:
        fewest = held.least(min_count)
        facts = yield from _asked(held, fewest, classes)
        return order_of(facts.unit.standard_theta(theta), (yield from ask_classes(facts, fewest)))

    return answered(ordered(), held, held.n_sites)
