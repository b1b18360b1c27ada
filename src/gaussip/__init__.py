"""gaussip: Gaussian mixtures across sites that never share a row and have no central server."""

from typing import TYPE_CHECKING, Any

from gaussip.arrays.registry import register

__version__ = "0.1.0"

register("cpu", "gaussip.kernels.cpu.small")
register("cuda", "gaussip.kernels.cuda.small")

if TYPE_CHECKING:
    from gaussip.estimator import NetworkGaussianMixture

__all__ = ["NetworkGaussianMixture", "__version__"]


def __getattr__(name: str) -> Any:
    # scikit-learn is slow to import: only those who use the estimator wait for it
    if name == "NetworkGaussianMixture":
        from gaussip.estimator import NetworkGaussianMixture

        return NetworkGaussianMixture
    raise AttributeError(f"module 'gaussip' has no attribute {name!r}")
