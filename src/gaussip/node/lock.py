"""No two processes run the same site."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gaussip.errors import FederationError, FileError


@contextmanager
def alone(folder: Path, site: str) -> Iterator[None]:
    """Hold a site's folder; refused where another process does."""
    try:
        lock = open(folder / "lock", "w")  # noqa: SIM115
    except OSError as error:
        raise FileError(f"cannot write into {folder}: {error.strerror}") from error
    with lock:
        for left in reversed(range(10)):  # somebody may just be asking for its status
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if not left:
                    raise FederationError(
                        f"site {site} is already running from {folder}; see gaussip site status {folder}"
                    ) from None
                time.sleep(0.1)
        yield


def is_running(folder: Path) -> bool:
    """Whether a process runs the site of a folder."""
    if not (folder / "lock").exists():
        return False
    with open(folder / "lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
