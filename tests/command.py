"""The command as users run it: a process of its own."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from contextlib import contextmanager

PROGRAM = [sys.executable, "-c", "from gaussip.cli import main; main()"]
FIT = ["--sites", "hospital", "--labels", "diagnosis", "--components", "3", "--start", "labels", "--eta", "0.1"]


def gaussip(*arguments, cwd=None):
    """Run the command; its output, errors and exit code."""
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, env=environment, timeout=300
    )


def wait_until(condition, process, within=120.0):
    """Wait until a condition holds, while a process runs."""
    limit = time.monotonic() + within
    while not condition():
        assert process.poll() is None, f"it ended with {process.returncode} before"
        assert time.monotonic() < limit, f"it did not happen within {within:g} s"
        time.sleep(0.005)


@contextmanager
def on_terminal(*arguments):
    """Run the command with standard error on a terminal; the process, and the terminal to read from."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(
        [*PROGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=follower, env=environment
    ) as process:
        os.close(follower)
        try:
            yield process, leader
        finally:
            process.kill()
            os.close(leader)


def read_until(terminal, pattern, within=60.0):
    """What a terminal shows until a pattern matches, or until it closes."""
    seen, limit = b"", time.monotonic() + within
    while not re.search(pattern, seen):
        assert select.select([terminal], [], [], max(0.0, limit - time.monotonic()))[0], seen
        try:
            seen += os.read(terminal, 4096)
        except OSError:  # the terminal closes with the process
            break
    return seen
