"""The start that all sites agree on, by sums."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gaussip.errors import DisagreementError, StartError, Text
from gaussip.exchange.questions import Replicated, broadcast
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta, pack, reorder, unpack
from gaussip.mixture.units import Unit
from gaussip.starts.facts import Facts, ask_classes
from gaussip.starts.lloyd import ask_groups
from gaussip.starts.mixtures import from_classes, from_groups, order_of
from gaussip.starts.within import Shared, ask_within

NEAR = 1e-6  # in standard units: how far the first site's start may be from one's own


class Wish(NamedTuple):
    """What start is asked for."""

    kind: str  #: "kmeans" or "labels"
    n_components: int
    seed: int
    min_count: int  #: the fewest rows whose sums may be known
    owners: Owners | None = None  #: the components of each class; None where there are no labels
    names: tuple[Any, ...] = ()  #: of the classes, for messages


def ask_start(facts: Facts, wish: Wish) -> Replicated[Theta]:
    """From labels, or by k-means with components matched to classes."""
    labelled = bool(facts.class_counts.any())
    if wish.kind == "labels" and not labelled:
        raise StartError(
            Text("a start from labels needs labels: give {y}, or use {init_params:'kmeans'}"), setting="init_params"
        )
    if labelled and wish.owners is not None and not wish.owners.single:
        shared = Shared(wish.owners, wish.n_components, wish.names)
        classes = yield from ask_classes(facts, wish.min_count)
        theta = yield from ask_within(facts, classes, shared, wish.seed, wish.min_count)
    elif wish.kind == "labels":
        theta = from_classes((yield from ask_classes(facts, wish.min_count)), wish.n_components)
    else:
        (groups,) = yield from ask_groups(facts, wish.n_components, wish.seed, wish.min_count)
        theta = from_groups(groups)
        if labelled:
            theta = reorder(theta, order_of(theta, (yield from ask_classes(facts, wish.min_count))))
    return (yield from confirmed(theta, facts.unit))


def confirmed(theta: Theta, unit: Unit) -> Replicated[Theta]:
    """The first site's mixture, to the last bit, in the data's units; every site sees that it is its own, nearly.

    Sites on other machines may have rounded otherwise.
    """
    mine = pack(unit.original_theta(theta))
    total = (yield broadcast(mine)).reshape(mine.shape)
    agreed = unpack(total)
    if not np.abs(pack(unit.standard_theta(agreed)) - pack(theta)).max() <= NEAR:
        raise DisagreementError(
            "the first site sent another start than this site finds from the same sums: start over at all sites, "
            "with one version of gaussip and NumPy"
        )
    return agreed
