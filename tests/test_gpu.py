"""device="cuda" against device="cpu"; needs PyTorch and a GPU."""

import numpy as np
import pytest

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import REGISTRY, make
from gaussip.arrays import to_device, to_numpy
from gaussip.errors import CollapseError, FewerAtATimeWarning
from gaussip.kernels import REFERENCE, WIDE, kernel_for
from gaussip.mixture.theta import Theta, place
from gaussip.mixture.validity import healthy
from gaussip.networks import mixing_weights
from gaussip.rows.moments import moments
from gaussip.rows.rows import Rows
from gaussip.selection import choose_components
from gaussip.simulation.run import simulate
from gaussip.studies.comparison import Trial, compare
from gaussip.studies.methods import parse_method
from gaussip.studies.simulation_model import Setting, draw, paper_start
from hard_rows import HARD, hard, normwise

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


def on_gpu(rows, dtype=torch.float64):
    def moved(array):
        return None if array is None else torch.as_tensor(array, dtype=dtype, device="cuda")

    sites = tuple(site._replace(values=moved(site.values), weights=moved(site.weights)) for site in rows.sites)
    return Rows(rows.shape, moved(rows.centres), moved(rows.mass), moved(rows.labelled), sites)


@pytest.mark.parametrize("kernel", ["cuda", "wide", "reference"])
@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize(("K", "p"), [(3, 6), (1, 1), (5, 2), (9, 12)])
def test_hard_rows(kernel, case, K, p):
    rows, theta = hard(case, K, p)
    wanted = moments(rows, theta, 1e-3, REFERENCE)
    at = place(theta, "cuda")
    chosen = {"cuda": kernel_for(at.means), "wide": WIDE, "reference": REFERENCE}[kernel]
    assert chosen.name == kernel
    result = moments(on_gpu(rows), at, 1e-3, chosen)
    assert normwise(result.sums, wanted.sums) <= 1e-12
    np.testing.assert_allclose(to_numpy(result.log_likelihood), wanted.log_likelihood, rtol=1e-11)


@pytest.mark.parametrize("p", [1, 3, 6, 8, 16, 30, 95])
def test_single_precision(p):
    rows, theta = hard("labelled and weighted", 3, p)
    at = Theta(*(torch.as_tensor(part, dtype=torch.float32, device="cuda") for part in theta))
    result = moments(on_gpu(rows, torch.float32), at)
    assert result.sums.dtype == torch.float32
    assert normwise(result.sums, moments(rows, theta, 0.0, REFERENCE).sums) <= 1e-5


@pytest.mark.parametrize("p", [20, 95])
def test_wide_rows(p):
    rows, theta = hard("labelled and weighted", 4, p)
    at = place(theta, "cuda")
    assert kernel_for(at.means).name == "wide"
    assert normwise(moments(on_gpu(rows), at).sums, moments(rows, theta, 0.0, REFERENCE).sums) <= 1e-12


def test_a_bad_theta_gives_nan_at_its_site_only():
    rows, theta = hard("random", 3, 6)
    theta.covariances[1, 2] = -np.eye(6)
    theta.weights[2, 0] = -0.1
    result = moments(on_gpu(rows), place(theta, "cuda"))
    lost = [False, True, True] + [False] * (len(rows.sites) - 3)
    assert np.isnan(to_numpy(result.log_likelihood)).tolist() == lost
    assert np.isnan(to_numpy(result.sums)).all(axis=(-2, -1)).tolist() == lost


@pytest.mark.parametrize("name", sorted(REGISTRY))
@pytest.mark.parametrize("rounds", [1, 2, 51, 130])
def test_rounds_in_graphs_are_the_cpu_s(name, rounds):
    """Replicates that converge at different rounds, batches of rounds with and without a rest."""
    setting = Setting(n_rows=900, n_sites=4, n_features=2, delta=4, spread="homogeneous", labelled=0.1)
    drawn = [draw(setting, seed) for seed in range(3)]
    begins = [paper_start(data.truth, 0.1, np.random.default_rng(0)) for data in drawn]
    start = Theta(*(np.stack(parts)[:, None] for parts in zip(*begins, strict=True)))
    W = mixing_weights("ring" if REGISTRY[name].two_way else "circle", range(4))
    runs = []
    for device in ("cpu", "cuda"):
        values = [[to_device(x, device) for x in data.by_site(data.X)] for data in drawn]
        labels = [data.by_site(data.labels) for data in drawn]
        rows = Rows.stack([Rows.of_sites(x, y, None, 3) for x, y in zip(values, labels, strict=True)])
        settings = {"max_rounds": rounds, "tol": 1e-4, "record_collapse": True}
        runs.append(simulate(make(name, 0.1), place(start, device), rows, W, **settings))
    cpu, gpu = runs
    assert gpu.n_rounds == cpu.n_rounds
    assert gpu.converged.tolist() == cpu.converged.tolist()
    assert gpu.collapsed.tolist() == cpu.collapsed.tolist()
    for part, wanted in zip(gpu.theta, cpu.theta, strict=True):
        np.testing.assert_allclose(to_numpy(part), wanted, rtol=1e-8, atol=1e-10)
    assert gpu.history.round.tolist() == cpu.history.round.tolist()
    assert gpu.history.bytes.tolist() == cpu.history.bytes.tolist()
    np.testing.assert_allclose(gpu.history.change, cpu.history.change, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(gpu.history.disagreement, cpu.history.disagreement, rtol=1e-6, atol=1e-10)


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


def test_wide_covariances_that_are_not_sound_are_found():
    covariances = np.broadcast_to(np.eye(50), (2, 3, 2, 50, 50)).copy()
    covariances[1, 2, 0, 7, 7] = -1.0
    weights, means = np.full((2, 3, 2), 0.5), np.zeros((2, 3, 2, 50))
    weights[0, 1, 1] = 0.0
    means[0, 0, 0, 3] = np.nan
    result = to_numpy(healthy(place(Theta(weights, means, covariances), "cuda")))
    assert (
        result.tolist()
        == healthy(Theta(weights, means, covariances)).tolist()
        == [[False, False, True], [True, True, False]]
    )


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
    rows = trial.rows

    def crowded(some, labels):
        if some.stop - some.start > 2:
            torch.empty(2**60, dtype=torch.uint8, device="cuda")  # more than any card has: a real refusal
        return rows(some, labels)

    monkeypatch.setattr(trial, "rows", crowded)
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
