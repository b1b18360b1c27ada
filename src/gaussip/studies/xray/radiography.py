"""The COVID-19 Radiography Database as it is distributed: chest X-rays in four classes, from eight public sources."""

import hashlib
import importlib
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from gaussip.arrays import NDArray
from gaussip.errors import DataError, SettingError, some
from gaussip.rows.table_files import write_table

CLASSES = {  # class folder (and workbook) -> label
    "COVID": "covid",
    "Lung_Opacity": "lung_opacity",
    "Normal": "normal",
    "Viral Pneumonia": "viral_pneumonia",
}
SOURCES = {  # what a URL contains -> site
    "kaggle.com/c/rsna-pneumonia-detection-challenge": "RSNA",
    "kaggle.com/paultimothymooney/chest-xray-pneumonia": "Kermany",
    "bimcv.cipf.es": "BIMCV",
    "github.com/armiro/covid-cxnet": "COVID-CXNet",
    "eurorad.org": "Eurorad",
    "github.com/ml-workgroup/covid-19-image-repository": "Hannover",
    "github.com/ieee8023/covid-chestxray-dataset": "ieee8023",
    "sirm.org": "SIRM",
}
SITES = tuple(SOURCES.values())
EIGHT_BIT = ("1", "L", "LA", "P", "RGB", "RGBA")  # others would be clipped on their way to greyscale
Watch = Callable[[str, float], None]


class Image(NamedTuple):
    """One X-ray."""

    path: Path  #: within the database's folder
    label: str
    site: str
    digest: str  #: SHA-256 of the file

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.path.stem


class Remarks(NamedTuple):
    """What is odd about a database, and does not keep it from being used."""

    sources: tuple[str, ...] = ()  #: host names of URLs that belong to none of the known sites, which are sites here
    no_source: tuple[str, ...] = ()  #: images left out: no workbook row, or one without a URL
    no_image: tuple[str, ...] = ()  #: names in workbooks
    twice: tuple[str, ...] = ()  #: names in workbooks more than once; the first row counts
    unreadable: tuple[str, ...] = ()  #: images left out, with the reason
    same: tuple[tuple[str, ...], ...] = ()  #: images that are the same to the byte, kept
    colour: int = 0  #: images with colour channels, read as greyscale

    def lines(self) -> list[str]:
        """The remarks as people read them."""
        kinds = [
            (self.sources, "URLs of no known source, taken as sites by host name"),
            (self.no_source, "images left out, which no workbook gives a URL"),
            (self.no_image, "names in the workbooks without an image"),
            (self.twice, "names more than once in the workbooks, where the first row counts"),
            (self.unreadable, "images left out, which cannot be read"),
            ([" = ".join(group) for group in self.same], "images that are the same to the byte"),
        ]
        lines = [f"{what} ({len(names)}): {some(names, 3)}" for names, what in kinds if names]
        return lines + [f"colour images, read as greyscale ({self.colour})"] * bool(self.colour)


class Manifest(NamedTuple):
    """The images of a database with their labels and sites, and what was remarked on the way."""

    folder: Path
    images: tuple[Image, ...]
    remarks: Remarks

    def counts(self) -> dict[str, dict[str, int]]:
        """Images by site and class, zeros too; the known sites first."""
        counts = Counter((image.site, image.label) for image in self.images)
        there = {image.site for image in self.images}
        sites = [site for site in SITES if site in there] + sorted(there.difference(SITES))
        return {site: {label: counts[site, label] for label in CLASSES.values()} for site in sites}

    def digest(self) -> str:
        """SHA-256 of every image's path, label, site and content."""
        lines = (f"{i.path.as_posix()}\t{i.label}\t{i.site}\t{i.digest}\n" for i in self.images)
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Columns image, label, site and path as a CSV or Parquet file."""
        columns = {"image": "name", "label": "label", "site": "site"}
        values = {column: [getattr(image, name) for image in self.images] for column, name in columns.items()}
        write_table(path, {**values, "path": [image.path.as_posix() for image in self.images]})


def read_manifest(folder: str | os.PathLike[str], watch: Watch = lambda text, done: None) -> Manifest:
    """Look at every image of a database and find its label and site; ``watch`` gets the share of the work done.

    For each class there is a folder ``CLASS``, with ``images/*.png`` or ``*.png``, and ``CLASS.metadata.xlsx``.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"there is no folder {root}")
    paths = {name: _images_of(root, name) for name in CLASSES}
    workbooks = {name: _inside(root, f"{name}.metadata.xlsx", "workbook") for name in CLASSES}
    total, done = sum(map(len, paths.values())), 0
    images: list[Image] = []
    notes: dict[str, list[str]] = {"sources": [], "no_source": [], "no_image": [], "twice": [], "unreadable": []}
    by_digest: dict[str, list[str]] = {}
    colour = 0
    for name, label in CLASSES.items():
        watch(f"reading {workbooks[name].name}", done / total)
        rows = read_workbook(workbooks[name])
        urls: dict[str, tuple[str, str]] = {}  # matched without regard to case: COVID-1.png is the workbook's Covid-1
        for listed, url in rows:
            urls.setdefault(listed.casefold(), (listed, url))
        listings = Counter(listed.casefold() for listed, _ in rows)
        notes["twice"] += [urls[key][0] for key, count in listings.items() if count > 1]
        there = {path.stem.casefold() for path in paths[name]}
        notes["no_image"] += [listed for key, (listed, _) in urls.items() if key not in there]
        for path in paths[name]:
            done += 1
            watch(f"looking at {path.name}", done / total)
            relative = path.relative_to(root)
            url = urls.get(path.stem.casefold(), ("", ""))[1]
            if not url:
                notes["no_source"].append(relative.as_posix())
                continue
            try:
                mode, digest = _look_at(path)
            except DataError as error:
                notes["unreadable"].append(f"{relative.as_posix()} ({error})")
                continue
            site = site_of(url)
            if site not in SITES and site not in notes["sources"]:
                notes["sources"].append(site)
            colour += mode not in ("1", "L", "LA")
            by_digest.setdefault(digest, []).append(relative.as_posix())
            images.append(Image(relative, label, site, digest))
    for name, label in CLASSES.items():
        if not any(image.label == label for image in images):
            raise DataError(
                f"none of the {len(paths[name])} images of class {name} can be read and has a URL in "
                f"{workbooks[name].name}; the column FILE NAME holds the images' names, URL where they come from"
            )
    same = tuple(tuple(group) for group in by_digest.values() if len(group) > 1)
    remarks = Remarks(**{what: tuple(names) for what, names in notes.items()}, same=same, colour=colour)
    return Manifest(root, tuple(images), remarks)


def read_workbook(path: Path) -> list[tuple[str, str]]:
    """Names, without an ending, and URLs of a class's workbook."""
    openpyxl = extra("openpyxl")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # what a file says of its own size may be wrong
            rows = list(sheet.iter_rows(values_only=True))
        finally:
            book.close()
    except Exception as error:  # openpyxl raises whatever its parser meets
        raise DataError(f"{path} is not a workbook (.xlsx) that can be read: {error}") from error
    header = [str(cell or "").strip() for cell in rows[0]] if rows else []
    name, url = (_column(path, header, wanted) for wanted in ("FILE NAME", "URL"))
    cells = [[str(cell or "").strip() for cell in row] + [""] * len(header) for row in rows[1:]]
    return [(re.sub(r"\.png$", "", row[name], flags=re.IGNORECASE), row[url]) for row in cells if row[name]]


def site_of(url: str) -> str:
    """The site a URL stands for: one of the eight sources, or else its host name."""
    known = next((site for pattern, site in SOURCES.items() if pattern in url.casefold()), None)
    if known is not None:
        return known
    try:
        host = urlsplit(url if "//" in url else f"//{url}").hostname
    except ValueError:
        host = None
    return host.removeprefix("www.") if host else url


def read_image(path: str | os.PathLike[str], size: int) -> NDArray:
    """An image as greyscale (size, size), float32 in [0, 1]."""
    pillow = extra("PIL.Image")
    try:
        with pillow.open(path) as image:
            _check_mode(image.mode)
            grey = image.convert("L").resize((size, size), pillow.Resampling.BILINEAR)
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as an image: {error}") from error
    return np.asarray(grey, dtype=np.float32) / np.float32(255)


def extra(module: str) -> Any:
    """A module that comes with the extra ``xray``."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = {"PIL": "pillow"}.get(module.partition(".")[0], module)
        raise SettingError(
            f"X-rays need {package}, which is not installed; install gaussip with its xray extra (gaussip[xray])"
        ) from error


def _images_of(root: Path, name: str) -> list[Path]:
    """The images of a class, COVID-2 before COVID-10."""
    folder = _inside(root, name, "class folder")
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; it holds the images of class {name}")
    files = [*folder.glob("*"), *(folder / "images").glob("*")]  # in older releases they lie in the class folder
    images = [path for path in files if path.suffix.lower() == ".png" and not path.name.startswith(".")]
    if not images:
        raise DataError(f"{folder} has no image: neither images/*.png nor *.png is there")
    return sorted(images, key=lambda path: (len(path.name), path.name))


def _inside(root: Path, name: str, what: str) -> Path:
    """Something in the database's folder, without regard to case."""
    there = {path.name.casefold(): path for path in sorted(root.iterdir())}
    if name.casefold() not in there:
        names = some([path.name for path in there.values()], 8) if there else "nothing"
        raise DataError(f"{root} has no {what} {name!r}; it has {names}")
    return there[name.casefold()]


def _column(path: Path, header: Sequence[str], wanted: str) -> int:
    upper = [name.upper() for name in header]
    if wanted not in upper:
        names = some([name for name in header if name]) if any(header) else "nothing"
        raise DataError(f"{path} has no column {wanted!r}; its first row has {names}")
    return upper.index(wanted)


def _look_at(path: Path) -> tuple[str, str]:
    """Whether a file is an image, by its checksums: its mode, and the SHA-256 of its bytes."""
    pillow = extra("PIL.Image")
    try:
        content = path.read_bytes()
        with pillow.open(io.BytesIO(content)) as image:
            mode = image.mode
            image.verify()
        _check_mode(mode)
    except pillow.UnidentifiedImageError as error:
        raise DataError("no image" if content else "an empty file") from error
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        raise DataError(str(error)) from error
    return mode, hashlib.sha256(content).hexdigest()


def _check_mode(mode: str) -> None:
    if mode not in EIGHT_BIT:
        raise ValueError(f"its pixels are of kind {mode}, not 8-bit; save it as 8-bit greyscale")
