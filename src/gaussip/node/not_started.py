"""A run that was refused before it began, or began again: the site's status says so, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gaussip.errors import FileError, GaussipError
from gaussip.federation.folders import SiteFolder
from gaussip.node.logs import Logs, read_status


@contextmanager
def recorded(folder: SiteFolder, report: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Keep the error that ends this block, for `gaussip site status`; the caller holds the site's folder."""
    try:
        yield
    except GaussipError as error:
        with suppress(FileError):  # the error itself matters more
            _record(folder, str(error), report)
        raise


def _record(folder: SiteFolder, why: str, report: Callable[[dict[str, Any]], None]) -> None:
    status = read_status(folder.path)
    if status is None or status["run"] != folder.run.name:
        status = {
            "site": folder.site, "federation": folder.description.name, "run": folder.run.name,
            "phase": "not started", "exchange": 0, "round": 0, "neighbours": {},
        }  # fmt: skip
    logs = Logs(folder.path, report)
    try:
        logs.event("not started", why=why)
        logs.status(**{**status, "state": "stopped", "waiting_for": {}, "paused": why})
    finally:
        logs.close()
