"""The description of a federation: one TOML that all sites have, and agree on before the first round."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import networkx as nx
import numpy as np

from gaussip.errors import FederationError, GaussipError
from gaussip.fitting import seeds_of
from gaussip.networks import MIXINGS
from gaussip.parameters import Theta
from gaussip.preprocessing.agreement import Reduction
from gaussip.preprocessing.transformers import check_keep
from gaussip.simulation import WEIGHTINGS
from gaussip.site.task import Task, make_task
from gaussip.source import Path as Where
from gaussip.source import Source
from gaussip.start import MIN_COUNT, checked
from gaussip.validation import check_shrinkage, check_unlabelled_weight

LATER = {
    "reduce": None,
    "shrinkage": 0.0,
    "unlabelled_weight": 1.0,
}  # where they change nothing, digests are as before
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")  # a folder, a part of a certificate's name, a key


class SiteEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One site."""

    address: str | None = None  #: host:port where the others reach it; None: it only calls others


class Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Starting values."""

    weights: list[float]
    means: list[list[float]]
    covariances: list[list[list[float]]]


class Reduce(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Principal components in place of the features."""

    keep: int | float  #: how many, or the share of the variance that they are to exceed
    standardise: bool = False  #: whether features are first divided by their standard deviations
    at_most: int = 100  #: components, where keep is a share


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a TOML of a federation says; the order of keys and sites does not matter."""

    name: str
    sites: dict[str, SiteEntry]
    components: int
    features: list[str]
    algorithm: str = "exact"
    network: str | list[tuple[str, str]] = "ring"  #: a name, or pairs of sites that hear each other
    mixing: str = "row"
    eta: float = 0.01
    start: str | Given = "kmeans"
    seed: int = 0
    scale: bool = False
    reduce: Reduce | None = None
    labels: str | None = None  #: column
    classes: list[str | int] | None = None
    weights: str | None = None  #: column
    max_rounds: int = 1000
    tol: float = 1e-6
    reg_covar: float = 1e-6
    shrinkage: float = 0.0
    unlabelled_weight: float = 1.0
    weighting: str = "rows"
    min_count: int = MIN_COUNT
    fsync_every: int = 32
    checkpoint_every: int = 500
    without: list[str] = []  #: sites that the others went on without
    going_on_from: list[str] = []  #: the runs before, each as its digest and checkpoint

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that take part, sorted."""
        return tuple(sorted(set(self.sites) - set(self.without)))

    def digest(self) -> str:
        """What sites compare: everything but where they are reached."""
        values = msgspec.to_builtins(self)
        values["sites"] = sorted(self.sites)
        for key, unused in LATER.items():
            if values[key] == unused:
                del values[key]
        values["classes"] = None if self.classes is None else sorted(self.classes, key=str)
        return hashlib.sha256(msgspec.json.encode(values, order="deterministic")).hexdigest()

    def task(self) -> Task:
        """The task of every site."""
        network_seed, start_seed = seeds_of(self.seed, 1)
        network: Any = self.network
        if not isinstance(self.network, str):
            network = nx.Graph(pair for pair in self.network if set(pair) <= set(self.names))
            network.add_nodes_from(self.names)
        return make_task(
            self.names, network=network, mixing=self.mixing, network_seed=network_seed, algorithm=self.algorithm,
            eta=self.eta, n_components=self.components, n_features=len(self.features),
            labelled=self.labels is not None, start=_start(self.start), seed=start_seed, scale=self.scale,
            reg_covar=self.reg_covar, weighting=self.weighting, max_rounds=self.max_rounds, tol=self.tol,
            min_count=self.min_count, shrinkage=self.shrinkage, unlabelled_weight=self.unlabelled_weight,
            reduction=self._reduction(),
        )  # fmt: skip

    def _reduction(self) -> Reduction | None:
        if self.reduce is None:
            return None
        keep = check_keep(self.reduce.keep, len(self.features))
        most = keep if isinstance(keep, int) else min(self.reduce.at_most, len(self.features))
        return Reduction(keep, self.reduce.standardise, most)

    def common_name(self, site: str) -> str:
        """The name in a site's certificate."""
        return f"{site}.{self.name}"

    def host(self, site: str) -> str | None:
        """Where a site is reached; None where it cannot be."""
        address = self.sites[site].address
        return None if address is None else split_address(address)[0]


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``, with an IPv6 address in brackets."""
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]+([.-][A-Za-z0-9-]+)*):(\d{1,5})", address)
    try:
        if found is None or not 0 < int(found[3]) < 65536:
            raise ValueError
        if found[1].startswith("["):
            ipaddress.IPv6Address(found[1].strip("[]"))
    except ValueError:
        raise FederationError(
            f"address {address!r} is not host:port, for instance hospital.example.org:7447"
        ) from None
    return found[1].strip("[]"), int(found[3])


def load(path: Path) -> Description:
    """The description in a file, checked."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FederationError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return of_text(text, str(path))


def of_text(text: str, name: str = "federation.toml") -> Description:
    """The description in a text, checked; errors name the line."""
    source = Source(text, name, FederationError)
    sites = source.values.get("sites")
    for site, entry in sites.items() if isinstance(sites, dict) else ():
        source.converted(entry, SiteEntry, ("sites", site))
    if isinstance(source.values.get("reduce"), dict):
        source.converted(source.values["reduce"], Reduce, ("reduce",))
    found: Description = source.converted(source.values, Description)
    for key in ("without", "going_on_from"):
        if key in source.values:
            raise source.error(f"{key} is not for a description: gaussip site go-on keeps it", (key,))
    refuse_faults(found, source.error)
    return found


def refuse_faults(
    description: Description, error: Callable[[str, Where], GaussipError] = lambda text, _: FederationError(text)
) -> None:
    """Refuse a description with which sites cannot work; ``error`` makes the error for a key."""
    for key, fault in _faults(description):
        raise error(fault, (key,) if isinstance(key, str) else key)
    try:
        description.task()
    except GaussipError as problem:
        text = str(problem)
        key = next((key for key in ("algorithm", "eta", "network", "mixing") if key in text), "network")
        raise error(text, (key,)) from problem


def _faults(d: Description) -> Any:
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
    limits = {
        "components": (1, 1000), "max_rounds": (1, 10**12), "min_count": (1, 10**9), "fsync_every": (1, 10_000),
        "checkpoint_every": (1, 10**12), "seed": (0, 2**32 - 1),
    }  # fmt: skip
    for key, (least, most) in limits.items():
        if not least <= getattr(d, key) <= most:
            which = f"at least {least}" if getattr(d, key) < least else f"at most {most}"
            yield key, f"{key} must be {which}, not {getattr(d, key)}"
    for key in ("tol", "reg_covar"):
        if not 0 <= getattr(d, key) < float("inf"):
            yield key, f"{key} must be a number of at least 0"
    for key, choices in (("mixing", MIXINGS), ("weighting", WEIGHTINGS)):
        if getattr(d, key) not in choices:
            yield key, f"{key} must be one of {', '.join(choices)}, not {getattr(d, key)!r}"
    if isinstance(d.start, str) and d.start not in ("kmeans", "labels"):
        yield (
            "start",
            f"start must be kmeans, labels, or a table with weights, means and covariances, not {d.start!r}",
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
    if d.classes is not None and not 0 < len(set(d.classes)) == len(d.classes) <= d.components:
        yield "classes", f"classes must be different names, at most one for each of the {d.components} components"
    if d.start == "labels" and (d.classes is None or len(d.classes) != d.components):
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
        "reduce": lambda: d.reduce is None or check_keep(d.reduce.keep, len(d.features)),
    }
    for key, check in checks.items():
        try:
            check()
        except GaussipError as error:
            yield key, str(error)
    if d.reduce is not None and d.reduce.at_most < 1:
        yield "reduce", f"at_most must be at least 1, not {d.reduce.at_most}"
    if isinstance(d.start, Given) and d.reduce is not None:
        yield "start", "a start cannot be given in features that are yet to be agreed on: leave start or reduce out"
    elif isinstance(d.start, Given):
        try:
            checked(_theta(d.start), d.components, len(d.features))
        except (GaussipError, ValueError) as error:
            yield "start", str(error).replace("_init", "")
    yield from _unreachable(d)


def _unreachable(d: Description) -> Any:
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


def _theta(given: Given) -> Theta:
    return Theta(*(np.asarray(part, dtype=float) for part in (given.weights, given.means, given.covariances)))


def _start(start: str | Given) -> str | Theta:
    return start if isinstance(start, str) else _theta(start)
