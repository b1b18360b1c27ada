"""Standard errors and confidence intervals of a fitted mixture."""

import warnings
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from gaussip.arrays import NDArray
from gaussip.errors import DataError, LabelError, SettingError, Text, UncertaintyError, some
from gaussip.inference.drawing import drawn_thetas
from gaussip.inference.information import (
    COUNTED,
    check_size,
    concluded,
    parameter_names,
    part_size,
    refuse_nonlinear,
    scales,
    site_part,
)
from gaussip.mixture.owners import component_names
from gaussip.mixture.theta import Theta, at, broadcast, pack, unpack
from gaussip.rows.checks import check_cells, feature_names
from gaussip.rows.chunks import Chunks
from gaussip.rows.frames import by_column_name, validated
from gaussip.rows.problem import Problem
from gaussip.rows.streaming import by_name, on_disk, prepare_on_disk
from gaussip.settings import check, default
from gaussip.simulation.history import SITE
from gaussip.starts.rare import rows_of_fit
from gaussip.tabular import Table

FAR = 0.5  # standard errors from the maximum of the likelihood beyond which intervals get a warning


class Uncertainty(NamedTuple):
    """The sampling uncertainty of a fitted mixture."""

    theta: Theta  #: the estimate
    covariance: NDArray  #: (q, q) of ``pack(theta).ravel()``, component by component, with all K weights
    away: float  #: the largest distance from theta to the maximum of the likelihood, in standard errors
    robust: bool  #: whether the covariance is valid for weighted rows, or rows not from a Gaussian mixture
    components: Sequence[str] = ()  #: names; numbers by default
    features: Sequence[str] = ()

    @property
    def standard_errors(self) -> Theta:
        """The standard error of every number in theta."""
        variances = np.maximum(np.diagonal(self.covariance), 0)  # the weight of a single component has none
        return unpack(np.sqrt(variances).reshape(pack(self.theta).shape))

    def intervals(self, level: float = default("level")) -> tuple[Theta, Theta]:
        """The lower and the upper ends of the confidence intervals of every number of theta.

        Intervals of weights are on the logit scale and those of variances on the log scale, so that the ends stay in
        range; those of means and covariances are symmetric. Each interval holds by itself: the ends together are
        not a mixture.
        """
        check(level=level)
        z = NormalDist().inv_cdf((1 + level) / 2)
        weights, means, covariances = self.theta
        of_weights, of_means, of_covariances = self.standard_errors
        variance = np.eye(means.shape[1], dtype=bool)
        spread = np.where(weights < 1, weights * (1 - weights), 1.0)
        factor = np.exp(z * of_covariances / np.where(variance, covariances, np.inf))

        def end(sign: int) -> Theta:
            return Theta(
                expit(logit(weights) + sign * z * of_weights / spread),
                means + sign * z * of_means,
                np.where(variance, covariances * factor**sign, covariances + sign * z * of_covariances),
            )

        return end(-1), end(1)

    def draws(self, n_draws: int, rng: np.random.Generator) -> list[Theta]:
        """Mixtures drawn from the sampling distribution of the estimate."""
        return drawn_thetas(self.theta, self.covariance, n_draws, rng)

    def table(self, level: float = default("level")) -> Table:
        """Each parameter's estimate, standard error, and ends of its confidence interval: a table that prints."""
        K, p = self.theta.means.shape
        components = self.components or [f"component {k}" for k in range(K)]
        parameters = parameter_names(self.features or [f"column {j}" for j in range(p)])
        numbers = (self.theta, self.standard_errors, *self.intervals(level))
        columns = ("estimate", "standard_error", "low", "high")
        kind = "robust standard errors" if self.robust else "standard errors from the information"
        return Table(
            {
                "component": [name for name in components for _ in parameters],
                "parameter": parameters * K,
                **{name: pack(theta).ravel().tolist() for name, theta in zip(columns, numbers, strict=True)},
            },
            head=f"{kind}, {100 * level:g}% intervals",
        )

    def to_frame(self, level: float = default("level")) -> Any:
        """The table as a `pandas.DataFrame`."""
        return self.table(level).to_frame()

    def __str__(self) -> str:
        return str(self.table())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def uncertainty(
    mixture: Any,
    X: Any,
    y: Any = None,
    *,
    sites: Any = None,
    sample_weight: Any = None,
    robust: bool = False,
    watch: Callable[[int], None] = lambda _: None,
) -> Uncertainty:
    """The uncertainty of a fitted `NetworkGaussianMixture`, with the rows it was fitted to.

    Each site computes its part at its estimate; the parts are summed in the same way as between real sites.

    Parameters
    ----------
    X, y, sites, sample_weight : as in the fit; with sites=None all rows are taken at the consensus
    robust : the sandwich covariance
    watch : called with the number of sites done
    """
    refuse_site_model(mixture)
    check_size(*mixture.means_.shape)
    refuse_nonlinear(mixture.covariance_type_)
    if mixture.unlabelled_weight != 1 and not robust:
        text = Text(
            "{unlabelled_weight:{weight:g}}: rows that count in part do not give the spread of the estimate by their "
            "information alone",
            weight=mixture.unlabelled_weight,
        )
        raise SettingError(text, setting="unlabelled_weight", remedy=Text("use {robust:True}"))
    features = feature_names(mixture)
    X, y, sites, sample_weight = by_column_name(X, y, sites, sample_weight)
    problem = _problem(mixture, X, y, sites, sample_weight, features)
    theta = mixture._theta()
    at_sites = Theta(mixture.site_weights_, mixture.site_means_, mixture.site_covariances_)
    if sites is None and not by_name(X):
        at_sites = broadcast(theta, (1,))
    scale = scales(theta, float(problem.rows.mass.sum()))
    words, n_sites = np.zeros(part_size(*theta.means.shape, robust=robust), dtype=np.int64), len(problem.rows.sites)
    for m, site in enumerate(problem.rows.sites):
        assert isinstance(site.values, Chunks)  # as `prepare_on_disk` gives them
        part = site_part(
            site.values, at(at_sites, m), scale, robust=robust, unlabelled_weight=mixture.unlabelled_weight,
            allowed=site.allowed, n_sites=n_sites,
        )  # fmt: skip
        words += COUNTED.encode(part, n_sites)
        watch(m + 1)
    summed = COUNTED.decode(words)
    components = component_names(mixture.classes_.tolist(), mixture.class_of_component_)
    conclusion = concluded(summed, scale, features, robust=robust, covariance_type=mixture.covariance_type_)
    result = Uncertainty(theta, *conclusion, robust, components, features)
    _warn_if_far(result, at_sites, mixture.sites_, features)
    return result


def refuse_site_model(mixture: Any) -> None:
    """Reject the model of a real site: intervals need the rows of all sites, and it has only its own."""
    if mixture.origin_ == SITE:
        raise UncertaintyError(
            f"this is the model of real site {some(mixture.sites_.tolist())}, fitted to the rows of all sites: its "
            "intervals are in intervals.csv in the site's folder, where the federation's description asks for them "
            '(intervals = "plain")'
        )


def _problem(mixture: Any, X: Any, y: Any, sites: Any, sample_weight: Any, features: list[str]) -> Problem:
    """The rows by site, checked as for a fit, and against the fit's sites and classes."""
    if not on_disk(X):
        X = validated(mixture, X, reset=False)
        check_cells(X, features)
        X, y, sites, sample_weight = rows_of_fit(mixture, X, y, sites, sample_weight)
    problem = prepare_on_disk(
        X, y, sites, sample_weight, n_components=mixture.n_components, network="circle", mixing="row", seed=0,
        device="cpu", unlabelled_weight=mixture.unlabelled_weight,
        components_per_class=mixture.components_per_class,
    )  # fmt: skip
    given, wanted = problem.values[0].shape[1], mixture.n_features_in_
    if given != wanted:
        raise DataError(f"the rows have {given} features, the fit had {wanted}; give the rows of the fit")
    if not np.array_equal(problem.classes, mixture.classes_):
        seen = (problem.classes.tolist(), mixture.classes_.tolist())
        has = [f"the classes {some(names)}" if names else "no labels" for names in seen]
        raise LabelError(
            Text("{y} has {here}, the fit had {then}; give the labels of the fit", here=has[0], then=has[1])
        )
    if (by_name(X) or sites is not None) and not np.array_equal(problem.sites, mixture.sites_):
        raise DataError(
            f"the rows are of sites {some(problem.sites.tolist())}, the fit was of {some(mixture.sites_.tolist())}; "
            "give the rows of the fit, with the names of its sites"
        )
    mass = np.asarray(problem.rows.mass)
    _refuse_other_rows(mixture, mass, problem.sites)
    if mixture.weighting == "equal" and np.ptp(mass) > 1e-9 * mass.max():
        raise SettingError(
            Text(
                "{weighting:'equal'} with sites of different sizes aims at another estimate than that of all rows: "
                "standard errors are for {weighting:'rows'}"
            ),
            setting="weighting",
        )
    return problem


def _refuse_other_rows(mixture: Any, mass: NDArray, sites: NDArray) -> None:
    """Reject rows whose mass at some site is not that of the fit."""
    alone = len(mass) < len(mixture.site_mass_)  # all rows together, at the consensus
    fitted = mixture.site_mass_.sum(keepdims=True) if alone else mixture.site_mass_
    other = np.flatnonzero(~np.isclose(mass, fitted, rtol=1e-9, atol=0))
    if other.size:
        m = other[0]
        where = "there are" if alone else f"site {some([sites[m]])} has"
        more = f", and {other.size - 1} other sites differ too" if other.size > 1 else ""
        raise DataError(
            f"{where} {mass[m]:.10g} rows (by weight), the fit had {fitted[m]:.10g}{more}; give the rows of the fit"
        )


def _warn_if_far(result: Uncertainty, at_sites: Theta, sites: NDArray, features: list[str]) -> None:
    """Warn if the estimate, or some site's, is not at the maximum of the likelihood."""
    from sklearn.exceptions import ConvergenceWarning  # not when a site starts

    if result.away > FAR:
        warnings.warn(
            Text(
                "the estimate is {away:.2g} standard errors from the largest likelihood of these rows, so that "
                "its intervals are off: are these the rows, labels and weights of the fit, and has it converged? "
                "{reg_covar} and {shrinkage} move an estimate too",
                away=result.away,
            ),
            ConvergenceWarning,
            stacklevel=4,
        )
    errors, centre = pack(result.standard_errors), pack(result.theta)
    far = np.abs(pack(at_sites) - centre) / np.where(errors > 0, errors, np.inf)
    m, k, a = np.unravel_index(int(far.argmax()), far.shape)
    if far[m, k, a] > FAR:
        warnings.warn(
            Text(
                "sites are apart: {parameter} of component {k} at site {site} is {far:.2g} standard errors from the "
                "consensus, so that intervals around either are off; use {algorithm:'masked'}, or a smaller "
                "{eta} and more rounds",
                parameter=parameter_names(features)[a],
                k=k,
                site=some([sites[m]]),
                far=far[m, k, a],
            ),
            ConvergenceWarning,
            stacklevel=4,
        )
