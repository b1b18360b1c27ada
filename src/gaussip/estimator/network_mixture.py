"""The scikit-learn style estimator."""

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from gaussip import algorithms
from gaussip.algorithms.base import refuse_unpooled_sums
from gaussip.arrays import NDArray, to_device, to_numpy
from gaussip.errors import CollapseError, DataError, DiagnosisWarning, SettingError, StartError, Text
from gaussip.estimator import model_file
from gaussip.estimator.fitted import FittedMixture
from gaussip.estimator.progress import logging_progress
from gaussip.estimator.spending import Spending
from gaussip.findings.at_fit import certain, rounds_needed, swings
from gaussip.mixture.degenerate import refuse_degenerate
from gaussip.mixture.theta import Theta, consensus, pack, place, reorder
from gaussip.rows.checks import column_name, feature_names
from gaussip.rows.labels import check_components_per_class
from gaussip.rows.moments import Shrinkage, shrinkage_of
from gaussip.rows.problem import Problem, prepare, seeds_of
from gaussip.rows.streaming import by_name, on_disk, prepare_on_disk
from gaussip.settings import REFUSE, SETTINGS, check, default
from gaussip.simulation.history import SIMULATION, WHOLE_SAMPLE, Progress
from gaussip.simulation.run import Run, simulate
from gaussip.starts.given import Given, Regularised, class_order, starts


class NetworkGaussianMixture(FittedMixture, DensityMixin, BaseEstimator):
    """A Gaussian mixture fitted across sites that only talk to their neighbours.

    All sites are simulated in this process; the numbers are those that sites in processes of their own get.

    Parameters
    ----------
    n_components : int
        K.
    components_per_class : int or dict
        The components of each class, or of each by name (one for the others): a class may then have any shape. With
        more components than these the rest are of no class.
    algorithm : str
        ``"masked"`` (the pooled estimate at every site, by sums that hide each site's part), ``"exact"`` (the same
        by gossip), the paper's ``"mnem"``, ``"nnem"``, ``"dem"`` and ``"ngd"``, ``"local"`` (each site alone) or
        ``"em"`` (the whole sample, pooled).
    network : str, networkx graph or (M, M) matrix
        A name (``"ring"``, ``"star"``, ``"random-regular(4)"``, ``"circle"``, ...), a graph whose edge q -> m
        means that q sends to m, or the weights with which each site (row) averages what it receives. Masked runs on
        any network over which every site reaches every other; exact needs a two-way one.
    mixing : {"row", "metropolis"}
        How a network becomes weights, for mnem, nnem, dem and ngd; a matrix is used as it is.
    eta : float
        The step of mnem, dem and ngd: smaller is closer to the pooled estimate, and slower.
    max_rounds, tol : int, float
        Stop after this many rounds, or when the change (see ``history_``) is at most ``tol``.
    reg_covar : float
        Added to the diagonal of every covariance.
    shrinkage : float in [0, 1)
        The share of every covariance that is a target's, the same at all sites: the mean covariance of the start, on
        which they agree before the first round. It lets a site have fewer rows than features.
    degenerate : {"refuse", "keep"}
        A fit that ends with a degenerate component is refused by a `CollapseError` that names the feature, or kept
        with a warning. The rows of such a component are all the same in some direction, and nothing but ``reg_covar``
        keeps it from collapsing: a value that many rows share, a feature of few values, fewer rows than features.
    unlabelled_weight : float in [0, 1]
        Weight of an unlabelled row; a labelled row has weight 1. Choose less than one where the classes are not
        Gaussian: unlabelled rows then shape the components by more than their class.
    accelerate : bool
        For masked and em: look ahead along EM's last steps, and go back where that does not pay. It ends where EM
        ends, after a fraction of the rounds. False is plain EM.
    weighting : {"rows", "equal"}
        Whether every row counts alike (the target is the pooled estimate) or every site.
    n_init : int
        Whole fits, from as many starts, of which the best log-likelihood is kept; from labels there is one start.
    init_params : {"kmeans", "labels", "search"}
        Groups of rows by k-means; the moments of the labelled rows; or the best of many starts of both kinds, each
        judged after a few steps by its likelihood. All are found by sums over all sites.
    weights_init, means_init, covariances_init : arrays (K,), (K, p), (K, p, p) or None
        Given starting values, in place of those of ``init_params``.
    warm_start : bool
        Start from the last fit.
    min_count : int
        The fewest rows, of all sites together, whose sums may be known: a class with fewer labelled rows, or a
        component of masked that fewer support, ends the fit.
    device : str
        ``"cpu"``, or ``"cuda"`` for a GPU (needs the ``gpu`` extra).
    random_state : int, RandomState or None
    verbose : int
        Log progress every ``verbose`` rounds to standard error.

    Attributes
    ----------
    weights_, means_, covariances_ : (K,), (K, p), (K, p, p)
        The sites' consensus: their average in psi, weighted by mass.
    site_weights_, site_means_, site_covariances_ : the same with a first axis over sites
    sites_ : (M,) names of the sites, sorted
    site_mass_ : (M,) their rows, by weight
    classes_ : (C,) labels seen in y, sorted; a class's components stand side by side, in that order
    class_of_component_ : (K,) the place in ``classes_`` of each component's class; -1 where it has none
    shrinkage_target_ : (p, p), what covariances are drawn towards; None without shrinkage
    n_rounds_ : int
    converged_ : bool
    history_ : dict of arrays over rounds
        ``round``; ``log_likelihood``, mean per row; ``change``, the largest move of psi at any site divided by eta,
        in units in which the start has unit variances (of accelerated em, the move that EM itself would make);
        ``disagreement``, root mean square distance of the sites' psi from their mean, same units; ``step``, the step
        in force; ``restarts``, how often all sites went back so far; ``exchanges`` with the neighbours so far, and
        ``bytes`` sent over the whole network, both with those before the first round.
    sum_plan_ : str
        How sums travel over the network: as a flood or over a tree, in how many exchanges; empty in gossip.
    origin_ : {"whole sample", "simulation", "mpi", "site"}
        Where the fit comes from: no sites, all sites in one process, an MPI job, or one real site.

    Examples
    --------
    >>> import numpy as np
    >>> from gaussip import NetworkGaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 1, (200, 2)), rng.normal(3, 1, (200, 2))])
    >>> sites = np.repeat(["A", "B", "C", "D"], 100)  # two sites see one group, two the other
    >>> mixture = NetworkGaussianMixture(2, random_state=0).fit(X, sites=sites)
    >>> mixture.weights_.round(2)
    array([0.5, 0.5])
    """

    def __init__(
        self,
        n_components: int = default("n_components"),
        *,
        components_per_class: int | Mapping[Any, int] = default("components_per_class"),
        algorithm: str = default("algorithm"),
        network: Any = default("network"),
        mixing: str = default("mixing"),
        eta: float = default("eta"),
        max_rounds: int = default("max_rounds"),
        tol: float = default("tol"),
        reg_covar: float = default("reg_covar"),
        shrinkage: float = default("shrinkage"),
        degenerate: str = default("degenerate"),
        unlabelled_weight: float = default("unlabelled_weight"),
        accelerate: bool = default("accelerate"),
        weighting: str = default("weighting"),
        n_init: int = default("n_init"),
        init_params: str = default("init_params"),
        weights_init: Any = None,
        means_init: Any = None,
        covariances_init: Any = None,
        warm_start: bool = False,
        min_count: int = default("min_count"),
        device: str = default("device"),
        random_state: Any = None,
        verbose: int = default("verbose"),
    ) -> None:
        self.n_components = n_components
        self.components_per_class = components_per_class
        self.algorithm = algorithm
        self.network = network
        self.mixing = mixing
        self.eta = eta
        self.max_rounds = max_rounds
        self.tol = tol
        self.reg_covar = reg_covar
        self.shrinkage = shrinkage
        self.degenerate = degenerate
        self.unlabelled_weight = unlabelled_weight
        self.accelerate = accelerate
        self.weighting = weighting
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.covariances_init = covariances_init
        self.warm_start = warm_start
        self.min_count = min_count
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    _watch: Callable[[Progress], None] | None = None  # the command line's progress bar

    def fit(self, X: Any, y: Any = None, *, sites: Any = None, sample_weight: Any = None) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : (n, p) array, pandas or polars frame; or rows that stay on disk, read in every round: a memory-mapped
            array (`numpy.load(..., mmap_mode="r")`), or a mapping of site names to arrays, memory-mapped arrays or
            `gaussip.rows.chunks.Chunks`, which bring labels and weights themselves
        y : (n,) labels, -1, None or NaN where unlabelled
        sites : (n,) name of the site of each row; None for one site, that is, plain EM
        sample_weight : (n,) row weights
        """
        self._check_settings()
        algorithm = algorithms.make(self.algorithm, self.eta, self.accelerate, self.min_count)
        if sites is None and not by_name(X):
            algorithm = algorithms.make("em", self.eta, self.accelerate)
        refuse_unpooled_sums(algorithm, self.weighting)
        seeds = seeds_of(self.random_state, self.n_init)
        problem = self._prepared(X, y, sites, sample_weight, seeds[0])
        features = feature_names(self) if hasattr(self, "feature_names_in_") else None
        classes = np.repeat(problem.classes, problem.owners.counts).tolist()
        spending = Spending(problem.W)
        goes_on = self.warm_start and hasattr(self, "weights_")
        if goes_on:
            begin = [self._last(problem)]
        else:
            given = Given(self.weights_init, self.means_init, self.covariances_init)
            regularised = Regularised(float(self.reg_covar), float(self.shrinkage), self.min_count)
            begin = starts(
                problem, self.n_components, self.init_params, seeds[1:], given, regularised, spending.count,
                features,
            )  # fmt: skip
        target = getattr(self, "shrinkage_target_", None) if goes_on else None
        runs, collapse = [], None
        with logging_progress(self.verbose, self._watch) as watch:
            for theta in begin:
                shrinkage = self._shrinkage(theta, target)
                try:
                    run = simulate(
                        algorithm, place(theta, self.device), problem.rows, problem.W,
                        max_rounds=self.max_rounds, tol=self.tol, reg_covar=self.reg_covar, shrinkage=shrinkage,
                        weighting=self.weighting, sites=problem.sites.tolist(), features=features,
                        classes=classes, before=spending.before(algorithm), watch=watch,
                    )  # fmt: skip
                    self._refuse_degenerate(run, to_numpy(problem.rows.mass), features, classes)
                    runs.append((run, shrinkage))
                except CollapseError as error:
                    collapse = error
        if collapse is not None and not runs:  # one start that holds is enough
            raise collapse
        if not runs[0][0].history.round.size:
            text = Text(
                "{max_rounds:{rounds}} ends before {name} first looks at the rows",
                rounds=self.max_rounds, name=self.algorithm,
            )  # fmt: skip
            raise SettingError(text, setting="max_rounds")
        best, shrinkage = max(runs, key=lambda fitted: float(fitted[0].history.log_likelihood[-1]))
        self.sites_, self.classes_ = problem.sites, problem.classes
        self.class_of_component_ = problem.owners.classes(self.n_components)
        self.shrinkage_target_ = None if shrinkage is None else to_numpy(shrinkage.target)
        self._keep(
            best, to_numpy(problem.rows.mass), WHOLE_SAMPLE if sites is None and not by_name(X) else SIMULATION
        )
        self.sum_plan_ = spending.plan(algorithm, self.means_.shape)
        self._warn_if_not_converged()
        self._warn_of_findings()
        return self

    def _refuse_degenerate(self, run: Run, mass: NDArray, features: list[str] | None, classes: list[Any]) -> None:
        """Refuse a run whose consensus has a degenerate component, unless such a fit is to be kept."""
        if self.degenerate == REFUSE:
            theta = _one(Theta(*map(to_numpy, run.theta)), mass)
            p = theta.means.shape[1]
            refuse_degenerate(
                theta, np.full(p, (1 - self.shrinkage) * self.reg_covar), float(mass.sum()),
                [column_name(j, features) for j in range(p)], round=run.n_rounds, classes=classes,
            )  # fmt: skip

    def _shrinkage(self, begin: Theta, target: NDArray | None) -> Shrinkage | None:
        """Towards the start's mean covariance, or the target of the fit that this one goes on from."""
        if begin.weights.ndim > 1:  # each site's own last estimate
            begin = self._theta()
        shrinkage = shrinkage_of(float(self.shrinkage), begin)
        if shrinkage is None:
            return None
        return shrinkage._replace(target=to_device(shrinkage.target if target is None else target, self.device))

    def _warn_if_not_converged(self) -> None:
        if not self.converged_:
            warnings.warn(
                Text(
                    "not converged after {rounds} rounds: the last change is {change:.2g}, {tol:{least:g}}. "
                    + self._faster(),
                    rounds=self.n_rounds_,
                    change=self.history_["change"][-1],
                    least=self.tol,
                ),
                ConvergenceWarning,
                stacklevel=3,
            )

    def _warn_of_findings(self) -> None:
        for finding in certain(self):
            warnings.warn(f"{finding.name}: {finding.sentence}", DiagnosisWarning, stacklevel=3)

    def _faster(self) -> str:
        """What helps a fit that did not converge, as a template of `Text`."""
        if (near := swings(self)) is not None:
            return f"More rounds will not help: take no site for nearer to its goal than {near:.2g}" + (
                "" if algorithms.REGISTRY[self.algorithm].replicated else "; use {algorithm:'masked'}"
            )
        prediction = rounds_needed(self)
        more = "Raise {max_rounds}"
        if prediction is not None:
            needed, asked = prediction
            more = f"It needs about {needed} rounds in all: raise {{max_rounds}} to {asked} (it stops by itself)"
        if not algorithms.has_step(self.algorithm):
            return more
        return (
            more + ", or raise {eta} if speed matters more than closeness to the pooled estimate; "
            "or use {algorithm:'masked'}"
        )

    def _prepared(self, X: Any, y: Any, sites: Any, sample_weight: Any, seed: int) -> Problem:
        """The checked problem, of rows in memory or on disk."""
        settings = {
            "n_components": self.n_components, "network": self.network, "mixing": self.mixing, "seed": seed,
            "device": self.device, "unlabelled_weight": self.unlabelled_weight,
            "components_per_class": self.components_per_class,
        }  # fmt: skip
        if on_disk(X):
            problem = prepare_on_disk(X, y, sites, sample_weight, **settings)
            self.n_features_in_ = problem.values[0].shape[1]
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return problem
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite=False)
        return prepare(X, y, sites, sample_weight, columns=getattr(self, "feature_names_in_", None), **settings)

    def _check_settings(self) -> None:
        check(
            **{
                name: value
                for name, value in self.get_params().items()
                if name in SETTINGS and name != "components_per_class"
            }
        )
        check_components_per_class(self.components_per_class)

    def _keep(self, run: Run, mass: NDArray, origin: str) -> None:
        sites = Theta(*map(to_numpy, run.theta))
        self.site_weights_, self.site_means_, self.site_covariances_ = sites
        self.weights_, self.means_, self.covariances_ = _one(sites, mass)
        self.site_mass_, self.origin_ = mass, origin
        self.n_rounds_ = run.n_rounds
        self.converged_ = bool(run.converged)
        self.history_ = run.history._asdict()

    def _last(self, problem: Problem) -> Theta:
        """The last fit as a start: each site's own estimate where the sites are the same, else the consensus.

        Where the classes are others than last time, components are matched to them again.
        """
        n_features = problem.values[0].shape[1]
        if self.means_.shape != (self.n_components, n_features):
            text = Text(
                "{the last fit} has {old} components and {width} features, this one {new} and {features}",
                old=self.means_.shape[0], width=self.means_.shape[1], new=self.n_components, features=n_features,
            )  # fmt: skip
            raise StartError(text, setting="warm_start", remedy=Text("use {warm_start:False}"))
        order = np.arange(self.n_components)
        owned = problem.owners.classes(self.n_components)
        if problem.rows.labelled is not None and not (
            np.array_equal(problem.classes, self.classes_) and np.array_equal(owned, self.class_of_component_)
        ):
            if not problem.owners.single:
                raise StartError(
                    "the last fit had other classes, or other numbers of components for them", setting="warm_start",
                    remedy=Text("use {warm_start:False}"),
                )  # fmt: skip
            order = class_order(problem.held, self._theta(), self.min_count, problem.classes.tolist())
        if not np.array_equal(problem.sites, self.sites_):
            return reorder(self._theta(), order)
        sites = (self.site_weights_, self.site_means_, self.site_covariances_)
        return Theta(*(part[:, order] for part in sites))

    def fit_predict(self, X: Any, y: Any = None, *, sites: Any = None, sample_weight: Any = None) -> NDArray:
        """Fit, then predict the same rows."""
        if on_disk(X) and not isinstance(X, np.memmap):
            raise DataError("fit_predict needs the rows in one array; use fit, then predict for the rows wanted")
        return self.fit(X, y, sites=sites, sample_weight=sample_weight).predict(X)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model, its settings and its history to one file, without pickle.

        A ``random_state`` that is not a number is stored as None.
        """
        check_is_fitted(self)
        model_file.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model in a file written by `save`."""
        return model_file.load(cls, path)


def _one(sites: Theta, mass: NDArray) -> Theta:
    """The sites' consensus; where all have the same mixture that, since an average would round."""
    same = (pack(sites) == pack(sites)[:1]).all()
    return Theta(*(part[0] for part in sites)) if same else consensus(sites, mass)
