"""Standardisation and principal components across sites, held against scikit-learn's on the pooled rows."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sklearn
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gaussip import NetworkGaussianMixture
from gaussip.errors import DataError, DisagreementError, ModelFileError, SettingError
from gaussip.exchange import questions
from gaussip.exchange.codes import Raw
from gaussip.phases import summing
from gaussip.phases.base import Context
from gaussip.phases.basis import BasisPhase
from gaussip.phases.task import LocalData, Reduction, make_task
from gaussip.preprocessing import NetworkPCA, NetworkStandardScaler
from gaussip.rows.basis import load
from identities import identities, programs_of
from programs import settings


@pytest.fixture(scope="module")
def pooled():
    """Sites of very different sizes, one with fewer rows than features, far from zero."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 12)) @ rng.normal(size=(12, 12)) * np.geomspace(1, 1e-3, 12) + 1e4
    sites = np.repeat(list("abcdef"), [5, 300, 95, 100, 60, 40])
    X += (sites == "b")[:, None]
    return X, sites


@pytest.mark.parametrize("network", ["ring", "circle", "star"])
@pytest.mark.parametrize("keep", [3, 0.95, None])
def test_principal_components_are_those_of_the_pooled_rows(pooled, network, keep):
    X, sites = pooled
    mine = NetworkPCA(keep, network=network).fit(X, sites=sites)
    theirs = PCA(keep, svd_solver="full").fit(X)
    covariance = np.cov(X.T)
    np.testing.assert_allclose(mine.covariance_, covariance, rtol=0, atol=1e-12 * np.abs(covariance).max())
    assert mine.n_components_ == theirs.n_components_
    np.testing.assert_allclose(mine.explained_variance_ratio_, theirs.explained_variance_ratio_, atol=1e-12)
    lead = 3 if keep is None else mine.n_components_
    variances = np.linalg.eigvalsh(covariance)[::-1]
    bound = 1e-12 * variances[0] / (variances[lead - 1] - variances[lead])
    assert subspace_angles(mine.components_[:lead].T, theirs.components_[:lead].T).max() <= bound
    np.testing.assert_allclose(mine.components_[:lead], theirs.components_[:lead], atol=1e-6)  # signs too
    back = mine.inverse_transform(mine.transform(X))
    np.testing.assert_allclose(back, theirs.inverse_transform(theirs.transform(X)), rtol=1e-8)
    assert mine.bytes_ > 0
    assert mine.get_feature_names_out()[0] == "networkpca0"


def test_standardised_components_and_the_scaler(pooled):
    X, sites = pooled
    X = np.column_stack([X, np.full(len(X), 7.0)])  # a constant feature keeps its unit
    scaler, theirs = NetworkStandardScaler().fit(X, sites=sites), StandardScaler().fit(X)
    np.testing.assert_allclose(scaler.mean_, theirs.mean_, rtol=1e-14)
    np.testing.assert_allclose(scaler.var_[:-1], theirs.var_[:-1], rtol=1e-9)
    np.testing.assert_allclose(scaler.scale_, theirs.scale_, rtol=1e-9)
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(X)), X, rtol=1e-14)
    assert scaler.n_samples_seen_ == 600
    listed = NetworkStandardScaler().fit(X.tolist(), sites=sites)  # anything that becomes an array
    np.testing.assert_array_equal(listed.scale_, scaler.scale_)
    mine = NetworkPCA(4, standardise=True).fit(X, sites=sites)
    pooled_pca = PCA(4).fit(theirs.transform(X))
    np.testing.assert_allclose(mine.explained_variance_ratio_, pooled_pca.explained_variance_ratio_, rtol=1e-9)


def phases(X, sites, reduction):
    """Every site's part in agreeing on a basis, begun."""
    names = tuple(np.unique(sites).tolist())
    task = make_task(names, **settings("masked", n_features=X.shape[1], owners=None, reduction=reduction))
    mine = [LocalData(X[sites == name], None, None) for name in names]
    made = [BasisPhase.begin(Context(task, m, local), {}) for m, local in enumerate(mine)]
    for phase in made:
        phase.start()
    return made


def sent_otherwise(phase, changed):
    """The site that computes the basis sends something else: of how many components, or the basis."""
    honest = phase._ask

    def asked():
        ask = honest()
        return ask._replace(part=lambda held: changed(ask.part(held))) if isinstance(ask.code, Raw) else ask

    phase._ask = asked


def failures(made):
    """What the phases of all sites end with."""
    ended = [None] * len(made)
    while not any(ended) and not made[0].over:
        sides = [phase.outgoing() for phase in made]
        for m, phase in enumerate(made):
            try:
                phase.absorb({sender: sides[sender].message for sender in sides[m].due})
            except DisagreementError as error:  # of this site with the one that computed the basis
                ended[m] = error
            else:
                ended[m] = phase.failure
    return ended


def test_sites_get_the_basis_of_the_simulation(pooled):
    X, sites = pooled
    wanted = NetworkPCA(3, network="ring").fit(X, sites=sites)
    made = phases(X, sites, Reduction(3, False, 3))
    assert failures(made) == [None] * 6
    assert {phase.result.digest() for phase in made} == {wanted.digest_}


def test_one_of_very_many_sites_may_hold_most_of_the_rows():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20_000, 3)), rng.normal(size=(7500, 3))]) * [1, 2, 3]
    sites = np.concatenate([np.zeros(20_000, dtype=int), np.repeat(np.arange(1, 2501), 3)])
    found = NetworkPCA(3, network="random-regular(4)").fit(X, sites=sites[: len(X)])
    np.testing.assert_allclose(found.explained_variance_, PCA(3).fit(X).explained_variance_, rtol=1e-9)


def test_large_covariances_travel_in_pieces(pooled, monkeypatch):
    X, sites = pooled
    whole = NetworkPCA(4).fit(X, sites=sites)
    monkeypatch.setattr(questions, "PIECE", 20)
    monkeypatch.setattr(summing, "PIECE", 20)
    parts = NetworkPCA(4).fit(X, sites=sites)
    assert parts.n_exchanges_ > whole.n_exchanges_
    assert parts.digest_ == whole.digest_
    made = phases(X, sites, Reduction(4, False, 4))
    assert failures(made) == [None] * 6
    assert {phase.result.digest() for phase in made} == {whole.digest_}


@pytest.mark.parametrize("turned", [1 + 1e-5, np.nan, 0.0])
def test_a_basis_that_is_not_that_of_the_rows_is_refused(pooled, turned):
    """The first site sends another: every site refuses it, by its name."""
    made = phases(*pooled, Reduction(3, False, 3))
    sent_otherwise(made[0], lambda part: part * turned if part.size > 1 else part)
    for failure in failures(made):
        assert isinstance(failure, DisagreementError)
        assert "a, which computes the basis, sent a basis that does not fit" in str(failure)


@pytest.mark.parametrize(
    ("size", "text"), [(13, "of 13"), (2.5, "of 2.5"), (np.inf, "of inf"), (2, "that does not fit")]
)
def test_a_number_of_components_that_cannot_be_is_refused(pooled, size, text):
    made = phases(*pooled, Reduction(3, False, 12))
    sent_otherwise(made[0], lambda part: np.full((1, 1), size) if part.size == 1 else part)
    for failure in failures(made):
        assert isinstance(failure, DisagreementError)
        assert f"a, which computes the basis, sent a basis {text}" in str(failure)


def test_a_share_that_needs_more_components_than_allowed_is_refused(pooled):
    for failure in failures(phases(*pooled, Reduction(0.9999, False, 2))):
        assert isinstance(failure, DataError)
        assert re.search(r"0.9999 of the variance needs \d+ components, more than the 2 allowed", str(failure))


def test_only_rows_that_count_make_the_basis(pooled):
    X, sites = pooled
    names = tuple(np.unique(sites).tolist())
    weights = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    task = make_task(names, **settings("masked", n_features=12, owners=None, reduction=Reduction(3, True, 3)))
    made = [
        BasisPhase.begin(Context(task, m, LocalData(X[sites == name], None, weights[sites == name])), {})
        for m, name in enumerate(names)
    ]
    for phase in made:
        phase.start()
    assert failures(made) == [None] * 6
    counted = weights > 0
    wanted = NetworkPCA(3, standardise=True).fit(X[counted], sites=sites[counted])
    assert made[0].result.digest() == wanted.digest_


def test_a_basis_on_disk(pooled, tmp_path):
    X, sites = pooled
    pca = NetworkPCA(3).fit(X, sites=sites)
    names = [f"x{j}" for j in range(12)]
    pca.basis_.save(tmp_path / "basis.npz", names)
    basis, found = load(tmp_path / "basis.npz")
    assert found == names
    assert basis.digest() == pca.digest_
    np.testing.assert_array_equal(basis.reduced(X), pca.transform(X))
    with pytest.raises(DataError, match="the basis is of 12 features, the rows have 3"):
        basis.reduced(X[:, :3])
    pca.save(tmp_path / "again.npz")
    again = NetworkPCA.load(tmp_path / "again.npz")
    np.testing.assert_array_equal(again.transform(X), pca.transform(X))
    with pytest.raises(DataError, match="rows of the basis have 3 columns"):
        again.inverse_transform(X)
    NetworkGaussianMixture().fit(X[:, :2]).save(tmp_path / "model.npz")
    with pytest.raises(ModelFileError, match="is not a basis"):
        load(tmp_path / "model.npz")


@pytest.mark.parametrize("keep", [0, 13, 1.0, -0.5, "all", True])
def test_impossible_numbers_of_components(pooled, keep):
    with pytest.raises(SettingError, match="neither a number of components, 1 to 12, nor a share"):
        NetworkPCA(keep).fit(pooled[0], sites=pooled[1])


def test_rows_without_variance():
    with pytest.raises(DataError, match="all features are constant"):
        NetworkPCA(1).fit(np.ones((10, 3)), sites=list("aabbbbbccc"))
    with pytest.raises(DataError, match="all features are constant"):
        NetworkPCA(1).fit(np.full((10, 3), 0.1), sites=list("aabbbbbccc"))
    with pytest.raises(SettingError, match="standardise='no' must be True or False"):
        NetworkPCA(1, standardise="no").fit(np.eye(3))
    assert NetworkPCA(1 - 1e-15).fit(np.random.default_rng(0).normal(size=(12, 30))).n_components_ == 11
    with pytest.raises(DataError, match="sites has 2 entries for 10 rows"):
        NetworkPCA(1).fit(np.ones((10, 3)), sites=["a", "b"])


def test_in_a_pipeline(pooled):
    """With scikit-learn's metadata routing the sites reach every step."""
    X, sites = pooled
    with sklearn.config_context(enable_metadata_routing=True):
        steps = make_pipeline(
            NetworkPCA(2).set_fit_request(sites=True),
            NetworkGaussianMixture(2, random_state=0, tol=1e-2, max_rounds=5000).set_fit_request(sites=True),
        )
        steps.fit(X, sites=sites)
        assert steps.predict(X).shape == (600,)


def test_real_features_of_eight_hospitals(radiography):
    """2048 features of 21165 images at 8 sites, in chunks, against the pooled rows."""
    with np.load(radiography / "features_resnet50.npz", allow_pickle=False) as stored:
        X, sites = stored["features"].astype(float), stored["site"]
    pca = NetworkPCA(95).fit(X, sites=sites)
    covariance = np.cov(X.T)
    assert np.linalg.norm(pca.covariance_ - covariance) <= 1e-12 * np.linalg.norm(covariance)
    variances, vectors = np.linalg.eigh(covariance)
    bound = 1e-12 * variances[-1] / (variances[-95] - variances[-96])
    assert subspace_angles(pca.components_.T, vectors[:, -95:]).max() <= bound


@pytest.mark.parametrize("network", ["ring", "star"])
def test_it_costs_what_sites_that_prove_who_they_are_send(pooled, network, tmp_path):
    """Their keys, and sums with receipts."""
    X, sites = pooled
    names = tuple("abcdef")
    given = settings(
        "masked", network=network, n_features=12, owners=None, reduction=Reduction(3, False, 3), min_count=1
    )
    rows = [LocalData(X[sites == name], None, None) for name in names]
    programs, sent = programs_of(make_task(names, **given), rows, identities(tmp_path, names)), 0
    while "basis" not in programs[0].results:
        sides = [program.outgoing() for program in programs]
        sent += sum(len(side.to) * sum(values.nbytes for values in side.message.values()) for side in sides)
        for program, side in zip(programs, sides, strict=True):
            program.absorb({q: sides[q].message for q in side.due})
    pca = NetworkPCA(3, network=network).fit(X, sites=sites)
    assert programs[0].results["basis"].digest() == pca.digest_
    assert (pca.n_exchanges_, pca.bytes_) == (programs[0].exchanges, sent)
