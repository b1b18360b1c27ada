"""The methods of a fitted mixture: prediction, scores, samples, uncertainty, and conversion to scikit-learn."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from gaussip.arrays import NDArray, precision_factor
from gaussip.errors import SettingError
from gaussip.inference import intervals
from gaussip.mixture.density import responsibilities
from gaussip.mixture.sampling import sample
from gaussip.mixture.theta import Theta, n_parameters
from gaussip.rows.checks import check_cells, feature_names


class FittedMixture:
    """The half of the estimator that does not fit; its methods use the consensus."""

    n_components: int
    reg_covar: float
    random_state: Any
    weights_: NDArray
    means_: NDArray
    covariances_: NDArray
    classes_: NDArray
    converged_: bool
    n_rounds_: int
    history_: dict[str, NDArray]
    n_features_in_: int

    def _theta(self) -> Theta:
        return Theta(self.weights_, self.means_, self.covariances_)

    def _responsibilities(self, X: Any) -> tuple[NDArray, NDArray]:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=False)
        check_cells(X, feature_names(self))
        return responsibilities(X, self._theta())

    def _named(self, components: NDArray) -> NDArray:
        """Classes if every component has a class, else component numbers."""
        every = len(self.classes_) == self.n_components
        return np.asarray(self.classes_[components]) if every else components

    def predict(self, X: Any) -> NDArray:
        """The most probable class of each row if every component has a class, else its component, (n,)."""
        return self._named(self._responsibilities(X)[0].argmax(axis=1))

    def predict_proba(self, X: Any) -> NDArray:
        """The probability of each component, (n, K)."""
        return self._responsibilities(X)[0]

    def score_samples(self, X: Any) -> NDArray:
        """The log-density of each row, (n,)."""
        return self._responsibilities(X)[1]

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log-density of the rows."""
        return float(self.score_samples(X).mean())

    def bic(self, X: Any) -> float:
        """The Bayesian information criterion of the rows; lower is better."""
        return float(-2 * self.score_samples(X).sum() + self._n_parameters() * np.log(len(X)))

    def aic(self, X: Any) -> float:
        """The Akaike information criterion of the rows; lower is better."""
        return float(-2 * self.score_samples(X).sum() + 2 * self._n_parameters())

    def _n_parameters(self) -> int:
        return n_parameters(*self.means_.shape)

    def sample(self, n_samples: int = 1) -> tuple[NDArray, NDArray]:
        """Rows (n, p) drawn from the mixture, and the class or component each came from (n,)."""
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise SettingError(f"n_samples={n_samples!r} must be a whole number of at least 1")
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        X, components = sample(self._theta(), n_samples, rng)
        return X, self._named(components)

    def uncertainty(
        self, X: Any, y: Any = None, *, sites: Any = None, sample_weight: Any = None, robust: bool = False
    ) -> intervals.Uncertainty:
        """Standard errors and confidence intervals, from the rows of the fit.

        Parameters
        ----------
        X, y, sites, sample_weight : as in the fit; each site's rows are taken at its estimate, or with sites=None
            all rows at the consensus
        robust : the sandwich covariance, also valid for sampling weights and components that are not Gaussian
        """
        check_is_fitted(self)
        return intervals.uncertainty(self, X, y, sites=sites, sample_weight=sample_weight, robust=robust)

    def to_sklearn(self) -> GaussianMixture:
        """The consensus as a fitted `sklearn.mixture.GaussianMixture`."""
        check_is_fitted(self)
        mixture = GaussianMixture(self.n_components, reg_covar=self.reg_covar, random_state=self.random_state)
        mixture.weights_, mixture.means_, mixture.covariances_ = self._theta()
        mixture.precisions_cholesky_ = precision_factor(self.covariances_).swapaxes(-1, -2)
        mixture.precisions_ = mixture.precisions_cholesky_ @ mixture.precisions_cholesky_.swapaxes(-1, -2)
        mixture.converged_, mixture.n_iter_ = self.converged_, self.n_rounds_
        mixture.lower_bound_ = float(self.history_["log_likelihood"][-1])
        mixture.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            mixture.feature_names_in_ = self.feature_names_in_
        return mixture
