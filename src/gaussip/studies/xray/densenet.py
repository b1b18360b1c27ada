"""DenseNet-121 without its head (Huang et al. 2017), as a function of a state dictionary."""

from collections.abc import Mapping
from typing import Any

from gaussip.studies.xray.radiography import extra

GROWTH = 32  # channels a layer adds
BOTTLENECK = 4 * GROWTH  # channels between a layer's two convolutions
BLOCKS = (6, 12, 24, 16)  # layers
FIRST = 64  # channels of the first convolution
N_FEATURES = 1024
Tensors = Mapping[str, Any]


def shapes(channels: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the parameters, as state dictionaries have them, for images of so many channels."""
    parameters: dict[str, tuple[int, ...]] = {"features.conv0.weight": (FIRST, channels, 7, 7)}
    parameters |= _norm("norm0", FIRST)
    width = FIRST
    for block, layers in enumerate(BLOCKS, start=1):
        for layer in range(1, layers + 1):
            name = f"denseblock{block}.denselayer{layer}"
            parameters |= _norm(f"{name}.norm1", width)
            parameters[f"features.{name}.conv1.weight"] = (BOTTLENECK, width, 1, 1)
            parameters |= _norm(f"{name}.norm2", BOTTLENECK)
            parameters[f"features.{name}.conv2.weight"] = (GROWTH, BOTTLENECK, 3, 3)
            width += GROWTH
        if block < len(BLOCKS):
            parameters |= _norm(f"transition{block}.norm", width)
            parameters[f"features.transition{block}.conv.weight"] = (width // 2, width, 1, 1)
            width //= 2
    return parameters | _norm("norm5", width)


def pooled_features(state: Tensors, images: Any) -> Any:
    """Features (n, 1024) of images (n, channels, height, width): the last feature maps, rectified and averaged."""
    return feature_maps(state, images).relu().mean(dim=(2, 3))


def feature_maps(state: Tensors, images: Any) -> Any:
    """The last feature maps (n, 1024, height / 32, width / 32) of images (n, channels, height, width)."""
    functional = extra("torch.nn.functional")
    torch = extra("torch")

    def convolve(name: str, x: Any, **how: int) -> Any:
        return functional.conv2d(x, state[f"features.{name}.weight"], **how)

    def normalise(name: str, x: Any) -> Any:
        mean, variance, weight, bias = (
            state[f"features.{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        return functional.batch_norm(x, mean, variance, weight, bias)

    x = normalise("norm0", convolve("conv0", images, stride=2, padding=3)).relu()
    x = functional.max_pool2d(x, kernel_size=3, stride=2, padding=1)
    for block, layers in enumerate(BLOCKS, start=1):
        for layer in range(1, layers + 1):
            name = f"denseblock{block}.denselayer{layer}"
            added = convolve(f"{name}.conv1", normalise(f"{name}.norm1", x).relu())
            added = convolve(f"{name}.conv2", normalise(f"{name}.norm2", added).relu(), padding=1)
            x = torch.cat([x, added], dim=1)
        if block < len(BLOCKS):
            x = convolve(f"transition{block}.conv", normalise(f"transition{block}.norm", x).relu())
            x = functional.avg_pool2d(x, kernel_size=2)
    return normalise("norm5", x)


def _norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    parts = ("weight", "bias", "running_mean", "running_var")
    return {f"features.{name}.{part}": (width,) for part in parts}
