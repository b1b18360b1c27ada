"""Preprocessing across sites with scikit-learn's transformer API, all sites simulated in this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gaussip.arrays import NDArray
from gaussip.errors import DataError, SettingError
from gaussip.exchange.codes import Wide
from gaussip.exchange.plan import Network
from gaussip.exchange.questions import NOTHING, Replicated, announced, answered, cost
from gaussip.mixture.theta import unvech
from gaussip.networks import mixing_weights
from gaussip.phases.basis import Summary, ask_basis, ask_summary
from gaussip.phases.task import Reduction
from gaussip.rows.basis import Basis, check_keep, load
from gaussip.rows.checks import check_cells
from gaussip.rows.frames import by_column_name, validated
from gaussip.rows.held import Held
from gaussip.rows.problem import seeds_of
from gaussip.rows.rows import Rows
from gaussip.rows.sites import places_of_sites, site_of_rows
from gaussip.settings import default
from gaussip.starts.facts import ask_facts


class _Spending:
    """What the sums of a computation cost over a network."""

    def __init__(self, network: Network | None, watch: Callable[[int], None]) -> None:
        self._network, self._watch = network, watch
        self.total, self.words = NOTHING if network is None else announced(network), 0

    def __call__(self, words: int) -> None:
        if self._network is not None:
            self.total = self.total.plus(cost(self._network, words))
        self.words += words
        self._watch(self.words)


class _Split(NamedTuple):
    names: NDArray  # (M,)
    held: Held
    spent: _Spending


class _AcrossSites(TransformerMixin, BaseEstimator):
    """The part that both transformers share: rows checked and split by site."""

    network: Any
    random_state: Any
    n_features_in_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _checked(self, X: Any, *, reset: bool) -> NDArray:
        rows = validated(self, X, reset=reset)
        check_cells(rows, getattr(self, "feature_names_in_", None))
        return rows

    def _by_site(self, X: NDArray, sites: Any, watch: Callable[[int], None] = lambda words: None) -> _Split:
        if len(X) < 2:
            raise DataError(f"one row has no variance: n_samples={len(X)}, and at least 2 are needed")
        codes, names = site_of_rows(sites, len(X))
        W = mixing_weights(self.network, names.tolist(), seed=seeds_of(self.random_state, 1)[0])
        values = [X[rows] for rows in places_of_sites(codes)]
        held = Held.everything(Rows.of_sites(values), values, None)
        return _Split(names, held, _Spending(Network(W) if len(names) > 1 else None, watch))


class NetworkStandardScaler(OneToOneFeatureMixin, _AcrossSites):
    """Standardise features to mean zero and unit variance over all sites, by sums over all of them.

    Parameters
    ----------
    network, random_state : as in `NetworkGaussianMixture`

    Attributes
    ----------
    mean_, var_, scale_ : (p,), as scikit-learn's StandardScaler gives them on the pooled rows
    n_samples_seen_ : int, rows of all sites
    sites_ : (M,) names of the sites, sorted
    """

    def __init__(self, *, network: Any = default("network"), random_state: Any = None) -> None:
        self.network = network
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, sites: Any = None) -> Self:
        """Find the mean and variance of each feature; ``sites`` (n,) names each row's site, or is a column of X."""
        X, _, sites, _ = by_column_name(X, y, sites)
        X = self._checked(X, reset=True)
        split = self._by_site(X, sites)
        asked = ask_facts(X.shape[1], 0, names=getattr(self, "feature_names_in_", None))
        facts = answered(asked, split.held, len(split.names), split.spent)
        self.sites_ = split.names
        self.n_samples_seen_ = round(float(facts.rows))
        self.mean_, self.var_, self.scale_ = facts.mean, facts.variance, facts.spread
        return self

    def transform(self, X: Any) -> NDArray:
        """(x - mean) / scale."""
        check_is_fitted(self)
        return np.asarray((self._checked(X, reset=False) - self.mean_) / self.scale_)

    def inverse_transform(self, X: Any) -> NDArray:
        """The inverse of `transform`."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X, dtype=float) * self.scale_ + self.mean_)


class NetworkPCA(ClassNamePrefixFeaturesOutMixin, _AcrossSites):
    """Principal components of all sites' rows, by sums over all of them.

    All sites know the covariance of all rows. One decomposes it and sends the basis; the others check it against the
    covariance they know.

    Parameters
    ----------
    n_components : int, float or None
        The number of components, or the share of the variance in (0, 1) that they must exceed; None for all.
    standardise : bool
        Whether features are first divided by their standard deviations over all sites.
    network, random_state : as in `NetworkGaussianMixture`

    Attributes
    ----------
    components_ : (d, p), orthonormal; the entry of largest size in each is positive, as in scikit-learn
    explained_variance_, explained_variance_ratio_ : (d,)
    mean_, scale_ : (p,)
    covariance_ : (p, p), of the pooled rows, as all sites know it (divided by n - 1)
    n_components_, n_samples_ : int
    sites_ : (M,) names of the sites, sorted
    digest_ : str, of the basis that all sites adopted
    n_exchanges_, bytes_ : int, exchanges with the neighbours, and the bytes that all sites sent, keys included

    Examples
    --------
    >>> import numpy as np
    >>> from gaussip.preprocessing import NetworkPCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 6)) * [5, 3, 1, 1, 1, 1]
    >>> NetworkPCA(0.8).fit(X, sites=np.repeat(list("abcd"), 100)).transform(X).shape
    (400, 2)
    """

    def __init__(
        self,
        n_components: float | int | None = None,
        *,
        standardise: bool = False,
        network: Any = default("network"),
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.standardise = standardise
        self.network = network
        self.random_state = random_state

    _watch: Callable[[float], None] = staticmethod(lambda part: None)  # the command line's progress bar

    def fit(self, X: Any, y: Any = None, *, sites: Any = None) -> Self:
        """Agree on a basis; ``sites`` (n,) names the site of each row, or is a column of the frame X."""
        X, _, sites, _ = by_column_name(X, y, sites)
        X = self._checked(X, reset=True)
        p = X.shape[1]
        if not isinstance(self.standardise, (bool, np.bool_)):
            raise SettingError(f"standardise={self.standardise!r} must be True or False")
        keep = check_keep(min(X.shape) if self.n_components is None else self.n_components, p)
        expected = Wide().words(1 + 2 * p) + p * (p + 1) // 2 + 2 * p
        split = self._by_site(X, sites, lambda words: self._watch(min(1.0, words / expected)))
        wanted = Reduction(keep, bool(self.standardise), p)

        def agreed() -> Replicated[tuple[Summary, Basis]]:
            summary = yield from ask_summary(names=getattr(self, "feature_names_in_", None))
            return summary, (yield from ask_basis(summary, wanted, str(split.names[0])))

        summary, basis = answered(agreed(), split.held, len(split.names), split.spent)
        self.n_exchanges_, self.bytes_ = split.spent.total
        self.sites_ = split.names
        self.covariance_ = unvech(summary.covariance)
        self._keep(basis)
        return self

    def _keep(self, basis: Basis) -> None:
        self.basis_ = basis
        self.mean_, self.scale_, self.components_ = basis.mean, basis.scale, basis.components
        self.explained_variance_ = basis.variances
        self.explained_variance_ratio_ = basis.variances / basis.total
        self.n_components_, self.n_samples_ = len(basis.variances), int(basis.n_rows)
        self._n_features_out = self.n_components_
        self.digest_ = basis.digest()

    def transform(self, X: Any) -> NDArray:
        """Rows in the basis, (n, d)."""
        check_is_fitted(self)
        return self.basis_.reduced(self._checked(X, reset=False))

    def inverse_transform(self, X: Any) -> NDArray:
        """Rows (n, d) of the basis in the original features, (n, p): the nearest to the rows before `transform`."""
        check_is_fitted(self)
        X = np.asarray(X, dtype=float)
        if X.ndim != 2 or X.shape[1] != self.n_components_:
            raise DataError(f"rows of the basis have {self.n_components_} columns; this array has shape {X.shape}")
        return np.asarray(X @ self.components_ * self.scale_ + self.mean_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the basis to one file, without pickle, as `gaussip reduce` does."""
        check_is_fitted(self)
        self.basis_.save(path, [str(name) for name in getattr(self, "feature_names_in_", [])])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A transformer with the basis in a file written by `save`, by `gaussip reduce` or by a site."""
        basis, names = load(path)
        transformer = cls(len(basis.variances))
        transformer._keep(basis)
        transformer.n_features_in_ = len(basis.mean)
        if names:
            transformer.feature_names_in_ = np.array(names, dtype=object)
        return transformer
