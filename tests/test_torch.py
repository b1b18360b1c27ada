"""PyTorch's tensors, on the CPU and on a GPU, give NumPy's numbers."""

import numpy as np
import pytest

from gaussip.algorithms import REGISTRY, make
from gaussip.arrays import to_numpy
from gaussip.kernels import REFERENCE, WIDE, kernel_for
from gaussip.mixture.theta import Theta
from gaussip.mixture.validity import healthy
from gaussip.networks import mixing_weights
from gaussip.rows.moments import moments
from gaussip.rows.rows import Rows
from gaussip.simulation.run import simulate
from gaussip.studies.simulation_model import Setting, draw, paper_start
from hard_rows import HARD, hard, normwise

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU")
on_devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])


def tensors(theta, device, dtype=torch.float64):
    return Theta(*(torch.as_tensor(part, dtype=dtype, device=device) for part in theta))


def tensor_rows(rows, device, dtype=torch.float64):
    def moved(array):
        return None if array is None else torch.as_tensor(array, dtype=dtype, device=device)

    sites = tuple(site._replace(values=moved(site.values), weights=moved(site.weights)) for site in rows.sites)
    return Rows(rows.shape, moved(rows.centres), moved(rows.mass), moved(rows.labelled), sites)


@pytest.mark.parametrize(
    ("device", "kernel"),
    [
        ("cpu", "wide"),
        ("cpu", "reference"),
        *(pytest.param("cuda", kernel, marks=GPU) for kernel in ("cuda", "wide", "reference")),
    ],
)
@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize(("K", "p"), [(3, 6), (1, 1), (5, 2), (9, 12)])
def test_hard_rows(device, kernel, case, K, p):
    rows, theta = hard(case, K, p)
    wanted = moments(rows, theta, 1e-3, REFERENCE)
    at = tensors(theta, device)
    chosen = {"cuda": kernel_for(at.means), "wide": WIDE, "reference": REFERENCE}[kernel]
    assert chosen.name == kernel
    result = moments(tensor_rows(rows, device), at, 1e-3, chosen)
    assert normwise(result.sums, wanted.sums) <= 1e-12
    np.testing.assert_allclose(to_numpy(result.log_likelihood), wanted.log_likelihood, rtol=1e-11)


@on_devices
@pytest.mark.parametrize("p", [1, 3, 6, 8, 16, 30, 95])
def test_single_precision(device, p):
    rows, theta = hard("labelled and weighted", 3, p)
    result = moments(tensor_rows(rows, device, torch.float32), tensors(theta, device, torch.float32))
    assert result.sums.dtype == torch.float32
    assert normwise(result.sums, moments(rows, theta, 0.0, REFERENCE).sums) <= 1e-5


@pytest.mark.parametrize(("device", "p"), [("cpu", 95), *(pytest.param("cuda", p, marks=GPU) for p in (20, 95))])
def test_wide_rows(device, p):
    rows, theta = hard("labelled and weighted", 4, p)
    at = tensors(theta, device)
    assert kernel_for(at.means).name == "wide"
    result = moments(tensor_rows(rows, device), at)
    assert normwise(result.sums, moments(rows, theta, 0.0, REFERENCE).sums) <= 1e-12


@on_devices
def test_a_bad_theta_gives_nan_at_its_site_only(device):
    rows, theta = hard("random", 3, 6)
    theta.covariances[1, 2] = -np.eye(6)
    theta.weights[2, 0] = -0.1
    result = moments(tensor_rows(rows, device), tensors(theta, device))
    lost = [False, True, True] + [False] * (len(rows.sites) - 3)
    assert np.isnan(to_numpy(result.log_likelihood)).tolist() == lost
    assert np.isnan(to_numpy(result.sums)).all(axis=(-2, -1)).tolist() == lost


@on_devices
def test_wide_covariances_that_are_not_sound_are_found(device):
    covariances = np.broadcast_to(np.eye(50), (2, 3, 2, 50, 50)).copy()
    covariances[1, 2, 0, 7, 7] = -1.0
    weights, means = np.full((2, 3, 2), 0.5), np.zeros((2, 3, 2, 50))
    weights[0, 1, 1] = 0.0
    means[0, 0, 0, 3] = np.nan
    theta = Theta(weights, means, covariances)
    expected = [[False, False, True], [True, True, False]]
    assert healthy(theta).tolist() == expected
    assert to_numpy(healthy(tensors(theta, device))).tolist() == expected


@on_devices
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_algorithm(device, name, rows, start):
    """On the way; longer steps magnify rounding there, so accelerated runs are compared at their end."""
    W = mixing_weights("ring" if REGISTRY[name].two_way else "circle(2)", range(5))
    accelerated = name in ("em", "masked")
    for options, rounds in (({"accelerate": False}, 12), ({}, 300)) if accelerated else (({}, 12),):
        settings = {"max_rounds": rounds, "reg_covar": 1e-3, "weighting": "rows"}
        algorithm = make(name, 0.05, **options)
        wanted = simulate(algorithm, start, rows, W, **settings)
        result = simulate(algorithm, tensors(start, device), tensor_rows(rows, device), W, **settings)
        for part, exact in zip(result.theta, wanted.theta, strict=True):
            assert isinstance(part, torch.Tensor)
            assert normwise(part, exact) <= 1e-12


@on_devices
@pytest.mark.parametrize("name", sorted(REGISTRY))
@pytest.mark.parametrize("rounds", [1, 2, 51, 130])
def test_replicates_that_converge_at_different_rounds(device, name, rounds):
    """On a GPU rounds run in graphs: batches with and without a rest."""
    setting = Setting(n_rows=900, n_sites=4, n_features=2, delta=4, spread="homogeneous", labelled=0.1)
    drawn = [draw(setting, seed) for seed in range(3)]
    begins = [paper_start(data.truth, 0.1, np.random.default_rng(0)) for data in drawn]
    start = Theta(*(np.stack(parts)[:, None] for parts in zip(*begins, strict=True)))
    W = mixing_weights("ring" if REGISTRY[name].two_way else "circle", range(4))
    rows = Rows.stack([Rows.of_sites(d.by_site(d.X), d.by_site(d.labels), None, 3) for d in drawn])
    settings = {"max_rounds": rounds, "tol": 1e-4, "record_collapse": True}
    wanted = simulate(make(name, 0.1), start, rows, W, **settings)
    result = simulate(make(name, 0.1), tensors(start, device), tensor_rows(rows, device), W, **settings)
    assert result.n_rounds == wanted.n_rounds
    assert result.converged.tolist() == wanted.converged.tolist()
    assert result.collapsed.tolist() == wanted.collapsed.tolist()
    for part, exact in zip(result.theta, wanted.theta, strict=True):
        np.testing.assert_allclose(to_numpy(part), exact, rtol=1e-8, atol=1e-10)
    assert result.history.round.tolist() == wanted.history.round.tolist()
    assert result.history.bytes.tolist() == wanted.history.bytes.tolist()
    np.testing.assert_allclose(result.history.change, wanted.history.change, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(result.history.disagreement, wanted.history.disagreement, rtol=1e-6, atol=1e-10)


@on_devices
@pytest.mark.parametrize("kernel", ["best", "reference"])
@pytest.mark.parametrize("p", [5, 40])
def test_rows_with_missing_cells_and_labels_of_several_components(device, kernel, p):
    rng = np.random.default_rng(p)
    X = [3 * rng.normal(size=(n, p)) + 50 for n in (300, 200)]
    for x in X:
        x[rng.random(x.shape) < (0.2 if p == 5 else 0.01)] = np.nan
        x[:, 0] = np.nan_to_num(x[:, 0], nan=50.0)
    X[1][:, 2] = np.nan
    labels, weights = [rng.integers(-1, 3, size=len(x)) for x in X], [rng.random(len(x)) for x in X]
    A = rng.normal(size=(2, 3, p, p))
    theta = Theta(
        rng.dirichlet(np.ones(3), size=2), 3 * rng.normal(size=(2, 3, p)) + 50,
        A @ A.swapaxes(-1, -2) + p * np.eye(p),
    )  # fmt: skip
    allowed, chosen = [(0,), (1, 2), (0, 1)], REFERENCE if kernel == "reference" else None
    wanted = moments(Rows.of_sites(X, labels, weights, 3, allowed=allowed), theta, 0.1)

    def moved(arrays):
        return [torch.as_tensor(array, dtype=torch.float64, device=device) for array in arrays]

    rows = Rows.of_sites(moved(X), labels, moved(weights), 3, allowed=allowed)
    found = moments(rows, tensors(theta, device), 0.1, chosen)
    assert normwise(found.sums, wanted.sums) <= 1e-11
    np.testing.assert_allclose(to_numpy(found.log_likelihood), wanted.log_likelihood, rtol=1e-10)
    np.testing.assert_allclose(to_numpy(found.observed), wanted.observed, rtol=1e-9, atol=1e-9)
