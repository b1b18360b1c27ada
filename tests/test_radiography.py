"""The radiography database: a stand-in folder in every kind of disorder, and a sample of the real one."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow.csv
import pytest
from PIL import Image
from typer.testing import CliRunner

from command import gaussip
from gaussip.cli import app
from gaussip.errors import DataError, FileError, SettingError
from gaussip.studies.xray.radiography import (
    CLASSES,
    SITES,
    read_image,
    read_manifest,
    read_workbook,
    site_of,
)
from gaussip.studies.xray.standin import CELLS, write_images


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("database") / "images"
    write_images(folder)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy to spoil."""
    return Path(shutil.copytree(made, tmp_path / "database"))


def rewrite(folder, name, change):
    """A class's workbook with its rows, lists of cells, changed."""
    path = folder / f"{name}.metadata.xlsx"
    rows = [list(row) for row in openpyxl.load_workbook(path).active.iter_rows(values_only=True)]
    book = openpyxl.Workbook()
    for row in change(rows):
        book.active.append(row)
    book.save(path)


def test_every_image_has_its_label_and_site(made):
    manifest = read_manifest(made)
    assert manifest.counts() == {
        site: {label: 2 if (site, label) in CELLS else 0 for label in CLASSES.values()} for site in SITES
    }
    assert manifest.remarks == ((), (), (), (), (), (), 6)
    first = manifest.images[0]
    assert (first.path.as_posix(), first.name, first.label) == ("COVID/images/COVID-1.png", "COVID-1", "covid")
    covid = [image.name for image in manifest.images if image.label == "covid"]
    assert covid == [f"COVID-{j}" for j in range(1, 13)]  # 2 before 10


def test_older_releases_and_masks(made, folder):
    for name in CLASSES:
        for path in (folder / name / "images").iterdir():
            path.rename(folder / name / path.name.upper())
        (folder / name / "images").rmdir()
        (folder / name / "masks").mkdir()
        shutil.copy(next((folder / name).glob("*.PNG")), folder / name / "masks" / "mask-1.png")
        (folder / name / "._hidden.png").write_bytes(b"of another system")
    assert read_manifest(folder).counts() == read_manifest(made).counts()
    assert not read_manifest(folder).remarks.no_source


def test_names_in_any_case_and_with_an_ending(made, folder):
    rewrite(folder, "COVID", lambda rows: [rows[0], *([f"covid{row[0][5:]}.PNG", *row[1:]] for row in rows[1:])])
    assert read_manifest(folder).counts() == read_manifest(made).counts()


def test_sites():
    assert site_of("https://SIRM.org/category/senza-categoria/covid-19/") == "SIRM"
    assert site_of("https://github.com/armiro/COVID-CXNet") == "COVID-CXNet"
    assert site_of("https://www.example.org/x?y=1") == "example.org"
    assert site_of("example.org/x") == "example.org"
    assert site_of("http://[x") == "http://[x"


def test_what_is_remarked(folder):
    images = folder / "COVID" / "images"

    def change(rows):
        rows[3][3] = "https://www.example.org/x-rays"
        rows[4][3] = None
        return [*rows[:8], ["Covid-1", "PNG", "", rows[5][3]], ["COVID-99", "PNG", "", rows[5][3]], *rows[8:]]

    rewrite(folder, "COVID", change)
    shutil.copy(images / "COVID-1.png", images / "COVID-200.png")
    shutil.copy(images / "COVID-1.png", folder / "Normal" / "images" / "Normal-1.png")
    (images / "COVID-5.png").write_bytes((images / "COVID-5.png").read_bytes()[:300])
    (images / "COVID-6.png").write_text("no image")
    (images / "COVID-7.png").write_bytes(b"")
    Image.fromarray(np.full((8, 8), 40_000, dtype=np.uint16)).save(images / "COVID-8.png")
    manifest = read_manifest(folder)
    message = manifest.remarks
    assert message.sources == ("example.org",)
    assert manifest.counts()["example.org"]["covid"] == 1
    assert list(manifest.counts())[-1] == "example.org"
    assert message.no_source == ("COVID/images/COVID-4.png", "COVID/images/COVID-200.png")
    assert message.no_image == ("COVID-99",)
    assert message.twice == ("COVID-1",)
    assert manifest.images[0].site == "BIMCV"  # the first row counts
    assert [line.partition(" (")[0] for line in message.unreadable] == [
        f"COVID/images/COVID-{j}.png" for j in range(5, 9)
    ]
    assert message.unreadable[1].endswith("(no image)")
    assert message.unreadable[2].endswith("(an empty file)")
    assert "not 8-bit" in message.unreadable[3]
    assert message.same == (("COVID/images/COVID-1.png", "Normal/images/Normal-1.png"),)
    left = {image.path.as_posix() for image in manifest.images}
    assert not left & {*message.no_source, *(f"COVID/images/COVID-{j}.png" for j in range(5, 9))}
    lines = "\n".join(message.lines())
    for name in ("example.org", "COVID-200.png", "COVID-99", "'COVID-1'", "COVID-5.png", "Normal-1.png"):
        assert name in lines


def test_what_is_refused(folder, tmp_path):
    with pytest.raises(DataError, match=r"there is no folder .*nowhere"):
        read_manifest(tmp_path / "nowhere")
    workbook = folder / "Normal.metadata.xlsx"
    rewrite(folder, "Normal", lambda rows: [row[:3] for row in rows])
    with pytest.raises(DataError, match=r"Normal\.metadata\.xlsx has no column 'URL'; its first row has 'FILE NAME'"):
        read_manifest(folder)
    rewrite(folder, "Normal", lambda rows: [row[1:] for row in rows])
    with pytest.raises(
        DataError, match=r"Normal\.metadata\.xlsx has no column 'FILE NAME'; its first row has 'FORMAT'"
    ):
        read_manifest(folder)
    rewrite(folder, "Normal", lambda rows: [])
    with pytest.raises(DataError, match="has no column 'FILE NAME'; its first row has nothing"):
        read_manifest(folder)
    workbook.write_text("FILE NAME,URL")
    with pytest.raises(DataError, match=r"Normal\.metadata\.xlsx is not a workbook"):
        read_manifest(folder)
    workbook.unlink()
    with pytest.raises(
        DataError, match=r"has no workbook 'Normal\.metadata\.xlsx'; it has 'COVID', 'COVID\.metadata"
    ):
        read_manifest(folder)
    for path in (folder / "Normal" / "images").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="Normal has no image"):
        read_manifest(folder)
    shutil.rmtree(folder / "Normal")
    with pytest.raises(DataError, match="has no class folder 'Normal'; it has 'COVID'"):
        read_manifest(folder)
    (folder / "Normal").write_text("")
    with pytest.raises(DataError, match="Normal is not a folder"):
        read_manifest(folder)


def test_names_that_never_match(folder):
    for name in CLASSES:
        rewrite(folder, name, lambda rows: [rows[0], *(["x", *row[1:]] for row in rows[1:])])
    with pytest.raises(DataError, match="none of the 12 images of class COVID can be read and has a URL"):
        read_manifest(folder)


def test_manifest_as_a_table(made, tmp_path):
    manifest = read_manifest(made)
    manifest.write(tmp_path / "m.csv")
    table = pyarrow.csv.read_csv(tmp_path / "m.csv")
    assert table.column_names == ["image", "label", "site", "path"]
    assert table["path"].to_pylist() == [image.path.as_posix() for image in manifest.images]


def test_the_digest_is_the_content_s(folder):
    before = read_manifest(folder).digest()
    assert read_manifest(folder).digest() == before
    Image.new("L", (8, 8)).save(folder / "Normal" / "images" / "Normal-2.png")
    assert read_manifest(folder).digest() != before


def test_images(tmp_path, monkeypatch):
    path = tmp_path / "x.png"
    Image.new("RGB", (10, 20), (255, 255, 255)).save(path)
    np.testing.assert_array_equal(read_image(path, 32), np.ones((32, 32), dtype=np.float32))
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    Image.fromarray(pixels).save(path)
    np.testing.assert_array_equal(read_image(path, 8), pixels.astype(np.float32) / 255)
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 10)
    with pytest.raises(DataError, match=r"x\.png cannot be read as an image: Image size \(64 pixels\) exceeds"):
        read_image(path, 8)
    path.write_text("no image")
    with pytest.raises(DataError, match=r"x\.png cannot be read as an image"):
        read_image(path, 8)


@pytest.mark.parametrize(("module", "package"), [("openpyxl", "openpyxl"), ("PIL.Image", "pillow")])
def test_what_is_not_installed_is_named(made, monkeypatch, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SettingError, match=rf"{package}, which is not installed; .* \(gaussip\[xray\]\)"):
        read_manifest(made)


def test_images_are_never_overwritten(made, tmp_path):
    with pytest.raises(FileError, match="not an empty folder"):
        write_images(made)
    with pytest.raises(FileError, match="there is no folder"):
        write_images(tmp_path / "nowhere" / "images")


def test_the_help():
    for name in ("check", "features", "stand-in"):
        message = CliRunner().invoke(app, ["xray", name, "--help"], env={"COLUMNS": "200"}).output
        assert f"Example: gaussip xray {name}" in message
        assert "--json" in message


def test_the_commands(tmp_path):
    folder, out = tmp_path / "images", tmp_path / "m.csv"
    assert gaussip("xray", "stand-in", folder).returncode == 0
    (folder / "COVID" / "images" / "COVID-3.png").unlink()
    shown = gaussip("xray", "check", folder, "--out", out)
    assert shown.returncode == 0, shown.stderr
    assert "Hannover" in shown.stdout
    assert "names in the workbooks without an image (1): 'COVID-3'" in shown.stdout
    answer = json.loads(gaussip("xray", "check", folder, "--json").stdout)
    assert answer["images"] == 19
    assert answer["counts"]["RSNA"] == {"covid": 0, "lung_opacity": 2, "normal": 2, "viral_pneumonia": 0}
    assert "--force" in gaussip("xray", "check", folder, "--out", out).stderr


def test_the_real_sample(radiography):
    manifest = read_manifest(radiography / "sample")
    assert manifest.counts() == {
        site: {label: 16 if (site, label) in CELLS else 0 for label in CLASSES.values()} for site in SITES
    }
    assert manifest.remarks.colour == 2
    assert manifest.remarks.unreadable == manifest.remarks.no_source == manifest.remarks.sources == ()
    assert len(manifest.remarks.no_image) == sum(CELLS.values()) - 160
    pixels = read_image(radiography / "sample" / manifest.images[0].path, 224)
    assert pixels.shape == (224, 224)
    assert 0 <= pixels.min() < pixels.max() <= 1


def test_the_workbooks_give_the_published_counts(radiography):
    cells = [
        (site_of(url), label)
        for name, label in CLASSES.items()
        for _, url in read_workbook(radiography / "sample" / f"{name}.metadata.xlsx")
    ]
    assert {cell: cells.count(cell) for cell in set(cells)} == CELLS
