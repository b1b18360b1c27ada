"""gaussip federation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gaussip.cli.console import Answer, Json, command, table
from gaussip.files import refuse_overwriting

app = typer.Typer(
    help="A federation of real sites: its description, folders and certificates.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
Toml = Annotated[Path, typer.Argument(metavar="FEDERATION.TOML", help="The description that all sites agree on.")]


@app.command()
@command
def check(file: Toml, json: Json = False) -> Answer:
    """Check a description, and show what it says.

    Example: `gaussip federation check federation.toml`
    """
    from gaussip.federation.description import load

    found = load(file)
    task = found.task()
    rows = _sites(found, task)
    shown = [
        f"{found.name}: {len(rows)} sites, {len(found.features)} features, {_number(found)} components, "
        f"algorithm {found.algorithm}",
        *_changes(found),
        f"all sites hear from all in {task.diameter} exchanges; digest {found.digest()[:12]}", "",
        table(["site", "reached at", "talks to"], rows, texts=["reached at", "talks to"]),
    ]  # fmt: skip
    return Answer(
        shown, name=found.name, digest=found.digest(), sites=list(task.sites), diameter=task.diameter,
        algorithm=found.algorithm, components=found.most, features=found.features,
        neighbours={site: neighbours.split(", ") for site, _, neighbours in rows},
    )  # fmt: skip


def _number(found: Any) -> str:
    """Of components."""
    if found.choice is None:
        return str(found.components)
    return f"{max(found.choice.at_least, len(found.classes or ()))} to {found.most}"


def _changes(found: Any) -> list[str]:
    """What is done to features and rows before they count."""
    told = []
    if found.choice is not None:
        told.append(f"the sites choose how many components, by {found.choice.criterion.upper()}")
    if found.intervals != "none":
        told.append(f"{found.intervals} standard errors are wanted")
    if found.reduce is not None:
        told.append(f"first reduced to principal components, keep = {found.reduce.keep:g}")
    if found.shrinkage:
        told.append(f"{found.shrinkage:g} of every covariance is the start's mean covariance")
    if found.unlabelled_weight != 1:
        told.append(f"an unlabelled row counts {found.unlabelled_weight:g} of a labelled one")
    return ["; ".join(told)] if told else []


def _sites(found: Any, task: Any) -> list[list[str]]:
    from gaussip.exchange.neighbourhood import Neighbours

    return [
        [
            site,
            found.sites[site].address or "(calls others)",
            ", ".join(task.sites[q] for q in Neighbours(task.W, m).all),
        ]
        for m, site in enumerate(task.sites)
    ]


@app.command()
@command
def draw(
    file: Toml,
    out: Annotated[Path, typer.Option("--out", "-o", help="Picture: .png, .svg or .pdf, with its edges in a .csv.")],
    force: Annotated[bool, typer.Option(help="Overwrite the picture and its .csv if they exist.")] = False,
    json: Json = False,
) -> Answer:
    """Draw who talks to whom.

    Example: `gaussip federation draw federation.toml --out network.png`
    """
    from gaussip.federation.description import load
    from gaussip.plots import draw_network, paths_of, save

    found = load(file)
    task = found.task()
    refuse_overwriting(*paths_of(out), force=force)
    files = [str(path) for path in save(draw_network(task.W, list(task.sites), title=found.name), out)]
    return Answer([f"written: {', '.join(files)}"], files=files)


@app.command()
@command
def init(
    file: Toml,
    out: Annotated[Path, typer.Option("--out", "-o", help="New folder for the sites' folders.")],
    days: Annotated[float, typer.Option(min=0.01, max=825, help="How long certificates last.")] = 30,
    requests: Annotated[
        bool, typer.Option("--requests", help="Make signing requests for your own authority, not certificates.")
    ] = False,
    json: Json = False,
) -> Answer:
    """Make one folder for each site: configuration, key and certificate. Bring each to its site, by a safe way.

    Example: `gaussip federation init federation.toml --out folders`
    """
    from gaussip.federation import folders
    from gaussip.federation.description import load

    found = load(file)
    made = folders.init(file.read_text(encoding="utf-8"), found, out, days=days, requests=requests)
    then = (
        "each site's request.pem is to be signed by your authority; put the certificate beside it as certificate.pem "
        "and the authorities' own certificates as authorities.pem"
        if requests
        else f"certificates end in {days:g} days: gaussip federation renew {out} SITE makes another. Keep "
        f"{out / folders.AUTHORITY} to yourself"
    )
    shown = [f"{len(made)} folders in {out}: {', '.join(path.name for path in made)}", then]
    return Answer(shown, folders=[str(path) for path in made], digest=found.digest())


@app.command()
@command
def renew(
    folders: Annotated[Path, typer.Argument(help="The folder that gaussip federation init made.")],
    site: Annotated[str, typer.Argument(help="The site.")],
    days: Annotated[float, typer.Option(min=0.01, max=825, help="How long the certificate lasts.")] = 30,
    json: Json = False,
) -> Answer:
    """Make a new key and certificate for a site; a running site takes them up by itself.

    Example: `gaussip federation renew folders bern --days 30`
    """
    from gaussip.federation.folders import renew as renewed

    folder = renewed(folders, site, days)
    text = f"key.pem and certificate.pem of {site} in {folder}: bring both to the site's folder"
    return Answer([text], folder=str(folder), site=site, days=days)
