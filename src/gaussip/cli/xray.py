"""gaussip xray."""

from pathlib import Path
from typing import Annotated

import typer

from gaussip.cli.console import Answer, Json, command, progress, table
from gaussip.cli.study import resumable
from gaussip.errors import SettingError
from gaussip.files import refuse_overwriting

app = typer.Typer(
    help="Chest X-rays of many sites: the COVID-19 Radiography Database, its features, and a stand-in for both.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
Database = Annotated[
    Path,
    typer.Argument(help="The database's folder: COVID, Lung_Opacity, Normal, Viral Pneumonia and their workbooks."),
]


@app.command()
@command
def check(
    folder: Database,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="CSV of every image, its label and site.")] = None,
    force: Annotated[bool, typer.Option(help="Overwrite the CSV if there is one.")] = False,
    json: Json = False,
) -> Answer:
    """Look at every image of a database: how many of each class and site, and what is odd.

    Example: `gaussip xray check COVID-19_Radiography_Dataset --out manifest.csv`
    """
    from gaussip.studies.xray.radiography import CLASSES, read_manifest

    if out is not None:
        refuse_overwriting(out, force=force, inputs=folder.glob("*.xlsx"))
    with progress(1000, percent=True) as advance:
        manifest = read_manifest(folder, lambda text, part: advance(text, int(1000 * part)))
    counts = manifest.counts()
    labels = list(CLASSES.values())
    totals = {label: sum(of[label] for of in counts.values()) for label in labels}
    rows = [
        [site, *(str(of[label]) for label in labels), str(sum(of.values()))]
        for site, of in {**counts, "all": totals}.items()
    ]
    shown: list[object] = [table(["site", *labels, "all"], rows), *manifest.remarks.lines()]
    if out is not None:
        manifest.write(out)
        shown.append(f"written: {out}")
    return Answer(
        shown, folder=str(folder), images=len(manifest.images), counts=counts, remarks=manifest.remarks._asdict(),
        out=None if out is None else str(out),
    )  # fmt: skip


@app.command()
@command
def features(
    folder: Database,
    weights: Annotated[Path, typer.Option(help="Weights of a DenseNet-121: a state dictionary (.pt, .pth).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The feature table to write, an .npz file.")],
    batch_size: Annotated[int, typer.Option(min=1, help="Images at a time.")] = 32,
    size: Annotated[int, typer.Option(min=32, help="Pixels of a side of the images the network sees.")] = 224,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    normalise: Annotated[
        str | None,
        typer.Option(help="imagenet, xrv or none; by default xrv for weights of one channel, imagenet for three."),
    ] = None,
    force: Annotated[bool, typer.Option(help="Overwrite the feature table if there is one.")] = False,
    json: Json = False,
) -> Answer:
    """Make a feature table of a database's images, or resume one that was interrupted.

    Example: `gaussip xray features COVID-19_Radiography_Dataset --weights densenet121.pth --out features.npz`
    """
    from gaussip.studies.xray.densenet import N_FEATURES
    from gaussip.studies.xray.extract import extract, settle
    from gaussip.studies.xray.radiography import read_manifest

    refuse_overwriting(out, force=force, inputs=[weights])
    settle(weights, out, size, device, normalise)  # looking at the images takes minutes
    with progress(1000, percent=True) as advance:
        manifest = read_manifest(folder, lambda text, part: advance(text, int(1000 * part)))
    with resumable(Path(f"{out}.parts"), "batches") as watch:
        done = extract(
            manifest, weights, out, size=size, batch_size=batch_size, device=device, normalise=normalise, watch=watch
        )
    unread = [*manifest.remarks.unreadable, *done.left_out]
    shown: list[object] = [f"{done.rows} images, {N_FEATURES} features, normalised by {done.normalise}: {out}"]
    if done.kept:
        shown.append(f"{done.kept} batches were kept from a run that was interrupted")
    shown += [f"left out: {reason}" for reason in unread]
    left = len(manifest.remarks.no_source)
    if left:
        shown.append(f"left out: {left} images that no workbook gives a URL")
    return Answer(
        shown, out=str(out), images=done.rows, features=N_FEATURES, normalise=done.normalise, batches_kept=done.kept,
        left_out=unread, no_source=manifest.remarks.no_source,
    )  # fmt: skip


@app.command("stand-in")
@command
def stand_in(
    out: Annotated[Path, typer.Argument(help="A feature table (.npz or .parquet), or a folder of small images.")],
    rows: Annotated[int | None, typer.Option(min=120, help="Rows of the table; 2000 by default.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything drawn at random.")] = 0,
    force: Annotated[bool, typer.Option(help="Overwrite the table if there is one.")] = False,
    json: Json = False,
) -> Answer:
    """Make a stand-in for the database: features, or images with workbooks, of the same sites and classes.

    Example: `gaussip xray stand-in features.npz`, or `gaussip xray stand-in images`
    """
    from gaussip.studies.features.table import write_features
    from gaussip.studies.xray import standin

    if out.suffix in (".npz", ".parquet"):
        refuse_overwriting(out, force=force)
        made = standin.stand_in(rows or 2000, seed=seed)
        write_features(out, made)
        line = f"{made.features.shape[0]} rows of {made.features.shape[1]} features: {out}"
    elif out.suffix:
        raise SettingError(f"{out}: a stand-in is a table, .npz or .parquet, or a folder, without an ending")
    elif rows is not None:
        raise SettingError(f"--rows is for tables, .npz or .parquet; {out} would be a folder of images")
    else:
        standin.write_images(out, seed=seed)
        line = f"small images and workbooks: {out}"
    return Answer([line], out=str(out), seed=seed)
