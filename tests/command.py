"""The command as users run it: a process of its own."""

import os
import subprocess
import sys

FIT = ["--sites", "hospital", "--labels", "diagnosis", "--components", "3", "--start", "labels", "--eta", "0.1"]


def gaussip(*arguments, cwd=None):
    """Run the command; its output, errors and exit code."""
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-c", "from gaussip.cli import main; main()", *map(str, arguments)],
        capture_output=True, text=True, cwd=cwd, env=environment, timeout=300,
    )  # fmt: skip
