"""Covariance types: held against mclust, scikit-learn and SciPy's optimiser."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import REGISTRY, make
from gaussip.errors import SettingError, StartError, UncertaintyError
from gaussip.kernels.shaping import projected, shaped
from gaussip.mixture.covariance_types import (
    LINEAR,
    TYPES,
    as_full,
    as_public,
    directions,
    letters_of,
    n_covariance_parameters,
    n_parameters,
)
from gaussip.mixture.density import responsibilities
from gaussip.mixture.theta import Theta, pack, unpack
from gaussip.networks import mixing_weights
from gaussip.rows.rows import Rows
from gaussip.selection import choose_components
from gaussip.settings import COVARIANCES
from gaussip.simulation.run import simulate

SITES = 4

# log-likelihoods of mclust 6.0.0 in R: me(type, iris, z, control = emControl(tol = c(1e-13, 1e-13))), K = 1..5, where
# z deals the plants, ordered by the sum of their four lengths, to K groups of the same size
MCLUST = {
    "EII": (-889.516131, -536.652471, -401.802176, -342.041357, -328.677850),
    "VII": (-889.516131, -478.559096, -384.314095, -334.286077, -298.645254),
    "EEI": (-741.017535, -488.914819, -361.425522, -310.116976, -300.778809),
    "VEI": (-741.017535, -443.066687, -339.468727, -293.122959, -264.001360),
    "EVI": (-741.017535, -463.569030, -340.085581, -286.057450, -283.180542),
    "VVI": (-741.017535, -386.185347, -306.860461, -264.847566, -240.295841),
    "EEE": (-379.914630, -296.447575, -256.354043, -223.048640, -217.205715),
    "VEE": (-379.914630, -278.057150, -237.560163, -225.790198, -203.696575),
    "EEV": (-379.914630, -259.666909, -214.850379, -200.439397, -195.139257),
    "VEV": (-379.914630, -215.725972, -186.073283, -180.558194, -162.716493),
    "EVV": (-379.914630, -259.016421, -205.535881, -191.258221, -169.740978),
    "VVV": (-379.914630, -214.354704, -180.185477, -164.781290, -139.660720),
}
# and their BIC, which mclust writes with the other sign
BIC = {
    "EII": (-1804.085438, -1123.411296, -878.763881, -784.295420, -782.621582),
    "VII": (-1804.085438, -1012.235180, -853.808990, -783.816766, -742.598932),
    "EEI": (-1522.120153, -1042.967896, -813.042479, -735.478563, -741.855406),
    "VEI": (-1522.120153, -956.282269, -779.150160, -716.522437, -688.343049),
    "EVI": (-1522.120153, -1007.308224, -800.426409, -732.455229, -766.786496),
    "VVI": (-1522.120153, -857.551494, -743.997439, -705.067367, -701.059635),
    "EEE": (-829.978154, -688.097220, -632.963333, -591.405703, -604.773029),
    "VEE": (-829.978154, -656.327005, -605.396843, -611.920724, -597.797291),
    "EEV": (-829.978154, -644.599699, -610.083628, -636.378653, -680.895361),
    "VEV": (-829.978154, -561.728462, -562.550708, -611.648153, -636.092375),
    "EVV": (-829.978154, -658.330631, -621.518444, -663.112019, -690.226426),
    "VVV": (-829.978154, -574.017832, -580.838907, -625.190062, -650.108453),
}


@pytest.fixture(scope="module")
def plants():
    return load_iris().data


def start_of(X, K):
    """The mixture of K groups of the same size, with full covariances."""
    group = np.empty(len(X), dtype=int)
    group[np.argsort(X.sum(axis=1), kind="stable")] = np.arange(len(X)) * K // len(X)
    parts = [X[group == k] for k in range(K)]
    covariances = np.stack([np.cov(x.T, bias=True) for x in parts])
    return Theta(np.bincount(group) / len(X), np.stack([x.mean(axis=0) for x in parts]), covariances)


def run(name, start, X, kind, **settings):
    algorithm = make(name, 1e-4 if name == "ngd" else 0.05, covariance_type=kind)
    W = np.full((SITES, SITES), 1 / SITES) if name == "em" else mixing_weights("ring", range(SITES))
    return simulate(algorithm, start, Rows.of_sites([X[m::SITES] for m in range(SITES)]), W, **settings)


@pytest.mark.parametrize("letters", list(MCLUST))
def test_log_likelihood_and_bic_are_mclust_s(plants, letters):
    for K, (height, bic) in enumerate(zip(MCLUST[letters], BIC[letters], strict=True), 1):
        ended = run("em", start_of(plants, K), plants, letters, max_rounds=20_000, tol=1e-11)
        found = len(plants) * ended.history.log_likelihood.max()
        assert found == pytest.approx(height, abs=1e-4), K
        assert 2 * found - n_parameters(letters, K, 4) * np.log(len(plants)) == pytest.approx(bic, abs=2e-4), K


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_the_likelihood_is_scikit_learn_s(plants, kind):
    start = start_of(plants, 3)
    precisions = np.linalg.inv(shaped(kind, start).covariances)
    theirs = GaussianMixture(
        3, covariance_type=kind, tol=1e-13, max_iter=5000, reg_covar=0, weights_init=start.weights,
        means_init=start.means, precisions_init=as_public(kind, precisions),
    ).fit(plants)  # fmt: skip
    mine = run("masked", start, plants, kind, max_rounds=5000, tol=1e-11)
    assert mine.history.log_likelihood[-1] == pytest.approx(theirs.score(plants), abs=1e-9)
    covariances = as_public(kind, mine.theta.covariances[0])
    np.testing.assert_allclose(covariances, theirs.covariances_, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(as_full(kind, covariances, (3, 4)), mine.theta.covariances[0])


@pytest.mark.parametrize("kind", TYPES)
def test_sites_reach_what_pooled_rows_give(plants, kind):
    start = start_of(plants, 3)
    pooled = run("em", start, plants, kind, max_rounds=5000, tol=1e-11)
    for name in ("masked", "exact"):
        apart = run(name, start, plants, kind, max_rounds=5000, tol=1e-11)
        assert apart.history.log_likelihood[-1] == pytest.approx(pooled.history.log_likelihood[-1], abs=1e-8)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_algorithm_keeps_the_type(plants, name):
    start = start_of(plants, 2)
    for kind in LINEAR if name == "ngd" else TYPES:
        ended = run(name, start, plants, kind, max_rounds=20, reg_covar=1e-3)
        shape_of = projected if name == "ngd" else shaped
        np.testing.assert_allclose(ended.theta.covariances, shape_of(kind, ended.theta).covariances, rtol=1e-9)
    if name == "ngd":
        with pytest.raises(SettingError, match="ngd steps along gradients: it has no covariance_type='VEV'"):
            make(name, 0.05, covariance_type="VEV")


def built(t, letters, K, p):
    """Covariances from free parameters: volumes, shapes and rotations."""
    volume, shape, orientation = letters
    first = 1 if volume == "E" else K
    volumes, t = np.broadcast_to(np.exp(t[:first]), K), t[first:]
    shapes = np.ones((K, p))
    if shape != "I":
        n = 1 if shape == "E" else K
        logs, t = t[: n * (p - 1)].reshape(n, p - 1), t[n * (p - 1) :]
        shapes = np.broadcast_to(np.exp(np.concatenate([logs, -logs.sum(axis=1, keepdims=True)], axis=1)), (K, p))
    turned = np.broadcast_to(np.eye(p), (K, p, p))
    if orientation != "I":
        n, upper = (1 if orientation == "E" else K), np.zeros((K, p, p))
        upper[:, *np.triu_indices(p, 1)] = np.broadcast_to(t.reshape(n, -1), (K, p * (p - 1) // 2))
        turned = np.stack([expm(each - each.T) for each in upper])
    return volumes[:, None, None] * (turned * shapes[:, None, :]) @ turned.swapaxes(-1, -2)


@pytest.mark.parametrize("kind", TYPES)
def test_the_m_step_is_the_maximum_that_scipy_finds(kind):
    K, p, rng = 3, 3, np.random.default_rng(0)
    A = rng.standard_normal((K, p, p))
    weights, given = np.array([0.2, 0.3, 0.5]), A @ A.swapaxes(-1, -2) + 0.3 * np.eye(p)

    def missing(covariances):
        fit = np.trace(np.linalg.solve(covariances, given), axis1=-2, axis2=-1)
        return float(weights @ (np.linalg.slogdet(covariances)[1] + fit))

    size = n_covariance_parameters(kind, K, p)
    least = min(
        minimize(lambda t: missing(built(t, letters_of(kind), K, p)), 0.5 * rng.standard_normal(size)).fun
        for _ in range(4)
    )
    found = shaped(kind, Theta(weights, np.zeros((K, p)), given)).covariances
    assert missing(found) == pytest.approx(least, abs=1e-8)


def test_arrays_of_other_libraries_give_the_same():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    A = rng.standard_normal((5, 3, 4, 4))
    theta = Theta(rng.dirichlet(np.ones(3), 5), rng.standard_normal((5, 3, 4)), A @ A.swapaxes(-1, -2))
    other = Theta(*map(torch.asarray, theta))
    for kind in LINEAR:
        np.testing.assert_allclose(shaped(kind, other).covariances, shaped(kind, theta).covariances, rtol=1e-12)
    with pytest.raises(SettingError, match="computed on the CPU alone"):
        shaped("VEV", other)


@pytest.mark.parametrize("kind", LINEAR)
def test_the_directions_of_a_type_are_those_in_which_its_parameters_move(kind):
    rng = np.random.default_rng(2)
    basis = directions(kind, 3, 4)
    assert basis.shape[1] == np.linalg.matrix_rank(basis) == n_parameters(kind, 3, 4) + 1
    A = rng.standard_normal((3, 4, 4))
    theta = projected(kind, Theta(np.ones(3) / 3, rng.standard_normal((3, 4)), A @ A.swapaxes(-1, -2)))
    packed = pack(theta).ravel()
    np.testing.assert_allclose(basis @ np.linalg.lstsq(basis, packed)[0], packed, atol=1e-12)


@pytest.mark.parametrize("kind", ["tied", "diag", "spherical", "EII", "EEI"])
def test_standard_errors_are_those_of_the_likelihood_within_the_type(plants, kind):
    """The negative inverse of its Hessian along the type's directions, by finite differences."""
    sites, K, p = np.arange(len(plants)) % SITES, 3, 4
    fitted = NetworkGaussianMixture(K, covariance_type=kind, random_state=0, tol=1e-11, reg_covar=0)
    found = fitted.fit(plants, sites=sites).uncertainty(plants, sites=sites)
    theta = found.theta
    moves = directions(kind, K, p)
    weights = moves[:: moves.shape[0] // K].any(axis=0)  # the directions of weights: they must sum to zero
    within = np.concatenate([moves[:, ~weights], moves[:, weights] @ np.array([[1, 0], [0, 1], [-1, -1]])], axis=1)
    within = within / np.sqrt(np.abs(within.T @ found.covariance @ within).diagonal())  # steps of one deviation
    within = np.where(np.isfinite(within), within, 0)

    def height(b):
        return responsibilities(plants, unpack(pack(theta) + (within @ b).reshape(K, -1)))[1].sum()

    n, h = within.shape[1], 1e-4 / np.abs(within).max()
    steps = h * np.eye(n)
    hessian = np.array(
        [
            [(height(a + b) - height(a - b) - height(b - a) + height(-a - b)) / (4 * h * h) for b in steps]
            for a in steps
        ]
    )
    covariance = within @ np.linalg.inv(-hessian) @ within.T
    scale = np.sqrt(np.maximum(np.diagonal(covariance), 1e-30))
    np.testing.assert_allclose(
        found.covariance / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=1e-3
    )


@pytest.mark.parametrize("kind", TYPES)
def test_the_estimator_has_scikit_learn_s_shapes(plants, kind, tmp_path):
    sites = np.arange(len(plants)) % SITES
    fitted = NetworkGaussianMixture(3, covariance_type=kind, random_state=0).fit(plants, sites=sites)
    shape = {"tied": (4, 4), "diag": (3, 4), "spherical": (3,)}.get(kind, (3, 4, 4))
    for name in ("covariances_", "precisions_", "precisions_cholesky_"):
        assert getattr(fitted, name).shape == shape, name
    theirs = fitted.to_sklearn()
    np.testing.assert_allclose(theirs.score_samples(plants), fitted.score_samples(plants), atol=1e-10)
    if kind in ("full", "tied", "diag", "spherical"):
        assert fitted.bic(plants) == pytest.approx(theirs.bic(plants))
    fitted.save(tmp_path / "model.npz")
    again = NetworkGaussianMixture.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.score_samples(plants), fitted.score_samples(plants))
    start = {"weights_init": fitted.weights_, "means_init": fitted.means_, "covariances_init": fitted.covariances_}
    on = NetworkGaussianMixture(3, covariance_type=kind, **start).fit(plants, sites=sites)
    np.testing.assert_allclose(on.covariances_, fitted.covariances_, atol=1e-3)
    if kind not in LINEAR:
        with pytest.raises(UncertaintyError, match=f"no standard errors under covariance_type='{kind}'"):
            fitted.uncertainty(plants, sites=sites)


def test_a_choice_of_k_and_type_is_mclust_s(plants):
    """Of iris mclust chooses two components of type VEV, with a BIC of -561.73, and next three, with -562.55."""
    sites = np.arange(len(plants)) % SITES
    types = ["VVV", "tied", "diag", "spherical", "VEV", "EEV"]
    found = choose_components(plants, sites=sites, at_most=4, covariance_types=types, random_state=0)
    assert (found.n_components, found.covariance_type) == (2, "VEV")
    two, three, *_ = (found.lines[place] for place in found.sound)
    assert two.bic == pytest.approx(561.728462, abs=0.05)
    assert (three.n_components, three.covariance_type) == (3, "VEV")
    assert three.bic == pytest.approx(562.550708, abs=0.05)
    frame = found.to_frame()
    assert frame["type"].tolist() == [kind for kind in ["full", *types[1:]] for _ in range(4)]
    for kind in ("tied", "VEV"):
        fitted = NetworkGaussianMixture(3, covariance_type=kind, init_params="search", random_state=0, tol=1e-9)
        best = next(line for line in found.lines if (line.n_components, line.covariance_type) == (3, kind))
        height = len(plants) * fitted.fit(plants, sites=sites).lower_bound_
        assert height == pytest.approx(best.log_likelihood, abs=0.05)
    for wrong in ("full", [], ["round"]):
        with pytest.raises(SettingError):
            choose_components(plants, sites=sites, covariance_types=wrong)


def test_starting_values_of_another_shape_are_refused(plants):
    sites = np.arange(len(plants)) % SITES
    wrong = NetworkGaussianMixture(3, covariance_type="diag", covariances_init=np.ones((3, 4, 4)))
    with pytest.raises(StartError, match=r"covariances_init has shape \(3, 4, 4\); .*'diag' need \(3, 4\)"):
        wrong.fit(plants, sites=sites)
    with pytest.raises(StartError, match="covariances_init must be an array of numbers"):
        wrong.set_params(covariances_init="narrow").fit(plants, sites=sites)


def test_names():
    assert {letters_of(name) for name in COVARIANCES} == set(MCLUST)
    with pytest.raises(SettingError, match="covariance_type='round' must be one of full, tied, diag"):
        make("em", 1, covariance_type="round")


@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
@pytest.mark.parametrize(
    ("before", "after"), [("full", "diag"), ("diag", "full"), ("tied", "spherical"), ("full", "VEV")]
)
def test_a_warm_start_goes_on_with_another_type(tmp_path, before, after, shrinkage):
    X, y = load_iris(return_X_y=True)
    sites = np.arange(len(X)) % SITES
    first = NetworkGaussianMixture(3, covariance_type=before, shrinkage=shrinkage, warm_start=True, random_state=0)
    first.fit(X, y, sites=sites)
    height = first.score(X)
    first.set_params(covariance_type=after)
    assert first.score(X) == height  # of the fit that was
    first.save(tmp_path / "kept.npz")
    assert NetworkGaussianMixture.load(tmp_path / "kept.npz").score(X) == height
    where = sites if before == "full" else np.arange(len(X)) % 3
    there = first.fit(X, y, sites=where)
    assert there.covariance_type_ == after
    fresh = NetworkGaussianMixture(3, covariance_type=after, random_state=0, init_params="labels").fit(
        X, y, sites=where
    )
    if not shrinkage:
        np.testing.assert_allclose(there.means_, fresh.means_, atol=1e-2)
    assert there.covariances_.shape == fresh.covariances_.shape
