"""Going on after a site is lost, or its disk: what the operators agree on, each with the same command."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from gaussip.errors import FederationError, GaussipError
from gaussip.federation.folders import Amendment, SiteFolder, read
from gaussip.files import whole
from gaussip.site.keeping import Keeping
from gaussip.site.lock import is_running


class Agreement(NamedTuple):
    """What a site will run from now on; all sites must show the same digest."""

    digest: str
    sites: tuple[str, ...]
    from_round: int


def go_on(folder: SiteFolder, without: list[str], from_round: int) -> Agreement:
    """Change what a site runs: other sites, or an earlier round; nothing of the run before is removed."""
    d = folder.description
    if is_running(folder.path):
        raise FederationError(f"site {folder.site} is running; stop it first (at every site), then give this command")
    unknown = [name for name in without if name not in d.names]
    if unknown:
        raise FederationError(f"there is no site {unknown[0]!r} in the federation; there are {', '.join(d.names)}")
    if folder.site in without:
        raise FederationError(f"site {folder.site} cannot go on without itself; give the command at the other sites")
    if from_round:
        Keeping(folder.run).checkpoint(from_round)
    change = Amendment([*d.without, *sorted(without)], [*d.going_on_from, f"{folder.run.name}@{from_round}"])
    after = msgspec.structs.replace(d, without=change.without, going_on_from=change.going_on_from)
    try:
        after.task()
    except GaussipError as error:
        raise FederationError(f"without {', '.join(without)} the sites cannot go on: {error}") from error
    with whole(folder.path / "amended.json") as partial:
        partial.write_bytes(msgspec.json.encode(change))
    return Agreement(read(folder.path).description.digest(), after.names, from_round)
