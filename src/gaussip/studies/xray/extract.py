"""Features of every image of a database, batch by batch; an interrupted run resumes with the next batch."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gaussip.arrays import NDArray, out_of_memory, to_device
from gaussip.errors import DataError, DeviceError, FileError, SettingError
from gaussip.files import refuse_overwriting
from gaussip.studies.features.table import FeatureTable, write_features
from gaussip.studies.storage import read_arrays, write_arrays, write_texts
from gaussip.studies.xray.densenet import N_FEATURES, pooled_features
from gaussip.studies.xray.radiography import Image, Manifest, Watch, extra, read_image
from gaussip.studies.xray.weights import Weights, load_weights

SMALLEST = 32  # pixels: the network halves a side five times


class Extracted(NamedTuple):
    """What an extraction did."""

    rows: int
    left_out: tuple[str, ...]  #: images that could not be read, with the reason
    kept: int  #: batches of a run that was interrupted
    normalise: str


def extract(
    manifest: Manifest,
    weights: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    size: int = 224,
    batch_size: int = 32,
    device: str = "cpu",
    normalise: str | None = None,
    watch: Watch = lambda text, done: None,
) -> Extracted:
    """Write the images' features as an .npz feature table, in the manifest's order.

    Finished batches are kept in the folder ``OUT.parts``, from which the same call resumes; the end removes it.
    The file is then the same to the byte as without a pause, on the same machine and number of threads.

    Parameters
    ----------
    weights : file of a DenseNet-121's weights, see `gaussip.studies.xray.weights`
    out : the .npz file; one that is there is overwritten
    size : pixels of a side of the images the network sees
    normalise : imagenet, xrv or none; by default that of the weights' family
    """
    if batch_size < 1:
        raise SettingError(f"batch_size={batch_size} must be at least 1")
    network, way = settle(weights, out, size, device, normalise)
    settings = {
        "weights": hashlib.sha256(Path(weights).read_bytes()).hexdigest(),
        "images": manifest.digest(),
        "size": size,
        "batch_size": batch_size,
        "device": device,
        "normalise": way,
    }
    parts = _open_parts(Path(f"{os.fspath(out)}.parts"), settings)
    batches, kept = [], 0
    firsts = range(0, len(manifest.images), batch_size)
    for number, first in enumerate(firsts):
        batch = manifest.images[first : first + batch_size]
        part = parts / f"{number:06d}.npz"
        if part.exists():
            kept += 1
        else:
            features, unread = _features(manifest.folder, batch, network, size, way, device)
            write_arrays(part, {"features": features, "unread": np.array(unread)})
        batches.append(_read_part(part, len(batch)))
        watch(f"features of {batch[-1].name}", min(1.0, (first + batch_size) / len(manifest.images)))
    reasons = [str(reason) for _, unread in batches for reason in unread]
    seen = [image for image, reason in zip(manifest.images, reasons, strict=True) if not reason]
    left_out = tuple(reason for reason in reasons if reason)
    if not seen:
        raise DataError(f"none of the {len(reasons)} images can be read; the first: {left_out[0]}")
    write_features(
        out,
        FeatureTable(
            np.concatenate([features for features, _ in batches]),
            np.array([image.label for image in seen]),
            np.array([image.site for image in seen]),
            np.array([image.name for image in seen]),
        ),
    )
    shutil.rmtree(parts)
    return Extracted(len(seen), left_out, kept, way)


def settle(
    weights: str | os.PathLike[str], out: str | os.PathLike[str], size: int, device: str, normalise: str | None
) -> tuple[Weights, str]:
    """The network and its normalisation; what cannot work is rejected, before any image is read."""
    if size < SMALLEST:
        raise SettingError(f"size={size} must be at least {SMALLEST}")
    if Path(out).suffix != ".npz":
        raise FileError(f"{out}: features are written as an .npz file")
    refuse_overwriting(out, force=True)
    to_device(0.0, device)  # rejects a device that is not there
    network = load_weights(weights, device)
    return network, network.normalisation(normalise)


def _features(
    folder: Path, batch: tuple[Image, ...], network: Weights, size: int, normalise: str, device: str
) -> tuple[NDArray, list[str]]:
    """Features of the images that can be read, and for each image why it cannot (an empty word: it can)."""
    torch = extra("torch")
    pixels, reasons = [], []
    for image in batch:
        try:
            pixels.append(read_image(folder / image.path, size))
            reasons.append("")
        except DataError as error:
            reasons.append(str(error))
    if not pixels:
        return np.empty((0, N_FEATURES), dtype=np.float32), reasons
    exactly = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
    try:
        with torch.inference_mode(), exactly:
            images = torch.from_numpy(np.stack(pixels)).to(device)
            features = pooled_features(network.state, network.prepare(images, normalise)).cpu()
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise DeviceError(
            f"the memory of {device} is too small for {len(pixels)} images; lower batch_size"
        ) from error
    return features.numpy(), reasons


def _open_parts(folder: Path, settings: dict[str, Any]) -> Path:
    """The folder of finished batches, rejected if they were made with other settings."""
    note = folder / "settings.json"
    if folder.is_dir() and not note.exists() and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise FileError(f"{folder} holds something else; move it, or choose another name for the features")
    try:
        folder.mkdir(exist_ok=True)
        if not note.exists():
            write_texts(folder, {note.name: json.dumps(settings, indent=2)})
        before = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{folder} cannot be used: {error}; delete it to start again") from error
    differ = [
        f"{name} was {str(before.get(name))[:12]} and is {str(value)[:12]}"  # of a digest the beginning is enough
        for name, value in settings.items()
        if before.get(name) != value
    ]
    if differ:
        raise SettingError(
            f"{folder} keeps batches of other settings: {', '.join(differ)}; "
            "continue with those, or delete it to start again"
        )
    return folder


def _read_part(path: Path, images: int) -> tuple[NDArray, NDArray]:
    remedy = "delete it, and the same command makes it again"
    arrays = read_arrays(path, DataError, remedy)
    if not {"features", "unread"} <= set(arrays) or len(arrays["unread"]) != images:
        raise DataError(f"{path} does not hold a batch of {images} images; {remedy}")
    return arrays["features"], arrays["unread"]
