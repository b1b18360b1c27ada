"""The estimator among scikit-learn's tools: scorers, searches, warm starts, and GaussianMixture's attributes."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.stats import multivariate_normal
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.mixture._gaussian_mixture import _compute_precision_cholesky
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import REGISTRY
from gaussip.errors import LabelError, SettingError
from gaussip.mixture.theta import pack
from gaussip.selection import labelled_folds
from gaussip.studies.simulation_model import Setting, draw

quiet = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::gaussip.errors.PooledTargetWarning",
    "ignore::gaussip.errors.DiagnosisWarning",
)  # fmt: skip
FOLDS = StratifiedKFold(4, shuffle=True, random_state=0)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X[:, :4], y, np.array(["Asti", "Bari", "Como"])[np.arange(len(y)) % 3]


@pytest.fixture(scope="module")
def overlapping():
    return draw(Setting(n_rows=900, n_sites=4, n_features=2, delta=2, labelled=0.3), 1)


@pytest.mark.parametrize(
    ("classes", "scores"),
    [
        (2, ["accuracy", "roc_auc", "average_precision", "neg_log_loss", "neg_brier_score", "f1"]),
        (3, ["accuracy", "roc_auc_ovr", "roc_auc_ovo_weighted", "neg_log_loss", "balanced_accuracy"]),
    ],
)
def test_scorers_give_what_they_give_of_the_same_model(wine, classes, scores):
    """With every row labelled, a mixture with a component for each class is quadratic discriminant analysis."""
    X, y, sites = (part[wine[1] < classes] for part in wine)
    mine = NetworkGaussianMixture(classes, init_params="labels", reg_covar=0)
    found = cross_validate(mine, X, y, cv=FOLDS, scoring=scores, params={"sites": sites})
    wanted = cross_validate(QuadraticDiscriminantAnalysis(), X, y, cv=FOLDS, scoring=scores)
    for name in scores:
        np.testing.assert_allclose(found[f"test_{name}"], wanted[f"test_{name}"], rtol=1e-9, err_msg=name)


def test_it_is_a_classifier_where_its_fit_had_labels(wine):
    X, y, sites = wine
    mixture = NetworkGaussianMixture(3, random_state=0)
    assert not is_classifier(mixture)
    assert not is_classifier(clone(mixture).fit(X, sites=sites))
    assert is_classifier(clone(mixture).fit(X, y, sites=sites))
    assert np.isfinite(cross_val_score(mixture, X, cv=3)).all()  # the log-density, without labels


@pytest.mark.parametrize("kind", ["-1", "NaN", "Int64", "words", "sets"])
def test_only_labelled_rows_are_scored(overlapping, kind):
    """Labels of every kind: each row is predicted by the fit that had all labels but those of its fold."""
    X, classes = overlapping.X, np.minimum(overlapping.classes, 1)
    known = overlapping.labels >= 0
    words = np.array(["well", "ill"])
    y = {
        "-1": np.where(known, classes, -1),
        "NaN": np.where(known, classes, np.nan),
        "Int64": pd.Series(np.where(known, classes, np.nan)).astype("Int64"),
        "words": pd.Series(np.where(known, words[classes], None)),
        "sets": np.array([w if k else frozenset(words) for w, k in zip(words[classes], known, strict=True)]),
    }[kind]
    folds = labelled_folds(y, 4, random_state=0)
    mixture = NetworkGaussianMixture(3, init_params="labels", components_per_class={y[known.argmax()]: 2}, tol=1e-4)
    found = cross_val_score(
        mixture, X, y, cv=folds, scoring="roc_auc", params={"sites": overlapping.sites}, error_score="raise"
    )
    for (train, test), score in zip(folds.split(), found, strict=True):
        assert known[test].all()
        assert np.isin(np.flatnonzero(~known), train).all()
        assert len(np.intersect1d(train, test)) == 0
        fit = clone(mixture).fit(X[train], np.asarray(y)[train], sites=overlapping.sites[train])
        share = fit.predict_proba(X[test])[:, 1]
        assert score == pytest.approx(roc_auc_score(np.asarray(y)[test] == fit.classes_[1], share), abs=1e-12)
    assert sorted(np.concatenate([test for _, test in folds.split()])) == np.flatnonzero(known).tolist()


def test_folds_that_cannot_be():
    with pytest.raises(LabelError, match="no row has a label"):
        labelled_folds([-1, -1])
    with pytest.raises(SettingError, match="of at most 2: the rows that are labelled 'b'"):
        labelled_folds(["a", "a", "a", "b", None, "b"], 3)


def test_components_without_a_class_are_scored_too(wine):
    """The class's column is taken by its name, and a row of no class counts as wrong."""
    X, y, sites = wine
    labels = np.where(y < 2, y, -1)
    folds = labelled_folds(labels, 3, random_state=0)
    mixture = NetworkGaussianMixture(3, random_state=0)
    found = cross_validate(mixture, X, labels, cv=folds, scoring=["roc_auc", "accuracy"], params={"sites": sites})
    for n, (train, test) in enumerate(folds.split()):
        fit = clone(mixture).fit(X[train], labels[train], sites=sites[train])
        assert fit.predict_proba(X).shape == (len(X), 3)
        assert found["test_roc_auc"][n] == roc_auc_score(labels[test], fit.predict_proba(X[test])[:, 1])
        assert found["test_accuracy"][n] == (fit.predict(X[test]) == labels[test]).mean()


def test_known_classes_are_scored_by_a_function_where_components_are_free(overlapping):
    """The function of the how-to page: all classes but one, which has no label, and components for both."""
    X, y = overlapping.X, overlapping.labels
    folds = labelled_folds(y, 3, random_state=0)
    mixture = NetworkGaussianMixture(4, random_state=0, max_rounds=3, tol=1e9)

    def ovr(mixture, X, y):
        shares = mixture.predict_proba(X)[:, : len(mixture.classes_)]
        return roc_auc_score(y, shares / shares.sum(axis=1, keepdims=True), multi_class="ovr")

    scores = cross_val_score(mixture, X, y, cv=folds, scoring=ovr, params={"sites": overlapping.sites})
    assert ((scores > 0.8) & (scores < 1)).all()


def test_a_search_within_cross_validation(wine):
    X, y, sites = wine
    frame = pd.DataFrame(X, columns=list("abcd")).assign(cellar=sites)
    search = GridSearchCV(
        NetworkGaussianMixture(3, init_params="labels"), {"shrinkage": [0.0, 0.5]}, cv=FOLDS, scoring="roc_auc_ovr"
    )
    search.fit(frame, y, sites="cellar")
    assert search.best_estimator_.feature_names_in_.tolist() == list("abcd")
    assert search.best_score_ > 0.9
    scores = cross_val_score(search, frame, y, cv=FOLDS, params={"sites": "cellar"})  # the search's own score
    assert ((scores > 0.9) & (scores <= 1)).all()
    with sklearn.config_context(enable_metadata_routing=True):
        routed = GridSearchCV(
            search.estimator.set_fit_request(sites=True), search.param_grid, cv=FOLDS, scoring="roc_auc_ovr"
        )
        assert routed.fit(X, y, sites=sites).best_score_ == search.best_score_


@quiet
@pytest.mark.parametrize("name", sorted(REGISTRY))
@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_many_short_fits_are_one_long_fit(overlapping, name, rounds):
    settings = {"algorithm": name, "eta": 0.1, "tol": 0, "random_state": 0, "shrinkage": 0.1}
    rows = {"X": overlapping.X, "y": overlapping.labels, "sites": overlapping.sites}
    mixture = NetworkGaussianMixture(3, max_rounds=rounds, warm_start=True, **settings)
    heights, total = [], 0
    for _ in range(5):
        mixture.fit(**rows)
        heights += mixture.history_["log_likelihood"].tolist()
        total += mixture.n_rounds_
    assert total == 5 * rounds or name == "exact"  # which ends the step that it is in
    once = NetworkGaussianMixture(3, max_rounds=total, **settings).fit(**rows)
    assert once.history_["log_likelihood"].tolist() == heights
    np.testing.assert_array_equal(mixture.site_means_, once.site_means_)
    np.testing.assert_array_equal(mixture.site_covariances_, once.site_covariances_)
    np.testing.assert_array_equal(mixture.covariances_, once.covariances_)


@quiet
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_fit_in_pieces_comes_to_the_end_of_a_long_one(overlapping, name):
    settings = {"algorithm": name, "eta": 0.1, "tol": 1e-8, "random_state": 0}
    rows = {"X": overlapping.X, "y": overlapping.labels, "sites": overlapping.sites}
    start = NetworkGaussianMixture(3, max_rounds=1, **settings).fit(**rows)
    once = NetworkGaussianMixture(3, max_rounds=6000, **settings).fit(**rows)
    mixture = NetworkGaussianMixture(3, max_rounds=20, warm_start=True, **settings)
    for _ in range(300):
        if mixture.fit(**rows).converged_:
            break
    assert abs(mixture.site_means_ - once.site_means_).max() < 1e-6 < abs(once.means_ - start.means_).max()
    assert mixture.lower_bound_ == pytest.approx(once.lower_bound_, abs=1e-9)
    before = mixture.site_means_
    if once.converged_:
        assert mixture.fit(**rows).n_rounds_ <= 12  # it is there: a round to see that, of exact a step
        np.testing.assert_allclose(mixture.site_means_, before, atol=1e-6)


@quiet
def test_a_warm_start_goes_on_from_the_estimates_where_something_changed(overlapping, tmp_path):
    X, sites = overlapping.X, overlapping.sites
    settings = {"algorithm": "em", "accelerate": False, "tol": 0, "random_state": 0}
    three = NetworkGaussianMixture(3, max_rounds=3, **settings).fit(X, sites=sites)

    def after(**changes):
        mixture = NetworkGaussianMixture(3, max_rounds=1, warm_start=True, **settings)
        for _ in range(2):
            mixture.fit(X, sites=sites)
        return mixture.set_params(**changes)

    np.testing.assert_array_equal(after(tol=1e-3).fit(X, sites=sites).means_, three.means_)
    mixture = after()
    mixture.save(tmp_path / "model.npz")
    loaded = NetworkGaussianMixture.load(tmp_path / "model.npz").fit(X, sites=sites)
    np.testing.assert_allclose(loaded.means_, three.means_, rtol=1e-12)
    other = after().fit(X + 1.0, sites=sites)  # EM's step from these estimates on those rows
    twin = GaussianMixture(
        3, max_iter=1, tol=0, weights_init=mixture.weights_, means_init=mixture.means_,
        precisions_init=mixture.precisions_,
    ).fit(X + 1.0)  # fmt: skip
    np.testing.assert_allclose(other.means_, twin.means_, rtol=1e-9)
    moved = after()
    moved.site_means_ = moved.site_means_ + 1.0
    shifted = after()
    assert abs(moved.fit(X, sites=sites).means_ - shifted.fit(X, sites=sites).means_).max() > 0.01


@quiet
def test_other_rows_or_settings_are_not_taken_for_those_of_the_last_fit(overlapping):
    X, sites = overlapping.X, overlapping.sites
    y = np.where(overlapping.labels >= 0, np.array(["a", "b", "c"])[overlapping.classes], None)
    free, labelled = np.flatnonzero(overlapping.labels < 0), np.flatnonzero(overlapping.labels >= 0)
    here = free[sites[free] == 0][:2]

    def digest(X=X, y=y, sites=sites, v=None, **settings):
        settings = {"max_rounds": 1, "warm_start": True, "init_params": "labels", **settings}
        mixture = NetworkGaussianMixture(3, **settings).fit(X, y, sites=sites, sample_weight=v)
        return mixture._left_off.digest

    def changed(column, at, value):
        column = column.copy()
        column[at] = value
        return column

    others = [
        digest(changed(X, (here, 0), X[here[::-1], 0])),  # whose sums are the same
        digest(y=changed(y, labelled[0], None)),
        digest(y=changed(y, free[:5], frozenset("ab"))),
        digest(y=changed(y, free[:5], frozenset("ac"))),  # the same numbers, for other sets of classes
        digest(sites=changed(sites, here[0], 1)),
        digest(v=np.full(len(X), 2.0)),
        digest(network="star"),
        digest(reg_covar=1e-3),
        digest(unlabelled_weight=0.5),
        digest(algorithm="mnem"),
        digest({f"{m}": X[sites == m] for m in range(4)}, None, None, init_params="kmeans"),
        digest({f"{m}": X[sites == m] + 1 for m in range(4)}, None, None, init_params="kmeans"),
    ]
    assert digest() == digest(tol=1e-3, max_rounds=2, random_state=1)
    assert len({digest(), *others}) == 1 + len(others)


@quiet
@pytest.mark.parametrize("rounds", [1, 7])
def test_attributes_are_those_of_gaussian_mixture_from_the_same_start(overlapping, rounds):
    X, truth = overlapping.X, overlapping.truth
    mine = NetworkGaussianMixture(
        3, algorithm="em", accelerate=False, max_rounds=rounds, tol=0, weights_init=truth.weights,
        means_init=truth.means, covariances_init=truth.covariances,
    ).fit(X, sites=overlapping.sites)  # fmt: skip
    theirs = GaussianMixture(
        3, max_iter=rounds, tol=0, weights_init=truth.weights, means_init=truth.means,
        precisions_init=np.linalg.inv(truth.covariances),
    ).fit(X)  # fmt: skip
    assert mine.n_iter_ == theirs.n_iter_ == rounds
    assert mine.lower_bound_ == pytest.approx(theirs.lower_bound_, abs=1e-10)
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), rtol=1e-8, atol=1e-10, err_msg=name)
    np.testing.assert_allclose(mine.precisions_cholesky_, _compute_precision_cholesky(mine.covariances_, "full"))
    np.testing.assert_allclose(mine.precisions_ @ mine.covariances_, np.broadcast_to(np.eye(2), (3, 2, 2)), atol=1e-9)
    twin = mine.to_sklearn()
    np.testing.assert_array_equal(twin.precisions_, mine.precisions_)
    np.testing.assert_array_equal(twin.precisions_cholesky_, mine.precisions_cholesky_)
    assert (twin.lower_bound_, twin.n_iter_) == (mine.lower_bound_, mine.n_iter_)
    assert mine.score(X) == pytest.approx(theirs.score(X), abs=1e-10)
    assert not hasattr(NetworkGaussianMixture(), "precisions_")


@pytest.mark.parametrize("algorithm", ["em", "masked", "mnem"])
def test_without_labels_the_fit_s_log_likelihood_is_the_score(overlapping, algorithm):
    X = np.where(np.random.default_rng(0).random(overlapping.X.shape) < 0.1, np.nan, overlapping.X)
    sites = overlapping.sites if algorithm != "mnem" else np.zeros(len(X))  # sites of mnem differ from the consensus
    mixture = NetworkGaussianMixture(3, algorithm=algorithm, tol=1e-9, random_state=0, network="complete", eta=1.0)
    rows = ~np.isnan(X).all(axis=1)
    mixture.fit(X[rows], sites=sites[rows])
    assert mixture.converged_
    assert mixture.lower_bound_ == pytest.approx(mixture.score(X[rows]), abs=1e-10)


@quiet
@pytest.mark.parametrize("unlabelled_weight", [1.0, 0.6])
def test_with_labels_a_row_s_own_class_alone_enters_it(overlapping, unlabelled_weight):
    """log(alpha_k phi_k(x)), summed over the components of the row's class, at the estimate of the round before."""
    X, rng = overlapping.X, np.random.default_rng(0)
    y = np.where(overlapping.labels >= 0, np.minimum(overlapping.labels, 1), -1)
    v = rng.uniform(0.5, 2, len(X))
    mixture = NetworkGaussianMixture(
        4, components_per_class={1: 2}, init_params="labels", random_state=0, accelerate=False, warm_start=True,
        max_rounds=4, tol=0, unlabelled_weight=unlabelled_weight, shrinkage=0.2,
    )  # fmt: skip
    rows = {"y": y, "sites": overlapping.sites, "sample_weight": v}
    before = mixture.fit(X, **rows)._theta()
    mixture.set_params(max_rounds=1).fit(X, **rows)
    joint = np.stack([w * multivariate_normal(m, S).pdf(X) for w, m, S in zip(*before, strict=True)], axis=1)
    assert mixture.class_of_component_.tolist() == [0, 1, 1, -1]
    allowed = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]])[y]  # the last is that of -1
    counted = v * np.where(y < 0, unlabelled_weight, 1.0)
    wanted = counted @ np.log((joint * allowed).sum(axis=1)) / counted.sum()
    assert mixture.lower_bound_ == pytest.approx(wanted, abs=1e-10)
    assert abs(mixture.score(X) - wanted) > 0.01  # of which labels are no part
    assert pack(before).shape == (4, 6)
