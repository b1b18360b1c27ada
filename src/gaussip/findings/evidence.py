"""What is known of a run without its rows: its history, the estimates it ended with, its settings and its network."""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from gaussip import algorithms
from gaussip.algorithms import Algorithm
from gaussip.arrays import NDArray
from gaussip.mixture.covariance_types import n_parameters
from gaussip.mixture.owners import component_names
from gaussip.mixture.theta import Theta, overall
from gaussip.networks import is_two_way, mixing_weights
from gaussip.networks.named import parse
from gaussip.rows.problem import seeds_of
from gaussip.settings import default
from gaussip.simulation.history import WHOLE_SAMPLE

PYTHON, FILE, SITE = "an estimator", "a model file", "a site's folder"  # where evidence comes from


class Evidence(NamedTuple):
    """One run; arrays over what was kept of its rounds."""

    source: str  #: PYTHON, FILE or SITE
    path: str  #: of the file or folder
    settings: dict[str, Any]  #: the estimator's, or the federation's
    algorithm: str  #: the one that ran: EM where there is one site only
    rounds: int  #: so far; exact's last may be part of a step, which is not in the arrays
    round: NDArray
    passes: NDArray  #: over the rows so far: some algorithms take several rounds for one
    log_likelihood: NDArray  #: mean per row, of all sites or of the one
    change: NDArray  #: the largest move anywhere, divided by eta
    disagreement: NDArray
    eta: float  #: the step in force at the end
    restarts: int  #: how often all sites went back
    converged: bool
    over: bool  #: False while sites still run
    failure: str  #: how a run ended that did not end well
    theta: Theta | None  #: consensus, or the site's own; None where nothing was kept
    sites: Theta | None  #: each site's estimate, (M, K, ...); None where only one site's is known
    names: list[Any]  #: (M,) of the sites
    by_site: bool  #: False where no sites were given
    classes: list[Any]
    class_of_component: NDArray  #: (K,), its place among the classes; -1 where it is of none
    features: list[str]  #: (p,) names; empty where they have none
    mass: NDArray  #: (M,), rows by weight
    W: sparse.csr_array | None  #: None where the network was drawn at random and cannot be drawn again

    @property
    def kind(self) -> Algorithm:
        """What the algorithm declares of itself."""
        accelerate = bool(self.settings.get("accelerate", default("accelerate")))
        return algorithms.make(self.algorithm, 1.0, accelerate, covariance_type=self._covariance_type)

    @property
    def _covariance_type(self) -> str:
        return str(self.settings.get("covariance_type", default("covariance_type")))

    @property
    def private(self) -> bool:
        """Whether noise was added, and the rounds were planned."""
        return self.settings.get("privacy") is not None

    @property
    def tol(self) -> float:
        """The change at which the run was to stop."""
        return float(self.settings["tol"])

    @property
    def floor(self) -> NDArray:
        """What reg_covar adds to the variance of each feature, (p,): sites that scale add it to scaled features."""
        assert self.theta is not None
        variances = np.diagonal(overall(self.theta)[1])
        scaled = bool(self.settings.get("scale"))
        share = 1 - float(self.settings["shrinkage"])
        return share * float(self.settings["reg_covar"]) * (variances if scaled else np.ones_like(variances))

    @property
    def sampling_error(self) -> float:
        """How uncertain q numbers estimated from N rows are, about: (q / N)^(1/2), in standard units."""
        assert self.theta is not None
        return float(np.sqrt(n_parameters(self._covariance_type, *self.theta.means.shape) / self.mass.sum()))

    @property
    def two_way(self) -> bool:
        """Whether whoever is heard also hears, so that exact runs on this network."""
        return self.W is not None and is_two_way(self.W)

    def feature(self, j: int) -> str:
        """A feature as people see it."""
        return self.features[j] if self.features else f"feature {j}"

    def named(self, k: int) -> str:
        """A component as people see it."""
        name = component_names(self.classes, self.class_of_component)[k]
        return repr(name) if self.class_of_component[k] >= 0 else name

    def components(self, number: int) -> int:
        """How many components a class has."""
        return int((self.class_of_component == number).sum())


def of_estimator(mixture: Any, *, network: bool = True) -> Evidence:
    """The evidence of a fitted estimator, with its network or without."""
    check_is_fitted(mixture)
    history, names = mixture.history_, mixture.sites_.tolist()
    alone = len(names) == 1
    return Evidence(
        source=PYTHON, path="", settings=mixture.get_params(deep=False),
        algorithm="em" if alone else mixture.algorithm,
        rounds=int(mixture.n_rounds_), round=np.asarray(history["round"]),
        passes=np.arange(1, len(history["round"]) + 1),
        log_likelihood=np.asarray(history["log_likelihood"], dtype=float),
        change=np.asarray(history["change"], dtype=float),
        disagreement=np.asarray(history["disagreement"], dtype=float),
        eta=float(history["step"][-1]), restarts=int(history["restarts"][-1]),
        converged=bool(mixture.converged_), over=True, failure="",
        theta=mixture._theta(), sites=Theta(mixture.site_weights_, mixture.site_means_, mixture.site_covariances_),
        names=names, by_site=mixture.origin_ != WHOLE_SAMPLE,
        classes=mixture.classes_.tolist(), class_of_component=mixture.class_of_component_,
        features=[str(name) for name in getattr(mixture, "feature_names_in_", ())],
        mass=np.asarray(mixture.site_mass_),
        W=None if alone or not network else _network(mixture.network, names, mixture.mixing, mixture.random_state),
    )  # fmt: skip


def _network(network: Any, names: list[Any], mixing: str, random_state: Any) -> sparse.csr_array | None:
    """W, unless it was drawn at random from a seed that is not kept."""
    drawn = isinstance(network, str) and parse(network)[0].random
    if drawn and not isinstance(random_state, Integral):
        return None
    return mixing_weights(network, names, mixing, seeds_of(random_state, 1)[0] if drawn else 0)
