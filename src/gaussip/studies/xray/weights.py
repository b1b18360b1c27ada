"""Weights of a DenseNet-121 from a file, as torchvision, LibAUC, CheXNet and torchxrayvision write them."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gaussip.errors import DataError, SettingError
from gaussip.settings import check_choice
from gaussip.studies.xray.densenet import shapes
from gaussip.studies.xray.radiography import extra

WRAPPERS = ("state_dict", "model_state_dict", "model", "net")  # keys under which programs keep a state dictionary
PREFIX = re.compile(r"^((module|model|net|densenet121|features)\.)+")
HEAD = re.compile(r"(classifier|fc|head|op_threshs|bn|last_linear)(\.|$)|.*num_batches_tracked$")
OLD_NAME = re.compile(r"\b(norm|conv)\.([12])\b")  # of torchvision before 0.3
FIRST = "features.conv0.weight"
SHOWN = 3  # misfits of each kind in a message
NORMALISE = ("imagenet", "xrv", "none")
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and standard deviation of its channels
XRV = 1024.0  # torchxrayvision's images lie in [-1024, 1024]


class Weights(NamedTuple):
    """A state dictionary that fits, and the way images come in."""

    state: dict[str, Any]
    channels: int  #: of the first convolution

    def normalisation(self, asked: str | None) -> str:
        """The normalisation asked for, or the one of the weights' family: xrv for one channel, imagenet for three."""
        if asked is None:
            return "xrv" if self.channels == 1 else "imagenet"
        check_choice("normalise", asked, NORMALISE)
        if asked == "imagenet" and self.channels == 1:
            raise SettingError(
                "normalise='imagenet' is for three channels; these weights take one: use 'xrv' or 'none'"
            )
        return asked

    def prepare(self, images: Any, normalise: str) -> Any:
        """Greyscale images (n, size, size) in [0, 1] as the network takes them, (n, channels, size, size)."""
        x = images[:, None].expand(-1, self.channels, -1, -1)
        if normalise == "imagenet":
            mean, deviation = (images.new_tensor(values)[:, None, None] for values in IMAGENET)
            return (x - mean) / deviation
        return XRV * (2 * x - 1) if normalise == "xrv" else x


def load_weights(path: str | os.PathLike[str], device: str = "cpu") -> Weights:
    """The weights in a file written by ``torch.save``; no code in it is ever run."""
    torch = extra("torch")
    stored = _unwrapped(path, _load(path))
    state, usual_names = {}, shapes(3)
    for name, values in stored.items():
        bare = OLD_NAME.sub(r"\1\2", PREFIX.sub("", name))
        if not HEAD.match(bare):
            usual = f"features.{bare}"
            state[usual if usual in usual_names else name] = values
    first = state.get(FIRST)
    channels = 1 if first is not None and first.ndim == 4 and first.shape[1] == 1 else 3
    _check_fit(path, state, shapes(channels))
    for name, values in state.items():
        if not torch.isfinite(values).all():
            raise DataError(f"{path}: {name} has values that are not finite (NaN, infinity)")
    return Weights({name: values.to(device=device, dtype=torch.float32) for name, values in state.items()}, channels)


def _load(path: str | os.PathLike[str]) -> Any:
    if not Path(path).is_file():
        raise DataError(f"there is no file {path}")
    torch = extra("torch")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # torch raises whatever its parsers meet
        needed = re.search(r"GLOBAL (\S+)", str(error))
        if needed is None:
            raise DataError(f"{path} is not a file of torch weights, or is damaged") from error
        raise DataError(
            f"{path} is not a plain state dictionary: it needs the code of {needed[1]}, and gaussip runs no code "
            "from files; in the program it comes from, save it as torch.save(model.state_dict(), 'weights.pt')"
        ) from error


def _unwrapped(path: str | os.PathLike[str], stored: Any) -> dict[str, Any]:
    """The tensors by name, from within what a program put around them."""
    while isinstance(stored, Mapping):
        inner = next((stored[key] for key in WRAPPERS if isinstance(stored.get(key), Mapping)), None)
        if inner is None:
            break
        stored = inner
    if isinstance(stored, Mapping):
        tensors = {str(name): values for name, values in stored.items() if hasattr(values, "shape")}
        if tensors:
            return tensors
    raise DataError(f"{path} holds no state dictionary: no tensors by name, bare or under {', '.join(WRAPPERS)}")


def _check_fit(path: str | os.PathLike[str], state: Mapping[str, Any], wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Reject weights that are not a DenseNet-121's, and say where they differ."""
    others = [
        f"{name} {tuple(state[name].shape)} instead of {shape}"
        for name, shape in wanted.items()
        if name in state and tuple(state[name].shape) != shape
    ]
    faults = {
        "missing": [name for name in wanted if name not in state],
        "unexpected": [name for name in state if name not in wanted],
        "of another shape": others,
    }
    misfits = [
        f"{len(names)} {what} ({', '.join(names[:SHOWN])}{', ...' * (len(names) > SHOWN)})"
        for what, names in faults.items()
        if names
    ]
    if misfits:
        raise DataError(f"{path} does not fit a DenseNet-121: of its {len(wanted)} tensors {'; '.join(misfits)}")
