"""device="cuda" against device="cpu"; needs PyTorch and a GPU."""

import numpy as np
import pytest

from gaussip import NetworkGaussianMixture
from gaussip.algorithms import REGISTRY
from gaussip.data.generate import Setting, draw
from gaussip.errors import CollapseError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
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


def test_a_collapse_is_named_there_too(data):
    far = data.truth.means.copy()
    far[1] += 1e3
    with pytest.raises(CollapseError, match="component 1 collapsed at site 0"):
        NetworkGaussianMixture(3, algorithm="nnem", means_init=far, device="cuda").fit(data.X, sites=data.sites)
