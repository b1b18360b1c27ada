"""Calls that the engine refused: it reports them in its log alone, which goes to standard output."""

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import zenoh

_TLS = re.compile(r"WARN .*zenoh_link_tls[\w:]*: (?P<why>.+)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_HINT = re.compile(r"\s*Hint: .*")
_AGAIN = 60.0  # seconds before the same reason is reported again: a caller may call again and again


@contextmanager
def reporting_refusals(refused: Callable[[str], None]) -> Iterator[None]:
    """Call ``refused`` with the reason whenever the engine refuses a call; this program prints as before."""
    sys.stdout.flush()
    kept, before = os.dup(1), sys.stdout
    reading, writing = os.pipe()
    os.dup2(writing, 1)
    os.close(writing)
    sys.stdout = os.fdopen(os.dup(kept), "w", buffering=1)
    zenoh.init_log_from_env_or("error,zenoh_link_tls=warn")

    def listen() -> None:
        reported: dict[str, float] = {}
        with os.fdopen(reading, "r", errors="replace") as lines:
            for line in lines:
                warning = _TLS.search(_COLOURS.sub("", line))
                if warning is None:
                    continue
                why = _HINT.sub("", warning["why"])
                kind = re.sub(r"\d+", "", why)
                if time.monotonic() - reported.get(kind, -_AGAIN) >= _AGAIN:
                    reported[kind] = time.monotonic()
                    refused(why)

    listener = threading.Thread(target=listen, name="gaussip-engine-log", daemon=True)
    listener.start()
    try:
        yield
    finally:
        sys.stdout.close()
        sys.stdout = before
        os.dup2(kept, 1)  # the last writer goes, and the listener ends
        os.close(kept)
        listener.join(timeout=2)
