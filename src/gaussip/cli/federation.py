"""gaussip federation."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gaussip.cli.console import Answer, Json, command, table
from gaussip.cli.options import Overwrite
from gaussip.files import refuse_overwriting
from gaussip.settings import MOMENTS

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
    from gaussip.exchange.neighbourhood import Neighbours
    from gaussip.federation.reading import load
    from gaussip.phases.private_fit import needs

    description = load(file)
    task = description.task()
    neighbours = {site: [task.sites[q] for q in Neighbours(task.W, m).all] for m, site in enumerate(task.sites)}
    rows = [
        [site, description.sites[site].address or "(calls others)", ", ".join(names)]
        for site, names in neighbours.items()
    ]
    number = str(description.components)
    if description.choice is not None:
        number = f"{max(description.choice.at_least, len(description.classes or ()))} to {description.most}"
    needed = None if task.privacy is None else needs(task)
    shown = [
        f"{description.name}: {len(rows)} sites, {len(description.features)} features, {number} components, "
        f"algorithm {description.algorithm}",
        _learned(description),
        *([] if needed is None else [f"a private fit needs {needed}"]),
        *_changes(description),
        f"news reaches all sites in {task.network.diameter} exchanges; digest {description.digest()[:12]}", "",
        table(["site", "reached at", "talks to"], rows, texts=["reached at", "talks to"]),
    ]  # fmt: skip
    return Answer(
        shown, name=description.name, digest=description.digest(), sites=list(task.sites),
        diameter=task.network.diameter, algorithm=description.algorithm, components=description.most,
        features=description.features, neighbours=neighbours, hide=description.hide, reveals=description.reveals,
        needs=needed,
    )  # fmt: skip


def _learned(description: Any) -> str:
    """What sites learn of each other."""
    if description.privacy is not None:
        from gaussip.privacy import Privacy

        privacy = Privacy.of(description.privacy)
        if privacy.noise_seed is not None:
            return "the noise of sums has a seed: nothing is guaranteed, this is a study"
        who = f"{privacy.colluding} other{'s' * (privacy.colluding != 1)} sharing what they know"
        asked = f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g}, for {privacy.neighbours}"
        return f"others learn sums with noise over all sites: {asked}, with at most {who}"
    if description.reveals == MOMENTS:
        return f"others can compute a site's own moments, and rows of small sites: reveals = {MOMENTS!r}"
    also = "" if description.reveals == "nothing" else f", and {description.reveals}"
    return f"others learn sums over all sites{also}: sums are hidden by masks"


def _changes(description: Any) -> list[str]:
    """What is done to features and rows before they count."""
    changes = []
    if description.choice is not None:
        changes.append(f"the sites choose how many components, by {description.choice.criterion.upper()}")
    if description.intervals != "none":
        changes.append(f"{description.intervals} standard errors are wanted")
    if description.reduce is not None:
        changes.append(f"first reduced to principal components, keep = {description.reduce.keep:g}")
    if description.shrinkage:
        changes.append(f"{description.shrinkage:g} of every covariance is the start's mean covariance")
    if description.unlabelled_weight != 1:
        changes.append(f"an unlabelled row counts {description.unlabelled_weight:g} of a labelled one")
    return ["; ".join(changes)] if changes else []


@app.command()
@command
def draw(
    file: Toml,
    out: Annotated[Path, typer.Option("--out", "-o", help="Picture: .png, .svg or .pdf, with its edges in a .csv.")],
    force: Overwrite = False,
    json: Json = False,
) -> Answer:
    """Draw who talks to whom.

    Example: `gaussip federation draw federation.toml --out network.png`
    """
    from gaussip.federation.reading import load
    from gaussip.plots import draw_network, paths_of, save

    description = load(file)
    task = description.task()
    refuse_overwriting(*paths_of(out), force=force)
    files = [str(path) for path in save(draw_network(task.W, list(task.sites), title=description.name), out)]
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
    from gaussip.federation.reading import load

    description = load(file)
    made = folders.init(file.read_text(encoding="utf-8"), description, out, days=days, requests=requests)
    then = (
        "each site's request.pem is to be signed by your authority; put the certificate beside it as certificate.pem "
        "and the authorities' own certificates as authorities.pem"
        if requests
        else f"certificates end in {days:g} days: gaussip federation renew {out} SITE makes another. Keep "
        f"{out / folders.AUTHORITY} to yourself"
    )
    shown = [f"{len(made)} folders in {out}: {', '.join(path.name for path in made)}", then]
    return Answer(shown, folders=[str(path) for path in made], digest=description.digest())


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
