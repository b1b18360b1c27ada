"""Private fits as people make them: estimates, reports, intervals, files, commands, and what is refused."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest

from command import gaussip
from gaussip import NetworkGaussianMixture
from gaussip.errors import (
    CollapseError,
    DataError,
    GaussipError,
    PrivacyError,
    PrivacyWarning,
    SettingError,
    StartError,
)
from gaussip.findings import examine
from gaussip.findings.evidence import of_estimator
from gaussip.privacy import Privacy
from gaussip.privacy.accounting import epsilon_of
from gaussip.privacy.plan import Plan
from gaussip.selection import choose_per_class

SITES = list("abcdef")


@pytest.fixture(scope="module")
def patients():
    """Twelve thousand of them, a tenth with a diagnosis."""
    rng = np.random.default_rng(0)
    ill = rng.random(12_000) < 0.4
    return pd.DataFrame({
        "age": np.clip(rng.normal(np.where(ill, 62, 48), 9), 0, 120),
        "chol": np.clip(rng.normal(np.where(ill, 6.3, 5.1), 0.8), 0, 20),
        "hospital": np.array(SITES)[np.arange(12_000) % 6],
        "diagnosis": np.where(rng.random(12_000) < 0.1, np.where(ill, "ill", "well"), None),
    })  # fmt: skip


def asked(epsilon=4, **changes):
    return {"epsilon": epsilon, "bounds": {"age": [0, 120], "chol": [0, 20]}, "noise_seed": 1} | changes


def fitted(patients, K=2, labels=True, weight=None, **changes):
    changes = {"privacy": asked(), "random_state": 0} | changes
    mixture = NetworkGaussianMixture(K, **changes)
    frame = patients if labels else patients.drop(columns="diagnosis")
    return mixture.fit(frame, y="diagnosis" if labels else None, sites="hospital", sample_weight=weight)


def pooled(patients, K=2, labels=True, **changes):
    return fitted(patients, K, labels, privacy=None, algorithm="em", tol=1e-8, **changes)


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "VEI"])
def test_a_private_fit_is_near_to_pooled_em(patients, labels, kind):
    mixture, reference = (make(patients, labels=labels, covariance_type=kind) for make in (fitted, pooled))
    order = np.argsort(mixture.means_[:, 0]), np.argsort(reference.means_[:, 0])
    np.testing.assert_allclose(mixture.means_[order[0]], reference.means_[order[1]], rtol=0.03)
    np.testing.assert_allclose(mixture.weights_[order[0]], reference.weights_[order[1]], atol=0.04 if labels else 0.1)
    X = patients[["age", "chol"]]
    assert reference.score(X) - mixture.score(X) < 2e-3


def test_what_is_guaranteed_and_reported(patients, tmp_path):
    mixture = fitted(patients, privacy=asked() | {"noise_seed": None})
    said = mixture.privacy_
    assert 3.99 < said.epsilon <= 4
    assert said.epsilon == pytest.approx(epsilon_of(said.mu, 0.999e-6), rel=1e-9)
    assert said.mu == pytest.approx(np.sqrt(sum(mu**2 for _, mu, _ in said.releases)))
    assert str(said).startswith("(4, 1e-06)-differential privacy for one row added or removed, even if another site")
    assert {name for name, _, _ in said.releases} == {"features", "products", "labelled rows", "moments"}
    assert "about 1" in str(mixture.summary())
    assert mixture.site_mass_.sum() == pytest.approx(12_000, abs=200)
    assert not (mixture.site_mass_ == 2000).any()  # the rows of a site are nobody's business
    assert np.isnan(mixture.history_["log_likelihood"]).all()
    mixture.save(tmp_path / "model.npz")
    again = NetworkGaussianMixture.load(tmp_path / "model.npz")
    assert again.privacy_ == said
    assert again.privacy == mixture.privacy
    pd.testing.assert_frame_equal(again.uncertainty().to_frame(), mixture.uncertainty().to_frame())


def test_the_noise_comes_from_the_operating_system_whatever_the_seed(patients):
    one, other = (fitted(patients, privacy=asked() | {"noise_seed": None}) for _ in range(2))
    assert (one.means_ != other.means_).all()
    seeded = [fitted(patients) for _ in range(2)]
    np.testing.assert_array_equal(seeded[0].means_, seeded[1].means_)
    assert seeded[0].privacy_.epsilon == np.inf
    assert str(seeded[0].privacy_).startswith("no privacy")


def test_intervals_count_the_noise_and_need_no_rows(patients):
    small, large = (fitted(patients, privacy=asked(epsilon)).uncertainty() for epsilon in (1, 8))
    X = patients[["age", "chol"]]
    exact = pooled(patients).uncertainty(X, patients["diagnosis"], sites=patients["hospital"]).standard_errors
    assert (small.standard_errors.means > 1.2 * exact.means).all()
    ratio = large.standard_errors.means / exact.means
    assert ((ratio > 0.95) & (ratio < 1.2)).all()
    with pytest.raises(PrivacyError, match="standard errors from its rows would not be"):
        fitted(patients).uncertainty(X, patients["diagnosis"], sites=patients["hospital"])
    with pytest.raises(PrivacyError, match=r"are for full, tied"):
        fitted(patients, covariance_type="VEI").uncertainty()


def test_missing_cells_and_a_site_that_lacks_a_feature(patients):
    frame = patients.copy()
    frame.loc[np.random.default_rng(1).random(len(frame)) < 0.2, "chol"] = np.nan
    frame.loc[frame["hospital"] == "b", "chol"] = np.nan
    mixture = fitted(frame)
    np.testing.assert_allclose(mixture.means_, [[62, 6.3], [48, 5.1]], rtol=0.03)
    errors = mixture.uncertainty().standard_errors.means, fitted(patients).uncertainty().standard_errors.means
    assert (errors[0][:, 1] > 1.1 * errors[1][:, 1]).all()


@pytest.mark.parametrize("kind", ["full", "spherical"])
def test_groups_are_found_without_labels_from_any_seed(kind):
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [6, 0], [0, 6], [5, 5]])
    X, sites = centres[rng.integers(4, size=8000)] + rng.normal(size=(8000, 2)), np.arange(8000) % 5
    for seed in range(4):
        privacy = {"epsilon": 4, "bounds": [-10, 16], "noise_seed": seed}
        mixture = NetworkGaussianMixture(4, random_state=seed, covariance_type=kind, privacy=privacy)
        found = mixture.fit(X, sites=sites).means_
        near = np.linalg.norm(found[:, None] - centres, axis=2)
        assert sorted(near.argmin(axis=1)) == [0, 1, 2, 3]
        assert near.min(axis=1).max() < 0.1


def test_several_components_to_a_class_and_free_ones():
    rng = np.random.default_rng(0)
    ill = rng.random(12_000) < 0.5
    X = np.where(ill, rng.choice([-3, 3], 12_000), 0.0)[:, None] + rng.normal(size=(12_000, 2))
    y, sites = np.where(rng.random(12_000) < 0.1, np.where(ill, "ill", "well"), None), np.arange(12_000) % 5
    privacy = {"epsilon": 4, "bounds": [-10, 10], "noise_seed": 0}
    mixture = NetworkGaussianMixture(3, components_per_class={"ill": 2}, random_state=0, privacy=privacy)
    mixture.fit(X, y, sites=sites)
    assert (mixture.predict(X) == np.where(ill, "ill", "well")).mean() > 0.97
    well = np.where(y == "well", "well", None)
    free = NetworkGaussianMixture(3, random_state=1, privacy=privacy).fit(X, well, sites=sites)
    assert free.class_of_component_.tolist() == [0, -1, -1]
    assert (free.predict(X) == np.where(ill, "none", "well")).mean() > 0.95


def test_a_guarantee_for_patients_with_several_rows(patients, tmp_path):
    """Each patient counts as one, however many rows there are; nobody is found by a name."""
    many = patients.assign(who=[f"p{i}" for i in range(len(patients))])
    repeated = pd.concat([many, many.iloc[:2000], many.iloc[:2000]])  # three rows of the first two thousand
    mixture = fitted(repeated, privacy=asked(patient="who"))
    assert mixture.feature_names_in_.tolist() == ["age", "chol"]
    assert mixture.site_mass_.sum() == pytest.approx(12_000, abs=200)
    np.testing.assert_allclose(mixture.means_, fitted(patients).means_, rtol=1e-6)  # the same sums
    assert mixture.privacy_.neighbours == "all rows of one patient at a site added or removed"
    with pytest.raises(DataError, match="names no patient in row 3"):
        fitted(many.assign(who=["a", "b", None, *map(str, range(11_997))]), privacy=asked(patient="who"))
    with pytest.raises(DataError, match="a row of a private fit weighs at most one"):  # though the shares do
        fitted(repeated.assign(w=3.0), privacy=asked(patient="who"), weight="w")
    with pytest.raises(DataError, match="no column 'name', which privacy names"):
        fitted(many, privacy=asked(patient="name"))
    repeated.to_csv(tmp_path / "visits.csv", index=False)
    words = ("fit", tmp_path / "visits.csv", "--sites", "hospital", "--labels", "diagnosis", "--components", "2")
    said = gaussip(
        *words, "--epsilon", "4", "--bounds", "age=0:120,chol=0:20", "--patient", "who", "--out", tmp_path / "m.npz"
    )
    assert " patients at 6 sites" in said.stdout, said.stderr
    assert "for all rows of one patient at a site added or removed" in said.stdout, said.stderr
    words_of_sites = (*words, "--epsilon", "4", "--bounds", "0:120", "--patient", "hospital")
    refused = gaussip(*words_of_sites, "--out", tmp_path / "n.npz")
    assert "--patient names the column 'hospital', which --sites names already" in refused.stderr
    from_model = ("--patient", "who", "--start", tmp_path / "m.npz", "--out", tmp_path / "n.npz")
    refused = gaussip(*words, "--epsilon", "4", "--bounds", "0:120", *from_model)
    assert "begins from labels or by k-means, not from a model" in refused.stderr
    words += ("--no-features", "age", "--epsilon", "4", "--bounds", "0:20", "--patient", "who")
    assert gaussip(*words, "--out", tmp_path / "n.npz").returncode == 0
    patients.to_csv(tmp_path / "patients.csv", index=False)
    words = ("fit", tmp_path / "patients.csv", *words[2:8])
    for option in (("--patient", "age"), ("--delta", "1e-6"), ("--colluding", "1")):
        refused = gaussip(*words, *option, "--out", tmp_path / "m.npz", "--force")
        assert f"{option[0]} is for a private fit" in refused.stderr


REFUSED = {
    "no bounds": ({"privacy": {"epsilon": 4}}, SettingError, "has no bounds"),
    "no epsilon": ({"privacy": {"bounds": [0, 1]}}, SettingError, "has no epsilon"),
    "unknown": ({"privacy": asked(eps=4)}, SettingError, "has 'eps', which is none of epsilon, delta"),
    "epsilon": ({"privacy": asked(0)}, SettingError, "must be a number between"),
    "delta": ({"privacy": asked(delta=0.5)}, SettingError, "must be a number between"),
    "not a table": ({"privacy": 4}, SettingError, "must be a table"),
    "feature": ({"privacy": asked(bounds={"age": [0, 120]})}, SettingError, "no bounds for 'chol'"),
    "other": ({"privacy": asked(bounds={"age": [0, 9], "chol": [0, 9], "x": [0, 9]})}, SettingError, "no feature"),
    "turned": ({"privacy": asked(bounds=[3, 2])}, SettingError, "the first must be the smaller"),
    "three": ({"privacy": asked(bounds=[3, 2, 1])}, SettingError, "not two numbers for each feature"),
    "cut": ({"privacy": asked(bounds=[0, 50])}, DataError, r"% of the values of 'age' at site 'a' lie beyond"),
    "wide": ({"privacy": asked(1, bounds=[-1e5, 1e5])}, DataError, "the bounds of .* are too wide"),
    "noisy": ({"privacy": asked(0.05)}, DataError, "too few for a private fit"),
    "colluding": ({"privacy": asked(colluding=5)}, SettingError, "of 6 sites at most 4 can collude"),
    "gossip": ({"algorithm": "exact"}, SettingError, "needs algorithm='masked'"),
    "starts": ({"n_init": 2}, SettingError, "needs n_init=1"),
    "shrinkage": ({"shrinkage": 0.2}, SettingError, "needs shrinkage=0.0"),
    "search": ({"init_params": "search"}, SettingError, "a search would spend privacy"),
    "half a start": ({"means_init": [[60, 6], [50, 5]]}, StartError, "together, or none"),
}


@pytest.mark.parametrize(("changes", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused_with_what_to_write(patients, changes, error, words):
    with pytest.raises(error, match=words):
        fitted(patients, **changes)


def test_too_few_rows_or_sites_are_refused(patients):
    with pytest.raises(DataError, match="at least 3 sites, and there are 2"):
        fitted(patients[patients["hospital"].isin(["a", "b"])])
    with pytest.raises(
        GaussipError, match=r"this attempt has spent \(.*no privacy|this attempt has spent no privacy"
    ):
        fitted(patients[:400], labels=False)
    with pytest.raises((DataError, CollapseError), match=r"too few rows|lost in noise|too few for"):
        fitted(patients[:2000], 8, labels=False)
    mixture = NetworkGaussianMixture(2, privacy=asked())
    with pytest.raises(DataError, match="a row of a private fit weighs at most one"):
        mixture.fit(patients[["age", "chol"]], sites=patients["hospital"], sample_weight=np.full(len(patients), 2.0))
    with pytest.raises(PrivacyError, match="every candidate"):
        choose_per_class(
            NetworkGaussianMixture(privacy=asked()), patients[["age", "chol"]], patients["diagnosis"],
            sites=patients["hospital"],
        )  # fmt: skip
    few = patients["diagnosis"].where(np.arange(len(patients)) < 60)
    with pytest.raises(DataError, match=r"rows are labelled '\w+', give or take .* label some \d+ of them"):
        fitted(patients.assign(diagnosis=few), privacy=asked(1))


def test_bounds_that_codes_for_missing_cells_break(patients):
    """The code is named where several patients have it; a single one's value never is."""
    for rows, code in ((600, True), (0, False)):
        broken = patients.assign(who=np.arange(len(patients)))
        broken.loc[broken.index[::6][:rows], "chol"] = -9.0
        broken.loc[broken.index[1::6][:50], "chol"] = np.linspace(-0.1, -0.9, 50)
        with pytest.raises(DataError, match=r"% of the values of 'chol' at site '\w' lie beyond") as caught:
            fitted(broken.drop(columns="who"))
        assert ("--na-values chol=-9" in str(caught.value)) == code
        broken["who"] = broken["who"].where(broken["chol"] != -9, 0)
        with pytest.raises(DataError, match="give wider bounds") as caught:
            fitted(broken, privacy=asked(patient="who"))
        assert "-9" not in str(caught.value)


def test_a_delta_that_guarantees_little_is_warned_of(patients):
    real = {name: value for name, value in asked(delta=0.01).items() if name != "noise_seed"}
    with pytest.warns(PrivacyWarning, match=r"delta=0.01 is more than one over .* Give a delta well below \de-05"):
        fitted(patients, privacy=real)


def test_a_code_in_a_few_cells_is_refused_before_it_costs_anything(patients):
    """It would be cut to the bounds, and be seen when the budget is spent."""
    broken = patients.copy()
    broken.loc[broken.index[::6][:12], "chol"] = -9.0
    with pytest.raises(DataError, match=r"0.6% of the values of 'chol' at site 'a' lie .* and most of them are -9"):
        fitted(broken)


def test_how_many_rows_are_needed_is_known_beforehand():
    plan, K, excess = Plan.of(0.8, 3, 4, "kmeans", "full"), 3, math.sqrt(2)
    rows = plan.rows_needed(K, excess)
    plan.refuse_hopeless(rows, K, 4, excess)
    with pytest.raises(DataError, match=f"find some {rows} rows"):
        plan.refuse_hopeless(rows - 101, K, 4, excess)


def test_a_diagnosis_proposes_private_fits_alone(patients, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixture = fitted(patients, 4, labels=False, random_state=1, privacy=asked(8, delta=1e-5))
    diagnosis = examine(of_estimator(mixture))
    assert diagnosis.not_judged == {}
    assert "more than noise" in diagnosis.judged
    assert "not enough rounds" not in diagnosis.judged
    mixture.save(tmp_path / "model.npz")
    said = gaussip("diagnose", tmp_path / "model.npz").stdout
    assert "--epsilon 8 --delta 1e-05 --bounds age=0:120,chol=0:20" in said, said
    assert "whose budget adds to what was spent" in said
    mixture.converged_ = False  # as where the last score was more than noise
    (found,) = [finding for finding in examine(of_estimator(mixture)).findings if finding.name == "more than noise"]
    assert "mixture.set_params(n_components=3)" in found.remedy


def test_a_failed_private_fit_leaves_the_last_one_as_it_was(patients):
    mixture = fitted(patients)
    before = mixture.means_.copy()
    with pytest.raises(SettingError):
        mixture.set_params(privacy=asked(0)).fit(patients, y="diagnosis", sites="hospital")
    np.testing.assert_array_equal(mixture.means_, before)
    assert mixture.privacy_ is not None


def test_on_the_command_line(patients, tmp_path):
    patients.to_csv(tmp_path / "patients.csv", index=False)
    table = (str(tmp_path / "patients.csv"), "--sites", "hospital", "--labels", "diagnosis")
    fit = ("fit", *table, "--components", "2", "--out", str(tmp_path / "model.npz"), "--epsilon", "4")
    said = gaussip(*fit, "--bounds", "age=0:120,chol=0:20")
    assert said.returncode == 0, said.stderr
    assert "(4, 1e-06)-differential privacy for one row added or removed" in said.stdout
    assert "12000 rows" not in said.stdout
    shown = gaussip("intervals", str(tmp_path / "model.npz"))
    assert "95% intervals, noise included" in shown.stdout
    assert json.loads(gaussip("intervals", str(tmp_path / "model.npz"), "--json").stdout)["privacy"]["delta"] == 1e-6
    assert gaussip("diagnose", str(tmp_path / "model.npz")).returncode == 0
    for words, text in {
        (): "--epsilon needs the bounds of each feature",
        ("--bounds", "age=0:120"): "no bounds for 'chol'",
        ("--bounds", "age=0-120"): "not the least and the largest value with a colon between",
        ("--bounds", "0:120", "--algorithm", "exact"): "needs --algorithm masked",
    }.items():
        refused = gaussip(*fit, "--force", *words)
        assert refused.returncode == 2
        assert text in refused.stderr
    assert gaussip("intervals", str(tmp_path / "model.npz"), *table).returncode == 2


def test_masks_of_many_sites_hide_from_a_third():
    privacy = Privacy.of(asked(colluding=100))
    assert privacy.shares(200) == 99
    with pytest.raises(SettingError, match="of 250 sites masks hide the others from a third at most"):
        privacy.shares(250)
    assert privacy.shares(303) == 202
