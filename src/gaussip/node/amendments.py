"""Going on after a site is lost, or its disk: what the operators agree on, each with the same command."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from gaussip.errors import FederationError, GaussipError
from gaussip.federation.folders import Amendment, SiteFolder, amended, amendments, read
from gaussip.federation.reading import refuse_faults
from gaussip.files import whole
from gaussip.node.lock import alone
from gaussip.node.run_store import RunStore


class Agreement(NamedTuple):
    """What a site will run from now on; all sites must show the same digest."""

    digest: str
    sites: tuple[str, ...]
    from_round: int


def go_on(folder: SiteFolder, without: list[str], from_round: int) -> Agreement:
    """Change what a site runs: other sites, or an earlier round; nothing of the run before is removed."""
    d = folder.description
    with alone(folder.path, folder.site):
        unknown = [name for name in without if name not in d.names]
        if unknown:
            raise FederationError(
                f"there is no site {unknown[0]!r} in the federation; there are {', '.join(d.names)}"
            )
        if folder.site in without:
            raise FederationError(f"site {folder.site} cannot go on without itself; give the command at the others")
        if from_round:
            RunStore(folder.run).checkpoint(from_round)
        gone = sorted({*d.without, *without})
        change = Amendment(gone, [*d.going_on_from, f"{folder.run.name}@{from_round}"])
        after = amended(d, change)
        try:
            refuse_faults(after)
        except GaussipError as error:
            raise FederationError(f"without {', '.join(gone)} the sites cannot go on: {error}") from error
        _write(folder.path, [*amendments(folder.path), change])
    return Agreement(after.digest(), after.names, from_round)


def undo(folder: SiteFolder) -> Agreement:
    """Take back the last such change."""
    steps = amendments(folder.path)
    if not steps:
        raise FederationError(f"there is nothing to take back: {folder.site} runs what federation.toml says")
    with alone(folder.path, folder.site):
        _write(folder.path, steps[:-1])
    now = read(folder.path).description
    before = now.going_on_from[-1].partition("@")[2] if now.going_on_from else "0"
    return Agreement(now.digest(), now.names, int(before))


def _write(path: Path, steps: list[Amendment]) -> None:
    with whole(path / "amended.json") as partial:
        partial.write_bytes(msgspec.json.encode(steps))
