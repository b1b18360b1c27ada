"""The description of a federation: one TOML that all sites have, and agree on before the first round."""

import hashlib
from typing import Any

import msgspec
import networkx as nx
import numpy as np

from gaussip.algorithms import REGISTRY
from gaussip.algorithms.base import NEIGHBOURS
from gaussip.federation.addresses import split_address
from gaussip.mixture.owners import Owners
from gaussip.mixture.theta import Theta
from gaussip.phases.task import Reduction, Task, make_task
from gaussip.privacy import Privacy
from gaussip.rows.basis import check_keep
from gaussip.rows.labels import owners_of
from gaussip.rows.missing_codes import Codes
from gaussip.rows.problem import seeds_of
from gaussip.settings import default


class SiteEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One site."""

    address: str | None = None  #: host:port where the others reach it; None: it only calls others
    lacks: list[str] = []  #: features that its table has no column for


class Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Starting values."""

    weights: list[float]
    means: list[list[float]]
    covariances: list[list[list[float]]]

    def theta(self) -> Theta:
        """As a mixture; raises ValueError where rows have different lengths."""
        return Theta(*(np.asarray(part, dtype=float) for part in (self.weights, self.means, self.covariances)))


class Reduce(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Principal components in place of the features."""

    keep: int | float  #: how many, or the share of the variance that they are to exceed
    standardise: bool = False  #: whether features are first divided by their standard deviations
    at_most: int = 100  #: components, where keep is a share


class Components(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number of components that the sites are to choose."""

    at_most: int
    at_least: int = default("at_least")
    criterion: str = default("criterion")


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a TOML of a federation says; the order of keys and sites does not matter."""

    name: str
    sites: dict[str, SiteEntry]
    components: int | Components
    features: list[str]
    na_values: list[Any] | dict[str, list[Any]] = []  #: codes for missing cells, in all features or by feature
    algorithm: str = default("algorithm")
    network: str | list[tuple[str, str]] = default("network")  #: a name, or pairs of sites that hear each other
    mixing: str = default("mixing")
    eta: float = default("eta")
    accelerate: bool = default("accelerate")
    hide: bool = default("hide")  #: whether the sites mask their parts of sums
    reveals: str = default("reveals")  #: what others may know of a site
    start: str | Given = default("init_params")
    seed: int = default("random_state")
    scale: bool = False
    reduce: Reduce | None = None
    labels: str | None = None  #: column
    classes: list[str | int] | None = None
    components_per_class: int | dict[str, int] = default("components_per_class")
    covariance_type: str = default("covariance_type")
    weights: str | None = None  #: column
    max_rounds: int = default("max_rounds")
    tol: float = default("tol")
    reg_covar: float = default("reg_covar")
    shrinkage: float = default("shrinkage")
    degenerate: str = default("degenerate")  #: "refuse" or "keep" a fit with such a component
    unlabelled_weight: float = default("unlabelled_weight")
    weighting: str = default("weighting")
    intervals: str = default("intervals")  #: "plain" or "robust": standard errors, once the fit has converged
    min_count: int = default("min_count")
    privacy: dict[str, Any] | None = default("privacy")  #: epsilon, delta, bounds, colluding, patient, noise_seed
    fsync_every: int = default("fsync_every")
    checkpoint_every: int | None = default("checkpoint_every")
    without: list[str] = []  #: sites that the others went on without
    going_on_from: list[str] = []  #: the runs before, each as its digest and checkpoint

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that take part, sorted."""
        return tuple(sorted(set(self.sites) - set(self.without)))

    @property
    def most(self) -> int:
        """The largest number of components that there may be."""
        return self.components.at_most if isinstance(self.components, Components) else self.components

    @property
    def n_features(self) -> int:
        """The largest number of features of a fit."""
        reduction = self._reduction()
        return len(self.features) if reduction is None else reduction.most

    @property
    def choice(self) -> Components | None:
        """How the number of components is chosen; None where it is given."""
        return self.components if isinstance(self.components, Components) else None

    @property
    def searches(self) -> bool:
        """Whether the sites first search for the best start."""
        goes_on = bool(self.going_on_from) and not self.going_on_from[-1].endswith("@0")
        return not goes_on and (self.start == "search" or self.choice is not None)

    def digest(self) -> str:
        """What sites compare: everything but where they are reached."""
        values = msgspec.to_builtins(self)
        values["sites"] = sorted(self.sites)
        lacks = {name: sorted(entry.lacks) for name, entry in self.sites.items() if entry.lacks}
        values |= {"lacks": lacks} if lacks else {}
        values["classes"] = None if self.classes is None else sorted(self.classes, key=str)
        return hashlib.sha256(msgspec.json.encode(values, order="deterministic")).hexdigest()

    def task(self) -> Task:
        """The task of every site."""
        network_seed, start_seed = seeds_of(self.seed, 1)
        network: Any = self.network
        owners = self.owners()
        owned = 0 if owners is None else owners.owned
        start = self.start if isinstance(self.start, str) else self.start.theta()
        if not isinstance(self.network, str):
            network = nx.Graph(pair for pair in self.network if set(pair) <= set(self.names))
            network.add_nodes_from(self.names)
        return make_task(
            self.names, network=network, mixing=self.mixing, network_seed=network_seed, algorithm=self.algorithm,
            eta=self.eta, accelerate=self.accelerate, covariance_type=self.covariance_type,
            n_components=self.most, n_features=len(self.features),
            owners=owners, start="search" if self.searches else start,
            seed=start_seed, scale=self.scale,
            reg_covar=self.reg_covar, weighting=self.weighting, max_rounds=self.max_rounds, tol=self.tol,
            min_count=self.min_count, shrinkage=self.shrinkage, unlabelled_weight=self.unlabelled_weight,
            reduction=self._reduction(), degenerate=self.degenerate,
            at_least=None if self.choice is None else max(self.choice.at_least, owned),
            criterion=default("criterion") if self.choice is None else self.choice.criterion,
            intervals=self.intervals, classes=tuple(map(str, sorted(self.classes or []))), hide=self.hide,
            reveals=self.reveals, features=tuple(self.features),
            privacy=None if self.privacy is None else Privacy.of(self.privacy),
        )  # fmt: skip

    def owners(self) -> Owners | None:
        """The components of each class; None where there are no labels."""
        if self.labels is None or self.classes is None:
            return None
        given = self.components_per_class
        if isinstance(given, int):
            return owners_of(sorted(self.classes), self.most, given)
        each = {name: given[str(name)] for name in self.classes if str(name) in given}
        return owners_of(sorted(self.classes), self.most, each)

    @property
    def checkpoints_every(self) -> int:
        """Rounds between checkpoints: a round of sums is worth many of gossip."""
        if self.checkpoint_every is not None:
            return self.checkpoint_every
        return 500 if self.gossips else 10

    @property
    def gossips(self) -> bool:
        """Whether neighbours see what a site computes from its own rows."""
        kind = REGISTRY.get(self.algorithm)
        return kind is not None and kind.source == NEIGHBOURS

    def _reduction(self) -> Reduction | None:
        if self.reduce is None:
            return None
        keep = check_keep(self.reduce.keep, len(self.features))
        most = keep if isinstance(keep, int) else min(self.reduce.at_most, len(self.features))
        return Reduction(keep, self.reduce.standardise, most)

    @property
    def codes(self) -> Codes:
        """The codes for missing cells."""
        return Codes.of_description(self.na_values)

    def common_name(self, site: str) -> str:
        """The name in a site's certificate."""
        return f"{site}.{self.name}"

    def host(self, site: str) -> str | None:
        """Where a site is reached; None where it cannot be."""
        address = self.sites[site].address
        return None if address is None else split_address(address)[0]
