"""What is wrong with a description of a federation: each value with its key, so that an error can name the line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gaussip.errors import FederationError, GaussipError
from gaussip.federation.addresses import split_address
from gaussip.inference.information import check_size
from gaussip.rows.basis import check_keep
from gaussip.rows.checks import check_shrinkage, check_unlabelled_weight
from gaussip.settings import CRITERIA, MIXINGS, WEIGHTINGS
from gaussip.starts.shared import checked

if TYPE_CHECKING:
    from gaussip.federation.description import Description

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")  # a folder, a part of a certificate's name, a key


def faults(d: Description) -> Iterator[tuple[Any, str]]:
    """What is wrong with single values, with the key of each."""
    if not NAME.fullmatch(d.name) or len(d.name) > 40:
        yield "name", f"name {d.name!r} must be letters, digits, - and _, at most 40: it is part of certificates"
    if len(d.sites) < 2:
        yield "sites", f"a federation has at least two sites, not {len(d.sites)}"
    for site, entry in d.sites.items():
        if not NAME.fullmatch(site) or len(site) + len(d.name) > 60:
            yield ("sites", site), f"site name {site!r} must be letters, digits, - and _: it names a folder"
        if entry.address is not None:
            try:
                split_address(entry.address)
            except FederationError as error:
                yield ("sites", site, "address"), str(error)
    if not isinstance(d.network, str):
        for one, other in d.network:
            for site in (one, other):
                if site not in d.sites:
                    yield "network", f"the network names a site {site!r} that is not among the sites"
    if not d.features or len(set(d.features)) < len(d.features):
        yield "features", "features must be at least one column, each named once"
    if d.choice is not None:
        if not 1 <= d.choice.at_least <= d.choice.at_most:
            yield "components", f"there is no number from at_least={d.choice.at_least} to at_most={d.choice.at_most}"
        if d.choice.criterion not in CRITERIA:
            yield "components", f"criterion must be one of {', '.join(CRITERIA)}, not {d.choice.criterion!r}"
        if d.start not in ("kmeans", "search"):
            yield "start", "where the number of components is chosen, so is the start: leave start out"
    if (d.searches and len(d.names) < 3) or (d.intervals != "none" and len(d.sites) < 3):
        key = "intervals" if not d.searches else "start" if d.choice is None else "components"
        yield key, "sums need at least three sites: of two, each could take its own part away and learn the other's"
    if d.intervals == "plain" and d.unlabelled_weight != 1:
        yield "intervals", 'rows that count in part have robust standard errors: write intervals = "robust"'
    if d.weighting == "equal" and (d.intervals != "none" or d.choice is not None):
        key = "intervals" if d.choice is None else "components"
        yield key, "criteria and standard errors are of all rows: they need weighting = 'rows'"
    if d.shrinkage and d.choice is not None:
        yield (
            "components",
            "criteria count parameters, of which shrinkage takes a part: choose without, fit with it",
        )
    limits = {
        "most": (1, 1000), "max_rounds": (1, 10**12), "min_count": (1, 10**9), "fsync_every": (1, 10_000),
        "checkpoint_every": (1, 10**12), "seed": (0, 2**32 - 1),
    }  # fmt: skip
    for key, (least, most) in limits.items():
        if not least <= getattr(d, key) <= most:
            which = f"at least {least}" if getattr(d, key) < least else f"at most {most}"
            name = "components" if key == "most" else key
            yield name, f"{name} must be {which}, not {getattr(d, key)}"
    for key in ("tol", "reg_covar"):
        if not 0 <= getattr(d, key) < float("inf"):
            yield key, f"{key} must be a number of at least 0"
    for key, choices in (("mixing", MIXINGS), ("weighting", WEIGHTINGS), ("intervals", ("none", "plain", "robust"))):
        if getattr(d, key) not in choices:
            yield key, f"{key} must be one of {', '.join(choices)}, not {getattr(d, key)!r}"
    if isinstance(d.start, str) and d.start not in ("kmeans", "labels", "search"):
        yield (
            "start",
            f"start must be kmeans, labels, search, or a table with weights, means and covariances, not {d.start!r}",
        )
    for key in ("labels", "weights"):
        if getattr(d, key) in d.features:
            yield key, f"column {getattr(d, key)!r} cannot be a feature too"
    addresses = [entry.address for entry in d.sites.values() if entry.address is not None]
    for site, entry in d.sites.items():
        if entry.address is not None and addresses.count(entry.address) > 1:
            yield ("sites", site, "address"), f"two sites have the address {entry.address}"
    if (d.labels is None) != (d.classes is None):
        yield "labels" if d.labels else "classes", "labels (a column) and classes (their names) go together"
    if d.classes is not None and len({type(name) for name in d.classes}) > 1:
        yield "classes", "classes mixes words and numbers; use one kind"
    if d.classes is not None and not 0 < len(set(d.classes)) == len(d.classes) <= d.most:
        yield "classes", f"classes must be different names, at most one for each of the {d.most} components"
    if d.start == "labels" and (d.classes is None or len(d.classes) != d.most):
        yield "start", "a start from labels needs a class for every component"
    for site in d.without:
        if site not in d.sites:
            yield "without", f"there is no site {site!r} to go on without"
    for before in d.going_on_from:
        if not re.fullmatch(r"[0-9a-f]{12}@\d{1,12}", before):
            yield "going_on_from", f"{before!r} is no run and round to go on from"
    checks: dict[str, Callable[[], object]] = {
        "shrinkage": lambda: check_shrinkage(d.shrinkage),
        "unlabelled_weight": lambda: check_unlabelled_weight(d.unlabelled_weight, d.labels is not None),
        "intervals": lambda: check_size(d.most, d.n_features) if d.intervals != "none" else None,
        "reduce": lambda: d.reduce is None or check_keep(d.reduce.keep, len(d.features)),
    }
    for key, check in checks.items():
        try:
            check()
        except GaussipError as error:
            yield key, str(error)
    if d.reduce is not None and d.reduce.at_most < 1:
        yield "reduce", f"at_most must be at least 1, not {d.reduce.at_most}"
    if not isinstance(d.start, str) and d.reduce is not None:
        yield "start", "a start cannot be given in features that are yet to be agreed on: leave start or reduce out"
    elif not isinstance(d.start, str):
        try:
            checked(d.start.theta(), d.most, len(d.features))
        except (GaussipError, ValueError) as error:
            yield "start", str(error).replace("_init", "")
    yield from _unreachable(d)


def _unreachable(d: Description) -> Iterator[tuple[Any, str]]:
    """Pairs of neighbours of whom neither accepts the other's call."""
    try:
        task = d.task()
    except GaussipError:
        return  # said otherwise
    pairs = np.argwhere(np.triu((task.W + task.W.T).toarray(), 1) > 0)
    for one, other in ((task.sites[m], task.sites[q]) for m, q in pairs):
        if d.sites[one].address is None and d.sites[other].address is None:
            yield (
                ("sites", one),
                f"neither {one} nor {other} has an address, so they cannot talk; give one of them one",
            )
