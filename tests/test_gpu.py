"""device="cuda" against device="cpu"; needs PyTorch and a GPU. Tensors by themselves: test_torch.py."""

import numpy as np
import pytest

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import REGISTRY, make
from gaussip.arrays import to_device, to_numpy
from gaussip.errors import CollapseError, FewerAtATimeWarning
from gaussip.mixture.theta import Theta, place
from gaussip.rows.moments import moments
from gaussip.rows.rows import Rows
from gaussip.selection import choose_components
from gaussip.simulation.run import simulate
from gaussip.studies.comparison import Trial, compare
from gaussip.studies.methods import parse_method
from gaussip.studies.simulation_model import Setting, draw, paper_start

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::gaussip.errors.SlowKernelWarning"),
]


@pytest.fixture(scope="module")
def data():
    return draw(Setting(n_rows=2000, n_sites=5, labelled=0.2, size_ratio=5, spread="homogeneous"), 1)


@pytest.mark.parametrize("name", sorted(REGISTRY))
@pytest.mark.parametrize("semi", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_algorithm_gives_the_cpu_s_numbers(data, name, semi, weighted):
    fits = [
        NetworkGaussianMixture(3, algorithm=name, eta=0.05, max_rounds=40, device=device, random_state=0).fit(
            data.X,
            data.labels if semi else None,
            sites=data.sites,
            sample_weight=np.linspace(0.5, 2, len(data.X)) if weighted else None,
        )
        for device in ("cpu", "cuda")
    ]
    cpu, gpu = fits
    for part in ("weights_", "means_", "covariances_", "site_covariances_"):
        assert isinstance(getattr(gpu, part), np.ndarray)
        np.testing.assert_allclose(getattr(gpu, part), getattr(cpu, part), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(gpu.history_["log_likelihood"], cpu.history_["log_likelihood"], rtol=1e-10)
    assert gpu.history_["bytes"].tolist() == cpu.history_["bytes"].tolist()


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_many_short_fits_are_one_long_fit(data, name):
    settings = {"algorithm": name, "eta": 0.05, "tol": 0, "device": "cuda", "random_state": 0}
    mixture = NetworkGaussianMixture(3, max_rounds=9, warm_start=True, **settings)
    total = sum(mixture.fit(data.X, data.labels, sites=data.sites).n_rounds_ for _ in range(4))
    once = NetworkGaussianMixture(3, max_rounds=total, **settings).fit(data.X, data.labels, sites=data.sites)
    np.testing.assert_allclose(mixture.site_means_, once.site_means_, rtol=1e-9, atol=1e-11)
    assert mixture.lower_bound_ == pytest.approx(once.lower_bound_, rel=1e-10)


def test_a_search_and_a_choice_of_k_are_the_cpu_s(data):
    for y in (None, data.labels):
        cpu, gpu = (
            choose_components(data.X, y, sites=data.sites, at_most=4, device=device, random_state=0)
            for device in ("cpu", "cuda")
        )
        assert gpu.n_components == cpu.n_components
        np.testing.assert_allclose([line.bic for line in gpu.lines], [line.bic for line in cpu.lines], atol=0.1)
    settings = {"init_params": "search", "max_rounds": 2000, "random_state": 0}
    cpu, gpu = (
        NetworkGaussianMixture(3, device=device, **settings).fit(data.X, sites=data.sites)
        for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(gpu.means_, cpu.means_, atol=1e-5)


@pytest.mark.parametrize("name", ["mnem", "ngd"])
def test_many_features(name):
    rng = np.random.default_rng(0)
    X, sites = rng.standard_normal((400, 40)) + 4 * (np.arange(400) % 2)[:, None], np.arange(400) // 2 % 4
    cpu, gpu = (
        NetworkGaussianMixture(2, algorithm=name, eta=0.01, max_rounds=60, device=device, random_state=0).fit(
            X, sites=sites
        )
        for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(gpu.covariances_, cpu.covariances_, rtol=1e-8, atol=1e-10)


def test_a_collapse_is_named_there_too(data):
    far = data.truth.means.copy()
    far[1] += 1e3
    with pytest.raises(CollapseError, match="component 1 collapsed at site 0"):
        NetworkGaussianMixture(3, algorithm="nnem", means_init=far, device="cuda").fit(data.X, sites=data.sites)


@pytest.mark.parametrize("n_features", [4, 40])
@pytest.mark.parametrize("name", ["exact", "mnem", "ngd", "em"])
def test_shrinkage_and_the_weight_of_unlabelled_rows(name, n_features):
    """Few features and many: another kernel, and another look at whether covariances are sound."""
    data = draw(Setting(n_rows=900, n_sites=4, n_features=n_features, labelled=0.3, spread="homogeneous"), 2)
    cpu, gpu = (
        NetworkGaussianMixture(
            3, algorithm=name, eta=0.01, max_rounds=60, init_params="labels", shrinkage=0.2, unlabelled_weight=0.3,
            device=device,
        ).fit(data.X, data.labels, sites=data.sites)
        for device in ("cpu", "cuda")
    )  # fmt: skip
    np.testing.assert_allclose(gpu.shrinkage_target_, cpu.shrinkage_target_, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(gpu.site_means_, cpu.site_means_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(gpu.site_covariances_, cpu.site_covariances_, rtol=1e-7, atol=1e-9)


def test_a_study_of_a_feature_table_gives_the_cpu_s_scores(tmp_path):
    pytest.importorskip("msgspec")
    from gaussip.studies.features.design import of_text
    from gaussip.studies.features.run import run
    from gaussip.studies.xray.standin import stand_in

    text = (
        'kind = "features"\ntitle = "t"\nreplicates = 2\ncomponents = 40\nlabelled = 0.5\nrounds = 120\n'
        'shrinkage = 0.2\nmethods = ["mnem=0.05", "exact", "local", "em"]\n'
    )
    cpu, gpu = (
        run(of_text(text, "t"), stand_in(rows=900, features=60), tmp_path / device, device=device)
        for device in ("cpu", "cuda")
    )
    for cell in cpu.design.cells:
        for mine, theirs in zip(gpu.read(cell), cpu.read(cell), strict=True):
            np.testing.assert_allclose(mine["auc"], theirs["auc"], atol=1e-3)
            assert mine["collapsed"].tolist() == theirs["collapsed"].tolist()


def test_a_study_that_does_not_fit_goes_on_with_fewer_replicates_and_the_same_numbers(monkeypatch):
    methods = [parse_method("mnem", 0.05)]
    trial = Trial(Setting(n_rows=600, n_sites=3, n_features=2), replicates=5, device="cuda")
    whole = compare(trial, methods, max_rounds=60)
    stack = Rows.stack

    def crowded(replicates):
        if len(replicates) > 2:
            torch.empty(2**60, dtype=torch.uint8, device="cuda")  # more than any card has: a real refusal
        return stack(replicates)

    monkeypatch.setattr(Rows, "stack", crowded)
    with pytest.warns(FewerAtATimeWarning, match="2 at a time") as said:
        parts = compare(trial, methods, max_rounds=60)
    assert len(said) == 1
    np.testing.assert_array_equal(parts[0].mse, whole[0].mse)


def test_a_study_gives_the_cpu_s_numbers():
    """Along marks within a graph's rounds, at its end, and beyond."""
    setting, method = Setting(n_rows=900, n_sites=5, labelled=0.2), parse_method("semi-mnem", 0.05)
    cpu, gpu = (
        Trial(setting, replicates=4, device=device).run(method, max_rounds=200, tol=1e-8, marks=(1, 3, 51, 60, 170))
        for device in ("cpu", "cuda")
    )
    assert gpu.rounds.tolist() == [0, 1, 3, 51, 60, 170, 200]
    np.testing.assert_allclose(gpu.mse, cpu.mse, rtol=1e-8)
    assert gpu.bytes.tolist() == cpu.bytes.tolist()


@pytest.mark.parametrize("reg_covar", [0.0, 1e-3])
def test_accelerated_em_of_replicates_is_the_cpu_s(reg_covar):
    """It goes round by round between the card and the host, and ends where the CPU does, as soon."""
    sites, starts = [], []
    for seed in range(3):
        one = draw(Setting(delta=1, n_rows=3000, n_sites=3, labelled=0.1), seed)
        sites.append((one.by_site(one.X), one.by_site(one.labels)))
        starts.append(paper_start(one.truth, 0.3, np.random.default_rng(seed)))
    begin = Theta(*(np.stack(parts)[:, None] for parts in zip(*starts, strict=True)))
    W, runs = np.full((3, 3), 1 / 3), []
    for device in ("cpu", "cuda"):
        rows = Rows.stack(
            [Rows.of_sites([to_device(x, device) for x in X], labels, None, 3) for X, labels in sites]
        )  # fmt: skip
        runs.append(
            simulate(make("em", 1), place(begin, device), rows, W, max_rounds=500, tol=1e-9, reg_covar=reg_covar)
        )
    cpu, gpu = runs
    assert cpu.converged.all()
    assert gpu.converged.all()
    assert abs(cpu.n_rounds - gpu.n_rounds) <= 5
    for mine, theirs in zip(gpu.theta, cpu.theta, strict=True):
        np.testing.assert_allclose(to_numpy(mine), theirs, rtol=1e-7, atol=1e-8)


@pytest.mark.filterwarnings("ignore:.* left out")  # the same rows on both
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_rows_with_missing_cells_give_the_cpu_s_numbers(data, name):
    rng = np.random.default_rng(0)
    X = np.where(rng.random(data.X.shape) < 0.1, np.nan, data.X)
    X[data.sites == 1, 2] = np.nan
    X[:, 0] = data.X[:, 0]
    settings = {"algorithm": name, "eta": 0.05, "max_rounds": 40, "random_state": 0, "components_per_class": {0: 2}}
    if name in ("em", "masked"):  # on the way, acceleration makes much of a rounding error
        settings |= {"max_rounds": 2000, "tol": 1e-10}
    tolerance = 1e-6 if "tol" in settings else 1e-8
    cpu, gpu = (
        NetworkGaussianMixture(4, device=device, **settings).fit(X, data.labels, sites=data.sites)
        for device in ("cpu", "cuda")
    )
    for part in ("weights_", "means_", "covariances_"):
        np.testing.assert_allclose(getattr(gpu, part), getattr(cpu, part), rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore:.* left out")
def test_a_search_with_missing_cells_is_the_cpu_s(data):
    X = np.where(np.random.default_rng(1).random(data.X.shape) < 0.1, np.nan, data.X)
    X[:, 0] = data.X[:, 0]
    cpu, gpu = (
        choose_components(X, sites=data.sites, at_most=3, device=device, random_state=0) for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose([line.bic for line in gpu.lines], [line.bic for line in cpu.lines], atol=0.1)


def test_groups_of_rows_are_filled_in_as_the_reference_does(data):
    """Every pattern of missing cells, rows of some components only, and a theta that is no mixture at one site."""
    rng = np.random.default_rng(2)
    X = np.where(rng.random(data.X.shape) < 0.3, np.nan, data.X)
    X[np.isnan(X).all(axis=1), 0] = 0.0
    labels = rng.integers(-1, 3, len(X))
    allowed = [(0, 2), (1,), (0, 1, 3)]
    parts, codes = np.array_split(X, 7), np.array_split(labels, 7)
    theta = Theta(
        np.tile(np.full(4, 0.25), (7, 1)), rng.standard_normal((7, 4, X.shape[1])),
        np.tile(np.eye(X.shape[1]) + 0.3, (7, 4, 1, 1)),
    )  # fmt: skip
    theta.covariances[3, 1] = -np.eye(X.shape[1])
    cpu = moments(Rows.of_sites(parts, codes, None, 4, allowed=allowed), theta, 1e-3)
    there = Rows.of_sites([to_device(x, "cuda") for x in parts], codes, None, 4, "cuda", allowed=allowed)
    gpu = moments(there, place(theta, "cuda"), 1e-3)
    for part in ("sums", "log_likelihood", "observed"):
        np.testing.assert_allclose(to_numpy(getattr(gpu, part)), getattr(cpu, part), rtol=1e-10, atol=1e-9)
    assert np.isnan(to_numpy(gpu.log_likelihood)).tolist() == [m == 3 for m in range(7)]
