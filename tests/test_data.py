import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaussip.errors import DataError, SettingError
from gaussip.mixture.sampling import sample
from gaussip.rows.sites import by_column
from gaussip.studies import split
from gaussip.studies.simulation_model import Setting, draw, paper_start, true_parameters


def test_the_paper_s_parameters():
    theta = true_parameters(Setting(delta=4), np.random.default_rng(0))
    np.testing.assert_array_equal(theta.weights, [0.5, 0.3, 0.2])
    np.testing.assert_allclose(np.diff(theta.means, axis=0), 4.0)
    assert theta.covariances[0, 0, 2] == 0.25
    assert theta.covariances[2, 1, 2] == -0.1
    assert theta.covariances[2, 0, 2] == pytest.approx(0.01)


def test_samples_have_the_mixture_s_moments():
    theta = true_parameters(Setting(), np.random.default_rng(0))
    X, classes = sample(theta, 200_000, np.random.default_rng(1))
    for k in range(3):
        mine = X[classes == k]
        assert len(mine) / len(X) == pytest.approx(theta.weights[k], abs=0.005)
        np.testing.assert_allclose(mine.mean(axis=0), theta.means[k], atol=0.03)
        np.testing.assert_allclose(np.cov(mine.T), theta.covariances[k], atol=0.04)


def test_drawing_is_a_function_of_setting_and_seed():
    first, again, other = (draw(Setting(n_rows=200, n_sites=4), seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.sites, again.sites)
    assert not np.array_equal(first.X, other.X)
    sequence = np.random.SeedSequence(1)
    np.testing.assert_array_equal(draw(Setting(n_rows=200), sequence).X, draw(Setting(n_rows=200), sequence).X)
    np.testing.assert_array_equal(draw(Setting(n_rows=200, n_sites=4), np.int64(1)).X, first.X)
    labelled = draw(Setting(n_rows=200, n_sites=4, labelled=0.5, spread="homogeneous"), 1)
    np.testing.assert_array_equal(first.X, labelled.X)  # the same rows, dealt and labelled otherwise


def test_heterogeneous_is_sorted_and_homogeneous_is_not():
    sorted_, dealt = (draw(Setting(spread=spread), 3) for spread in ("heterogeneous", "homogeneous"))
    lows = [c.min() for c in sorted_.by_site(sorted_.classes)]
    highs = [c.max() for c in sorted_.by_site(sorted_.classes)]
    assert all(high <= low for high, low in zip(highs, lows[1:], strict=False))
    assert [len(x) for x in sorted_.by_site(sorted_.X)] == [1500] * 20
    for classes in dealt.by_site(dealt.classes):
        np.testing.assert_allclose(np.bincount(classes) / 1500, [0.5, 0.3, 0.2], atol=0.06)


def test_dirichlet_skew_follows_its_concentration():
    def skew(concentration):
        data = draw(Setting(n_rows=3000, n_sites=10, spread="dirichlet", concentration=concentration), 4)
        assert [len(x) for x in data.by_site(data.X)] == [300] * 10
        return np.mean([np.bincount(c, minlength=3).max() / len(c) for c in data.by_site(data.classes)])

    assert skew(0.05) > skew(1.0) > skew(1000.0)
    assert skew(1000.0) == pytest.approx(0.5, abs=0.08)


@given(n=st.integers(1, 500), M=st.integers(1, 20), ratio=st.floats(1, 100))
def test_sizes_add_up_and_every_site_has_rows(n, M, ratio):
    if n < M:
        with pytest.raises(SettingError):
            split.sizes(n, M, ratio)
        return
    counts = split.sizes(n, M, ratio)
    assert counts.sum() == n
    assert counts.min() >= 1
    assert (np.diff(counts) <= 1).all()


def test_labelled_fractions_are_exact_at_each_site():
    fractions = (0.0, 0.25, 0.5, 1.0)
    data = draw(Setting(n_rows=400, n_sites=4, labelled=fractions), 5)
    shown = [np.mean(labels >= 0) for labels in data.by_site(data.labels)]
    assert shown == list(fractions)
    known = data.labels >= 0
    np.testing.assert_array_equal(data.labels[known], data.classes[known])


def test_paper_start():
    truth = true_parameters(Setting(), np.random.default_rng(0))
    begin = paper_start(truth, 0.1, np.random.default_rng(1))
    np.testing.assert_allclose(begin.weights, 1 / 3)
    np.testing.assert_array_equal(begin.covariances[1], np.eye(6))
    assert 0.05 < np.std(begin.means - truth.means) < 0.2


def test_sites_by_column():
    codes, names = by_column(["b", "a", "b"])
    assert codes.tolist() == [1, 0, 1]
    assert names.tolist() == ["a", "b"]
    with pytest.raises(DataError, match="1 rows have no site"):
        by_column(np.array(["a", None], dtype=object))
    with pytest.raises(DataError, match="1 rows have no site"):
        by_column([1.0, np.nan])
    with pytest.raises(DataError, match="mixes numbers and words"):
        by_column(np.array(["a", 1], dtype=object))
    with pytest.raises(DataError, match="mixes numbers and words"):
        by_column(["a", 1])
    with pytest.raises(DataError, match="1 rows have no site"):
        by_column(["a", float("nan")])
    with pytest.raises(DataError, match="1 rows have no site"):
        by_column(pd.Series(["a", None], dtype="string"))
    with pytest.raises(DataError, match="one value per row"):
        by_column([["a"]])


@pytest.mark.parametrize(
    "wrong",
    [
        {"labelled": 1.2},
        {"labelled": (0.1, 0.2)},
        {"spread": "odd"},
        {"weights": (0.5, 0.4, 0.2)},
        {"n_rows": 10},
        {"size_ratio": 0.5},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(SettingError):
        Setting(**wrong)
