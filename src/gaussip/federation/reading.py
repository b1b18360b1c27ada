"""Reading a description from its file; errors name the line."""

from collections.abc import Callable
from pathlib import Path

from gaussip.errors import FederationError, GaussipError
from gaussip.federation.description import Components, Description, Reduce, SiteEntry
from gaussip.federation.faults import as_key, faults, key_of
from gaussip.files.toml import Path as Where
from gaussip.files.toml import Source


def load(path: Path) -> Description:
    """The description in a file, checked."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FederationError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return of_text(text, str(path))


def of_text(text: str, name: str = "federation.toml") -> Description:
    """The description in a text, checked; errors name the line."""
    source = Source(text, name, FederationError)
    sites = source.values.get("sites")
    for site, entry in sites.items() if isinstance(sites, dict) else ():
        source.converted(entry, SiteEntry, ("sites", site))
    for key, kind in (("reduce", Reduce), ("components", Components)):
        if isinstance(source.values.get(key), dict):
            source.converted(source.values[key], kind, (key,))
    description: Description = source.converted(source.values, Description)
    for key in ("without", "going_on_from"):
        if key in source.values:
            raise source.error(f"{key} is not for a description: gaussip site go-on keeps it", (key,))
    refuse_faults(description, source.error)
    return description


def refuse_faults(
    description: Description, error: Callable[[str, Where], GaussipError] = lambda text, _: FederationError(text)
) -> None:
    """Refuse a description with which sites cannot work; ``error`` makes the error for a key."""
    for key, fault in faults(description):
        raise error(fault, (key,) if isinstance(key, str) else key)
    try:
        description.task()
    except GaussipError as problem:
        raise error(problem.worded(as_key), key_of(problem)) from problem
