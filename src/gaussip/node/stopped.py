"""Why a site's process ended before its run did: its status says so, and its events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gaussip.errors import FileError, GaussipError
from gaussip.federation.folders import SiteFolder
from gaussip.node.logs import Logs, read_status
from gaussip.node.run_store import RunStore


@contextmanager
def recorded(
    folder: SiteFolder, report: Callable[[dict[str, Any]], None], *, about_cells: bool = False
) -> Iterator[None]:
    """Keep the error that ends this block, for `gaussip site status`; the caller holds the site's folder.

    Nothing is kept where the run itself has ended with it, and nothing of an error whose text may hold cells.
    """
    try:
        yield
    except GaussipError as error:
        where = f" (column {error.column!r})" if error.column else ""
        why = f"its table was refused{where}: the message is where it was started" if about_cells else str(error)
        with suppress(FileError):  # the error itself matters more
            if RunStore(folder.run).end() is None:
                _record(folder, why, report)
        raise


def _record(folder: SiteFolder, why: str, report: Callable[[dict[str, Any]], None]) -> None:
    logs = Logs(folder.path, report)
    try:
        logs.event("stopped", why=why)
        try:
            status = status_of_run(folder)
        except FileError:  # a damaged one is written again
            status = None
        logs.status(**{**(status or starting(folder)), "state": "stopped", "waiting_for": {}, "paused": why})
    finally:
        logs.close()


def status_of_run(folder: SiteFolder) -> dict[str, Any] | None:
    """What the site last reported of its run; None where the report is of another run, or there is none."""
    status = read_status(folder.path)
    return None if status is None or status.get("run") != folder.run.name else status


def starting(folder: SiteFolder) -> dict[str, Any]:
    """The status of a site that has reported nothing of its run yet."""
    return {
        "site": folder.site, "federation": folder.description.name, "run": folder.run.name, "state": "starting",
        "phase": "starting", "exchange": 0, "round": 0, "neighbours": {}, "waiting_for": {}, "paused": None,
    }  # fmt: skip
