"""The methods of a fitted mixture: prediction, scores, samples, uncertainty, and conversion to scikit-learn."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gaussip.arrays import NDArray, precision_factor
from gaussip.errors import SettingError
from gaussip.estimator.private_uncertainty import private_uncertainty
from gaussip.estimator.summary import summary
from gaussip.inference import intervals
from gaussip.mixture.conditional import Imputed, drawn, imputed
from gaussip.mixture.covariance_types import FULL, LETTERS, as_full, as_public, n_parameters, named
from gaussip.mixture.density import responsibilities
from gaussip.mixture.owners import free_outcome
from gaussip.mixture.sampling import sample
from gaussip.mixture.theta import Theta
from gaussip.rows.checks import check_cells, feature_names
from gaussip.rows.frames import as_given, validated
from gaussip.tabular import Table


class FittedMixture:
    """The half of the estimator that does not fit; its methods use the consensus."""

    n_components: int
    covariance_type_: str
    reg_covar: float
    random_state: Any
    weights_: NDArray
    means_: NDArray
    covariances_: NDArray
    classes_: NDArray
    class_of_component_: NDArray
    converged_: bool
    n_rounds_: int
    history_: dict[str, NDArray]
    n_features_in_: int
    privacy_: Any

    def _theta(self) -> Theta:
        return Theta(self.weights_, self.means_, as_full(self.covariance_type_, self.covariances_, self.means_.shape))

    @property
    def precisions_cholesky_(self) -> NDArray:
        """Upper triangular, with ``precisions_ = L @ L.T`` for each component: in scikit-learn's shapes."""
        return as_public(self.covariance_type_, self._factors())

    @property
    def precisions_(self) -> NDArray:
        """The inverses of the covariances, in their shape."""
        factors = self._factors()
        return as_public(self.covariance_type_, factors @ factors.swapaxes(-1, -2))

    def _factors(self) -> NDArray:
        return np.asarray(precision_factor(self._theta().covariances).swapaxes(-1, -2))

    @property
    def lower_bound_(self) -> float:
        """The mean log-likelihood of a row of the fit, by weight, where the fit's last round looked at the rows."""
        return float(self.history_["log_likelihood"][-1])

    @property
    def n_iter_(self) -> int:
        """The rounds of the last fit: what scikit-learn calls iterations."""
        return self.n_rounds_

    def _responsibilities(self, X: Any) -> tuple[NDArray, NDArray]:
        check_is_fitted(self)
        return responsibilities(self._table(X), self._theta())

    def _table(self, X: Any) -> NDArray:
        """Rows, checked; missing cells are NaN."""
        rows = validated(self, X, reset=False)
        check_cells(rows, feature_names(self))
        return rows

    def _outcomes(self) -> NDArray:
        """What a row can be: a class, or of none where components are free; without classes a component."""
        if not len(self.classes_):
            return np.arange(len(self.weights_))
        if (self.class_of_component_ >= 0).all():
            return np.asarray(self.classes_)
        return np.array([*self.classes_.tolist(), free_outcome(self.classes_)])

    def _of_outcomes(self, shares: NDArray) -> NDArray:
        """The probability of each outcome, (n, C), from those of the components, (n, K)."""
        if not len(self.classes_) or len(self.classes_) == shares.shape[1]:
            return shares
        outcomes = self._outcomes()
        place = np.where(self.class_of_component_ < 0, len(outcomes) - 1, self.class_of_component_)
        return np.asarray(shares @ (place[:, None] == np.arange(len(outcomes))))

    def predict(self, X: Any) -> NDArray:
        """The most probable class of each row, (n,), or its component where there are no classes.

        Where components are of no class, their rows are of class "none" (-1, where classes are numbers; "(none)",
        where a class is called "none").
        """
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self._outcomes()[best])

    def predict_proba(self, X: Any) -> NDArray:
        """The probability of each class, (n, C), and last of none of them where components are free; or of each
        component where there are no classes.
        """
        return self._of_outcomes(self._responsibilities(X)[0])

    def component_proba(self, X: Any) -> NDArray:
        """The probability of each component, (n, K)."""
        return self._responsibilities(X)[0]

    def impute(self, X: Any) -> Imputed:
        """Fill in missing cells by their means given the cells observed: ``values`` (n, p), and ``deviations``.

        The deviations are the standard deviations of missing cells, and zero where a cell is observed. Both are
        frames where X is one: with its index, and ``values`` with all its columns, of which those of features without
        a missing cell, and those that are no features, stay as they are.
        """
        check_is_fitted(self)
        rows = self._table(X)
        found = imputed(rows, self._theta(), responsibilities(rows, self._theta())[0])
        return Imputed(as_given(self, X, found.values), as_given(self, X, found.deviations, only_features=True))

    def impute_draws(
        self,
        X: Any,
        n_draws: int = 20,
        *,
        uncertainty: intervals.Uncertainty | None = None,
        random_state: Any = None,
    ) -> list[Any]:
        """Tables (n, p) whose missing cells are drawn given the cells observed, for multiple imputation.

        Frames where X is one, as of `impute`.

        Parameters
        ----------
        X : (n, p)
        n_draws : how many tables
        uncertainty : of the fit, see `uncertainty`: each table then has parameters of its own, drawn too. Without it
            the estimate is taken for the truth, and what is computed from the tables seems too certain
        random_state : the estimator's by default
        """
        check_is_fitted(self)
        if not isinstance(n_draws, Integral) or n_draws < 1:
            raise SettingError(f"n_draws={n_draws!r} must be a whole number of at least 1")
        rows = self._table(X)
        seed = check_random_state(self.random_state if random_state is None else random_state).randint(2**31)
        rng = np.random.default_rng(seed)
        thetas = [self._theta()] * int(n_draws) if uncertainty is None else uncertainty.draws(int(n_draws), rng)
        rngs = rng.spawn(int(n_draws))
        drawings = zip(thetas, rngs, strict=True)
        tables = (drawn(rows, theta, responsibilities(rows, theta)[0], own) for theta, own in drawings)
        return [as_given(self, X, table) for table in tables]

    def score_samples(self, X: Any) -> NDArray:
        """The log-density of each row, (n,)."""
        return self._responsibilities(X)[1]

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-density of the rows; labels do not enter it, whatever y is."""
        return float(self.score_samples(X).mean())

    def bic(self, X: Any) -> float:
        """The Bayesian information criterion of the rows; lower is better."""
        return float(-2 * self.score_samples(X).sum() + self._n_parameters() * np.log(len(X)))

    def aic(self, X: Any) -> float:
        """The Akaike information criterion of the rows; lower is better."""
        return float(-2 * self.score_samples(X).sum() + 2 * self._n_parameters())

    def _n_parameters(self) -> int:
        return n_parameters(self.covariance_type_, *self.means_.shape)

    def sample(self, n_samples: int = 1) -> tuple[NDArray, NDArray]:
        """Rows (n, p) drawn from the mixture, and the class or component each came from (n,)."""
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise SettingError(f"n_samples={n_samples!r} must be a whole number of at least 1")
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        X, components = sample(self._theta(), n_samples, rng)
        outcomes = self._outcomes()
        return X, np.asarray(outcomes[self.class_of_component_[components] if len(self.classes_) else components])

    def summary(self) -> Table:
        """Each component's class, weight, and mean and standard deviation of each feature, as a table.

        It prints in a terminal and in a notebook; ``to_frame()`` makes a data frame of it, a component to a row.
        """
        check_is_fitted(self)
        return summary(self)

    def uncertainty(
        self, X: Any = None, y: Any = None, *, sites: Any = None, sample_weight: Any = None, robust: bool = False
    ) -> intervals.Uncertainty:
        """Standard errors and confidence intervals, from the rows of the fit; of a private fit without them.

        Parameters
        ----------
        X, y, sites, sample_weight : as in the fit; each site's rows are taken at its estimate, or with sites=None
            all rows at the consensus. Nothing of a private fit, which knows its own, noise included
        robust : the sandwich covariance, also valid for sampling weights and components that are not Gaussian
        """
        check_is_fitted(self)
        if self.privacy_ is not None:
            return private_uncertainty(self, X, robust)
        return intervals.uncertainty(self, X, y, sites=sites, sample_weight=sample_weight, robust=robust)

    def to_sklearn(self) -> GaussianMixture:
        """The consensus as a fitted `sklearn.mixture.GaussianMixture`."""
        check_is_fitted(self)
        name = named(self.covariance_type_)
        mixture = GaussianMixture(
            self.n_components, covariance_type=name if name in LETTERS else FULL, reg_covar=self.reg_covar,
            random_state=self.random_state,
        )  # fmt: skip
        mixture.weights_, mixture.means_, mixture.covariances_ = self.weights_, self.means_, self.covariances_
        mixture.precisions_cholesky_, mixture.precisions_ = self.precisions_cholesky_, self.precisions_
        mixture.converged_, mixture.n_iter_ = self.converged_, self.n_iter_
        mixture.lower_bound_ = self.lower_bound_
        mixture.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            mixture.feature_names_in_ = self.feature_names_in_
        return mixture
