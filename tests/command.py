"""The command as users run it: a process of its own."""

import functools
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

PROGRAM = [sys.executable, "-c", "from gaussip.cli import main; main()"]
PLAIN = {"COLUMNS": "200", "NO_COLOR": "1"}  # a wide page without colours
FIT = ["--sites", "hospital", "--labels", "diagnosis", "--components", "3", "--start", "labels", "--eta", "0.1"]


def gaussip(*arguments, cwd=None):
    """Run the command, as a process that a prepared one forks; its output, errors and exit code."""
    words = list(map(str, arguments))
    environment = {**os.environ, **PLAIN}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        asked = {"arguments": words, "cwd": str(cwd or os.getcwd()), "environment": environment}
        connection, server = prepared()
        try:
            socket.send_fds(connection, [json.dumps(asked).encode()], [out.fileno(), err.fileno()])
            code = int(connection.recv(100))
        except BaseException:  # its answer would be taken for that of the next command
            os.killpg(server.pid, signal.SIGKILL)
            prepared.cache_clear()
            raise
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(["gaussip", *words], code, *texts)


@functools.cache
def prepared():
    """A connection to the process that forks commands, which ends with this one; and that process."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here.settimeout(300)
    server = [sys.executable, str(Path(__file__).with_name("prepared.py")), str(there.fileno())]
    environment = {**os.environ, **PLAIN}
    process = subprocess.Popen(server, pass_fds=[there.fileno()], env=environment, start_new_session=True)
    there.close()
    return here, process


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
