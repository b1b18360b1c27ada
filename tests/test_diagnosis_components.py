"""Components that collapsed, and those that only look so."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from faulty_fits import fit, found, quiet, rows_of
from gaussip import NetworkGaussianMixture
from gaussip.diagnosis import diagnose
from gaussip.findings.components import cheapest_merger
from gaussip.mixture.merging import bhattacharyya
from gaussip.mixture.theta import Theta


def test_distances_of_components_against_integrals():
    theta = Theta(np.array([0.6, 0.4]), np.array([[0.0], [1.5]]), np.array([[[1.0]], [[2.0]]]))
    one, other = norm(0, 1), norm(1.5, math.sqrt(2))
    shared = quad(lambda x: math.sqrt(one.pdf(x) * other.pdf(x)), -20, 20)[0]
    assert bhattacharyya(theta, 0, 1) == pytest.approx(-math.log(shared), rel=1e-8)
    mean = 0.6
    merged = norm(mean, math.sqrt(0.6 * (1 + mean**2) + 0.4 * (2 + (1.5 - mean) ** 2)))

    def loss(x):
        density = 0.6 * one.pdf(x) + 0.4 * other.pdf(x)
        return density * (math.log(density) - merged.logpdf(x))

    cost, pair = cheapest_merger(theta, 1000.0, [(0, 1)])
    assert pair == (0, 1)
    assert cost == pytest.approx(1000 * quad(loss, -15, 15)[0], abs=1.5)  # by drawn rows


def thin_group(spread):
    """What is found where the last of three groups has this standard deviation in one feature, and its rows."""
    data = rows_of(3, delta=6.0)
    last = data.classes == 2
    data.X[last, 0] = data.truth.means[2, 0] + spread * np.random.default_rng(3).normal(size=last.sum())
    return found(fit(data, max_rounds=2000, means_init=data.truth.means, degenerate="keep")), last.sum()


@quiet
def test_a_thin_group_has_not_collapsed():
    """Honest down to a variance that reg_covar does not let be seen."""
    assert "collapsed component" not in thin_group(5e-3)[0]
    here, rows = thin_group(0.0)
    finding = here["collapsed component"]
    assert finding.evidence["component"] == 2
    assert f"its {rows} rows have the same 'feature 0', or nearly" in finding.sentence
    assert finding.evidence["features"] == ["feature 0"]
    assert "reg_covar=" not in finding.remedy


@quiet
@pytest.mark.parametrize("K", [2, 3, 4])
def test_other_units_collapse_no_component(K):
    data = rows_of(2)
    data.X[:, 2] *= 1e5  # features of different size
    data.X[data.sites == 3, 1] *= 1000
    here = found(fit(data, K, max_rounds=2000))
    assert "collapsed component" not in here
    assert here["far wider component"].evidence["feature"] == "feature 1"


@quiet
@pytest.mark.parametrize("size", [1e4, 1e9])
def test_a_row_far_out_collapses_no_other_component(size):
    """It may have a component to itself, which has then collapsed, or widen one; the others are not to blame."""
    data = rows_of(2)
    data.X[7, 2] = size
    for seed in range(3):
        mixture = fit(data, random_state=seed, max_rounds=500, degenerate="keep")
        here = found(mixture)
        if "collapsed component" in here:
            k = here["collapsed component"].evidence["component"]
            assert 1600 * mixture.weights_[k] < 3.5
            assert "Are there outliers?" in here["collapsed component"].sentence
        else:
            assert here["far wider component"].evidence["feature"] == "feature 2"


@quiet
def test_a_class_that_collapsed_gets_a_small_reg_covar():
    """Not one component less, which the classes do not allow; small for the smallest feature, whatever the others."""
    data = rows_of(2, labelled=1.0)
    data.X[:, 1:] *= [1e-2, 1e4]
    data.X[data.classes == 1, 0] = 0.5
    remedy = found(fit(data, 2, labels=True, init_params="labels", degenerate="keep"))["collapsed component"].remedy
    (asked,) = re.findall(r"reg_covar=([^)]*)\)", remedy)
    assert 1e-6 < float(asked) < 0.01 * data.X[:, 1].var()


def two_to_a_class(apart, per_class, n_components):
    """A fit to two classes, of which the first lies this far to both sides of the second."""
    rng = np.random.default_rng(0)
    ill, side = rng.random(600) < 0.5, rng.choice([-apart, apart], 600)
    X = np.where(ill, side, 0.0)[:, None] + rng.normal(size=(600, 2))
    y = np.where(rng.random(600) < 0.5, np.where(ill, "ill", "well"), None)
    mixture = NetworkGaussianMixture(n_components, components_per_class=per_class, random_state=0)
    return mixture.fit(X, y, sites=np.arange(600) % 3), X, y


@quiet
def test_components_of_classes_are_named_and_merged_as_labels_allow(tmp_path):
    mixture, X, y = two_to_a_class(3.0, {"ill": 2, "well": 2}, 4)
    finding = found(mixture)["too many components"]
    assert "merging 'well 1' and 'well 2' would cost" in finding.sentence
    assert "only labels can separate" not in finding.sentence
    assert finding.remedy == (
        "mixture.set_params(n_components=3, components_per_class={'ill': 2, 'well': 1}).fit(X, y, sites=sites)"
    )
    mixture.set_params(n_components=3, components_per_class={"ill": 2, "well": 1}).fit(X, y, sites=np.arange(600) % 3)
    assert "too many components" not in found(mixture)  # those of two classes are not to be merged
    wide = two_to_a_class(0.0, 2, 4)[0]
    wide.save(tmp_path / "wide.npz")
    (here,) = [one for one in diagnose(tmp_path / "wide.npz") if one.name == "too many components"]
    assert re.search(r"--components 3 .*--components-per-class (ill=1,well=2|ill=2,well=1)", here.remedy)
