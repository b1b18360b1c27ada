"""DenseNet-121: its weights in the styles they come in, and features of a database that survive a kill."""

import math
import signal
import subprocess

import numpy as np
import pytest

from command import PROGRAM, gaussip, wait_until
from gaussip.errors import DataError, FileError, SettingError
from gaussip.studies.features.table import read_features
from gaussip.studies.xray.densenet import feature_maps, pooled_features, shapes
from gaussip.studies.xray.extract import extract
from gaussip.studies.xray.radiography import read_manifest
from gaussip.studies.xray.standin import write_images
from gaussip.studies.xray.weights import load_weights

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def random_state(channels, seed=0):
    """Weights of a random network, whose features neither vanish nor explode."""
    rng = torch.Generator().manual_seed(seed)
    state = {}
    for name, shape in shapes(channels).items():
        if name.endswith("running_var") or ("norm" in name and name.endswith("weight")):
            state[name] = 0.5 + torch.rand(shape, generator=rng)
        else:
            scale = math.sqrt(2 / math.prod(shape[1:])) if len(shape) > 1 else 0.1
            state[name] = scale * torch.randn(shape, generator=rng)
    return state


@pytest.fixture(scope="module")
def state():
    return random_state(3)


@pytest.fixture(scope="module")
def images():
    return torch.rand((2, 64, 64), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def files(tmp_path_factory, state):
    """A folder with weights.pt and a small database."""
    folder = tmp_path_factory.mktemp("xray")
    torch.save(state, folder / "weights.pt")
    write_images(folder / "images", per_cell=1)
    return folder


def features(weights, images):
    with torch.inference_mode():
        return pooled_features(weights.state, weights.prepare(images, weights.normalisation(None)))


def old_names(name):
    """As torchvision wrote them before 0.3."""
    for part in ("norm", "conv"):
        for number in "12":
            name = name.replace(f".{part}{number}.", f".{part}.{number}.")
    return name


def test_the_published_number_of_parameters():
    trained = {name: shape for name, shape in shapes(3).items() if "running" not in name}
    assert sum(map(math.prod, trained.values())) == 6_953_856


def test_it_is_torchvision_s_network(state):
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    theirs = models.densenet121(weights=None).eval()
    unknown = theirs.load_state_dict(state, strict=False)
    assert not unknown.unexpected_keys
    assert all(name.startswith("classifier") or "num_batches" in name for name in unknown.missing_keys)
    x = torch.randn((2, 3, 64, 96), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        wanted = theirs.features(x)
        torch.testing.assert_close(feature_maps(state, x), wanted, rtol=1e-5, atol=1e-5)
        assert pooled_features(state, x).shape == (2, 1024)


def test_every_style_gives_the_same_features(tmp_path, state, images):
    head = {"classifier.weight": torch.zeros(14, 1024), "classifier.bias": torch.zeros(14)}
    tracked = {"features.norm0.num_batches_tracked": torch.tensor(7)}
    styles = {
        "torchvision.pth": {**state, **head, **tracked},
        "old.pth": {old_names(name): values for name, values in state.items()},
        "chexnet.pth.tar": {
            "epoch": 3,
            "state_dict": {f"module.densenet121.{old_names(name)}": v for name, v in {**state, **head}.items()},
        },
        "libauc.pt": {"model_state_dict": {f"model.{name}": values for name, values in {**state, **head}.items()}},
        "bare.pt": {"net": {name.removeprefix("features."): values.double() for name, values in state.items()}},
    }
    result = []
    for name, stored in styles.items():
        torch.save(stored, tmp_path / name)
        weights = load_weights(tmp_path / name)
        assert weights.channels == 3
        result.append(features(weights, images))
    assert result[0].shape == (2, 1024)
    assert result[0].isfinite().all()
    assert result[0].std() > 0
    for other in result[1:]:
        assert torch.equal(other, result[0])


def test_one_channel_is_torchxrayvision_s(tmp_path, images):
    state = random_state(1)
    torch.save(
        {**state, "op_threshs": torch.zeros(18), "classifier.weight": torch.zeros(18, 1024)}, tmp_path / "x.pt"
    )
    weights = load_weights(tmp_path / "x.pt")
    assert (weights.channels, weights.normalisation(None)) == (1, "xrv")
    x = weights.prepare(torch.tensor([[[0.0, 0.5, 1.0]]]), "xrv")
    assert x.tolist() == [[[[-1024.0, 0.0, 1024.0]]]]
    with pytest.raises(SettingError, match="three channels; these weights take one"):
        weights.normalisation("imagenet")
    first = "features.conv0.weight"
    torch.save({**state, first: torch.cat([state[first], torch.zeros(64, 2, 7, 7)], dim=1)}, tmp_path / "y.pt")
    three = load_weights(tmp_path / "y.pt")
    with torch.inference_mode():
        same = [pooled_features(w.state, w.prepare(images, "xrv")) for w in (weights, three)]
    torch.testing.assert_close(*same, rtol=1e-4, atol=1e-3)


def test_imagenet_s_normalisation(files):
    weights = load_weights(files / "weights.pt")
    x = weights.prepare(torch.full((1, 1, 1), 0.5), "imagenet").flatten()
    torch.testing.assert_close(x, torch.tensor([0.015 / 0.229, 0.044 / 0.224, 0.094 / 0.225]))
    assert weights.prepare(torch.ones(1, 2, 2), "none").tolist() == torch.ones(1, 3, 2, 2).tolist()
    with pytest.raises(SettingError, match="normalise='zscore' is not one of 'imagenet', 'xrv', 'none'"):
        weights.normalisation("zscore")


def test_weights_that_do_not_fit(tmp_path, state):
    path = tmp_path / "odd.pt"
    odd = {name: values for name, values in state.items() if "norm5" not in name}
    odd["features.conv0.weight"] = torch.zeros(32, 3, 7, 7)
    odd["layer1.0.conv1.weight"] = torch.zeros(1)
    torch.save(odd, path)
    with pytest.raises(DataError, match="does not fit a DenseNet-121") as refused:
        load_weights(path)
    message = str(refused.value)
    assert "4 missing (features.norm5.weight, features.norm5.bias, features.norm5.running_mean, ...)" in message
    assert "1 unexpected (layer1.0.conv1.weight)" in message
    assert "1 of another shape (features.conv0.weight (32, 3, 7, 7) instead of (64, 3, 7, 7))" in message
    torch.save({**state, "features.norm5.bias": torch.full((1024,), torch.nan)}, path)
    with pytest.raises(DataError, match=r"features\.norm5\.bias has values that are not finite"):
        load_weights(path)


def test_no_code_is_run_from_files(tmp_path):
    path = tmp_path / "model.pt"
    torch.save(torch.nn.Linear(2, 2), path)  # a whole model, as torchxrayvision distributes them
    with pytest.raises(
        DataError, match=r"needs the code of torch\.nn\.\S+Linear.*torch\.save\(model\.state_dict\(\)"
    ):
        load_weights(path)
    torch.save(torch.zeros(3), path)
    with pytest.raises(DataError, match="holds no state dictionary"):
        load_weights(path)
    for content in (b"", b"hello world", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"model\.pt is not a file of torch weights"):
            load_weights(path)
    with pytest.raises(DataError, match="there is no file"):
        load_weights(tmp_path / "none.pt")


def test_features_of_a_database(files, tmp_path):
    out = tmp_path / "f.npz"
    done = gaussip(
        "xray", "features", files / "images", "--weights", files / "weights.pt", "--out", out, "--size", "32"
    )
    assert done.returncode == 0, done.stderr
    assert "10 images, 1024 features, normalised by imagenet" in done.stdout
    table, manifest = read_features(out), read_manifest(files / "images")
    assert table.features.shape == (10, 1024)
    assert table.features.dtype == np.float32
    assert table.image.tolist() == [image.name for image in manifest.images]
    assert table.site.tolist() == [image.site for image in manifest.images]
    assert table.label.tolist() == [image.label for image in manifest.images]
    assert [path.name for path in tmp_path.iterdir()] == ["f.npz"]
    extract(manifest, files / "weights.pt", tmp_path / "one.npz", size=32, batch_size=1)
    np.testing.assert_allclose(read_features(tmp_path / "one.npz").features, table.features, rtol=1e-3, atol=1e-4)


def test_a_kill_loses_nothing(files, tmp_path):
    whole, killed = tmp_path / "whole.npz", tmp_path / "killed.npz"
    arguments = ["xray", "features", files / "images", "--weights", files / "weights.pt", "--batch-size", "1"]
    assert gaussip(*arguments, "--out", whole).returncode == 0
    process = subprocess.Popen([*PROGRAM, *map(str, arguments), "--out", str(killed)], stdout=subprocess.DEVNULL)
    parts = tmp_path / "killed.npz.parts"
    wait_until((parts / "000001.npz").exists, process)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not killed.exists()
    other = gaussip(*arguments[:-1], "3", "--out", killed)
    assert other.returncode == 2
    assert "batch_size was 1 and is 3" in other.stderr
    done = gaussip(*arguments, "--out", killed)
    assert done.returncode == 0, done.stderr
    assert "batches were kept from a run that was interrupted" in done.stdout
    assert killed.read_bytes() == whole.read_bytes()
    assert not parts.exists()


def test_images_that_cannot_be_read_are_listed(files, tmp_path):
    write_images(tmp_path / "images", per_cell=1)
    manifest = read_manifest(tmp_path / "images")
    for image in manifest.images[2:4]:  # after they were looked at
        (tmp_path / "images" / image.path).write_text("no image")
    done = extract(manifest, files / "weights.pt", tmp_path / "f.npz", size=32, batch_size=2)
    assert done.rows == 8
    assert [image.name in message for image, message in zip(manifest.images[2:4], done.left_out, strict=True)] == [
        True,
        True,
    ]
    left = [image.name for image in manifest.images[:2] + manifest.images[4:]]
    assert read_features(tmp_path / "f.npz").image.tolist() == left
    again = gaussip(
        "xray", "features", tmp_path / "images", "--weights", files / "weights.pt", "--out", tmp_path / "g.npz",
        "--size", "32",
    )  # fmt: skip
    assert f"left out: {manifest.images[2].path.as_posix()} (no image)" in again.stdout


def test_what_is_refused(files, tmp_path):
    manifest = read_manifest(files / "images")
    with pytest.raises(SettingError, match="size=16 must be at least 32"):
        extract(manifest, files / "weights.pt", tmp_path / "f.npz", size=16)
    with pytest.raises(FileError, match=r"f\.csv: features are written as an \.npz file"):
        extract(manifest, files / "weights.pt", tmp_path / "f.csv")
    (tmp_path / "f.npz.parts").mkdir()
    (tmp_path / "f.npz.parts" / "letter.txt").write_text("mine")
    with pytest.raises(FileError, match=r"f\.npz\.parts holds something else"):
        extract(manifest, files / "weights.pt", tmp_path / "f.npz", size=32)
    (tmp_path / "f.npz.parts" / "settings.json").write_text("{")
    with pytest.raises(FileError, match=r"f\.npz\.parts cannot be used"):
        extract(manifest, files / "weights.pt", tmp_path / "f.npz", size=32)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU")
def test_a_gpu_gives_the_cpu_s_features(tmp_path, state):
    write_images(tmp_path / "images", per_cell=2)
    torch.save(state, tmp_path / "weights.pt")
    manifest = read_manifest(tmp_path / "images")
    for device in ("cpu", "cuda"):
        extract(manifest, tmp_path / "weights.pt", tmp_path / f"{device}.npz", size=96, device=device)
    cpu, gpu = (read_features(tmp_path / f"{device}.npz").features for device in ("cpu", "cuda"))
    np.testing.assert_allclose(gpu, cpu, rtol=1e-3, atol=1e-4 * np.abs(cpu).max())
