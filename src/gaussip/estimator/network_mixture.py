"""The scikit-learn style estimator."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted

from gaussip import algorithms
from gaussip.algorithms.base import SUMS, refuse_unpooled_sums
from gaussip.arrays import NDArray, to_device, to_numpy
from gaussip.errors import CollapseError, DataError, SettingError, Text
from gaussip.estimator import model_file
from gaussip.estimator.ending import keep, refuse_if_degenerate, warn_if_not_converged, warn_of_findings
from gaussip.estimator.fitted import FittedMixture
from gaussip.estimator.preparation import check_settings, prepared
from gaussip.estimator.private_fit import fit_privately
from gaussip.estimator.progress import logging_progress
from gaussip.estimator.spending import Spending
from gaussip.estimator.warm_start import LeftOff, digest_of, last_estimates, left_off
from gaussip.mixture.covariance_types import as_full
from gaussip.mixture.theta import Theta, place
from gaussip.privacy import Guarantee
from gaussip.rows.checks import feature_names
from gaussip.rows.moments import Shrinkage, shrinkage_of
from gaussip.rows.problem import Problem, seeds_of
from gaussip.rows.streaming import by_name, on_disk
from gaussip.settings import default
from gaussip.simulation.history import SIMULATION, WHOLE_SAMPLE, Progress
from gaussip.simulation.run import simulate
from gaussip.starts.given import Given, Regularised, starts

SURVEY = 10_000  # rounds in which every algorithm looks at the rows


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
    covariance_type : str
        ``"full"``, ``"tied"``, ``"diag"``, ``"spherical"``, or mclust's ``"EII"``, ``"EEI"``, ``"VEI"``, ``"EVI"``,
        ``"VEE"``, ``"EEV"``, ``"VEV"`` or ``"EVV"``.
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
        Stop after this many rounds, or when the change (see ``history_``) is at most ``tol``. A fit of exact, whose
        steps take several rounds, looks at the rows at least once.
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
        Go on from the last fit: with the same rows and settings (but for ``max_rounds`` and ``tol``) as if it had
        not stopped, to the last bit; else from its estimates.
    min_count : int
        The fewest rows, of all sites together, whose sums may be known: a class with fewer labelled rows, or a
        component of masked that fewer support, ends the fit.
    device : str
        ``"cpu"``, or ``"cuda"`` for a GPU (needs the ``gpu`` extra).
    random_state : int, RandomState or None
    privacy : dict or None
        Differential privacy: ``{"epsilon": 4, "delta": 1e-6, "colluding": 1, "bounds": {"age": [0, 120]}}``. Every
        sum then has noise, and nothing else of the rows goes into the model; ``max_rounds`` and ``tol`` do not count,
        the rounds are planned. ``bounds`` are those of each feature, or one pair for all; ``noise_seed`` makes a
        study's fit repeatable, and guarantees nothing.
    verbose : int
        Log progress every ``verbose`` rounds to standard error.

    Attributes
    ----------
    weights_, means_, covariances_ : (K,), (K, p), (K, p, p)
        The sites' consensus: their average in psi, weighted by mass. Under a covariance type ``covariances_`` has
        scikit-learn's shape: tied (p, p), diag (K, p), spherical (K,).
    covariance_type_ : str
        The covariance type of the fit.
    site_weights_, site_means_, site_covariances_ : (M, K), (M, K, p), (M, K, p, p)
    sites_ : (M,) names of the sites, sorted
    site_mass_ : (M,) their rows, by weight
    classes_ : (C,) labels seen in y, sorted; a class's components stand side by side, in that order
    class_of_component_ : (K,) the place in ``classes_`` of each component's class; -1 where it has none
    precisions_, precisions_cholesky_ : in the shape of ``covariances_``, as scikit-learn's GaussianMixture has them
    lower_bound_ : float
        The mean log-likelihood of a row of the fit: the last of ``history_["log_likelihood"]``.
    shrinkage_target_ : (p, p), what covariances are drawn towards; None without shrinkage
    n_rounds_, n_iter_ : int
        The rounds of the last fit.
    converged_ : bool
    history_ : dict of arrays over rounds
        ``round``; ``log_likelihood``, mean per row, of labelled rows with their class; ``change``, the largest move
        of psi at any site divided by eta, in units in which the start has unit variances (of accelerated em, the
        move that EM itself would make); ``disagreement``, root mean square distance of the sites' psi from their
        mean, same units; ``step``, the step in force; ``restarts``, how often all sites went back so far;
        ``exchanges`` with the neighbours so far, and ``bytes`` sent over the whole network, both with those before
        the first round.
    sum_plan_ : str
        How sums travel over the network: as a flood or over a tree, in how many exchanges; empty in gossip.
    privacy_ : Guarantee or None
        What a private fit guarantees: epsilon, delta, mu, and the noisy sums that it took. ``site_mass_`` is then the
        number of all rows with noise, evenly over the sites, and there are no log-likelihoods.
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
        covariance_type: str = default("covariance_type"),
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
        privacy: Mapping[str, Any] | None = default("privacy"),
        verbose: int = default("verbose"),
    ) -> None:
        self.n_components = n_components
        self.components_per_class = components_per_class
        self.covariance_type = covariance_type
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
        self.privacy = privacy
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        if len(getattr(self, "classes_", ())):  # scorers ask the fitted estimator what it is
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    _watch: Callable[[Progress], None] | None = None  # the command line's progress bar
    _watch_sums: Callable[[int, int], None] = staticmethod(lambda done, total: None)  # the same for a private fit
    privacy_: Guarantee | None = None
    private_covariance_: NDArray | None = None

    def fit(self, X: Any, y: Any = None, *, sites: Any = None, sample_weight: Any = None) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : (n, p) array, or a pandas or polars frame; or rows that stay on disk, read in every round: a memory-mapped
            array (`numpy.load(..., mmap_mode="r")`), or a mapping of site names to arrays, memory-mapped arrays or
            `gaussip.rows.chunks.Chunks`, which bring labels and weights themselves
        y : (n,) labels, -1, None or NaN where unlabelled
        sites : (n,) name of the site of each row; None for one site, that is, plain EM
        sample_weight : (n,) row weights

        Each of y, sites and sample_weight may be the name of a column of the frame X: ``sites="hospital"``. Such
        columns are not features.
        """
        check_settings(self)
        if self.privacy is not None:
            fit_privately(self, X, y, sites, sample_weight, self._watch_sums)
            return self
        pooled = sites is None and not by_name(X)
        settings = self.eta, self.accelerate, self.min_count, self.covariance_type
        algorithm = algorithms.make(self.algorithm, *settings)
        if pooled:
            algorithm = algorithms.make("em", *settings)
        refuse_unpooled_sums(algorithm, self.weighting)
        seeds = seeds_of(self.random_state, self.n_init)
        asked: list[int] = []
        fewest = self.min_count if algorithm.source == SUMS else 1
        problem = prepared(self, X, y, sites, sample_weight, seeds[0], fewest, asked.append)
        features = feature_names(self) if hasattr(self, "feature_names_in_") else None
        classes = np.repeat(problem.classes, problem.owners.counts).tolist()
        spending = Spending(problem.W)
        for words in asked:
            spending.count(words)
        digest = digest_of(self, algorithm, problem) if self.warm_start else ""
        left = left_off(self, digest) if self._goes_on else None
        begin = self._begin(problem, seeds[1:], spending, features) if left is None else [left.start]
        runs, collapse = [], None
        with logging_progress(self.verbose, self._watch) as watch:
            for theta in begin:
                shrinkage = self._shrinkage(theta) if left is None else left.shrinkage
                try:
                    run = simulate(
                        algorithm, place(theta, self.device), problem.rows, problem.W,
                        max_rounds=self.max_rounds, until_seen=SURVEY, tol=self.tol, reg_covar=self.reg_covar,
                        shrinkage=shrinkage, weighting=self.weighting, sites=problem.sites.tolist(),
                        features=features, classes=classes, before=spending.before(algorithm),
                        resume=None if left is None else left.carry, watch=watch,
                    )  # fmt: skip
                    refuse_if_degenerate(self, run, to_numpy(problem.rows.mass), features, classes)
                    runs.append((run, theta, shrinkage))
                except CollapseError as error:
                    collapse = error
        if collapse is not None and not runs:  # one start that holds is enough
            raise collapse
        if not runs[0][0].history.round.size:
            text = Text("{name} did not look at the rows in {n} rounds", name=self.algorithm, n=runs[0][0].n_rounds)
            raise SettingError(text, setting="algorithm")
        best, start, shrinkage = max(runs, key=lambda fitted: float(fitted[0].history.log_likelihood[-1]))
        keep(
            self, best, sites=problem.sites, mass=to_numpy(problem.rows.mass), classes=problem.classes,
            owners=problem.owners, target=None if shrinkage is None else to_numpy(shrinkage.target),
            origin=WHOLE_SAMPLE if pooled else SIMULATION,
        )  # fmt: skip
        self.privacy_, self.private_covariance_ = None, None
        assert best.carry is not None
        self._left_off = LeftOff(digest, start, shrinkage, best.carry) if self.warm_start else None
        self.sum_plan_ = spending.plan(algorithm, self.means_.shape)
        warn_if_not_converged(self)
        warn_of_findings(self)
        return self

    @property
    def _goes_on(self) -> bool:
        """Whether a fit goes on from the last one."""
        return self.warm_start and hasattr(self, "weights_")

    def _begin(
        self, problem: Problem, seeds: list[int], spending: Spending, features: list[str] | None
    ) -> list[Theta]:
        """Starting values: the last estimates where the fit goes on from them."""
        if self._goes_on:
            return [last_estimates(self, problem)]
        covariances = self.covariances_init
        if covariances is not None:
            shape = (self.n_components, problem.values[0].shape[1])
            covariances = as_full(self.covariance_type, covariances, shape)
        given = Given(self.weights_init, self.means_init, covariances)
        regularised = Regularised(float(self.reg_covar), float(self.shrinkage), self.min_count, self.covariance_type)
        return starts(
            problem, self.n_components, self.init_params, seeds, given, regularised, spending.count, features
        )  # fmt: skip

    def _shrinkage(self, begin: Theta) -> Shrinkage | None:
        """Towards the start's mean covariance, or the target of the fit that this one goes on from."""
        if begin.weights.ndim > 1:  # each site's own last estimate
            begin = self._theta()
        shrinkage = shrinkage_of(float(self.shrinkage), begin)
        if shrinkage is None:
            return None
        target = self.shrinkage_target_ if self._goes_on else None
        return shrinkage._replace(target=to_device(shrinkage.target if target is None else target, self.device))

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
