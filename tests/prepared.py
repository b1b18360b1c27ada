"""A process that has imported what commands need, and forks one for each: a command then takes a fifth of the time.

Each command is a process of its own, as users run it, with its own end. Real sites are started from nothing.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys


def serve(connection):
    """Fork a process for each request, and answer with its exit code; returns in the forked process alone."""
    while True:
        request, files, *_ = socket.recv_fds(connection, 1 << 20, 2)
        if not request:
            sys.exit()  # whoever asked is gone
        process = os.fork()
        if not process:
            connection.close()
            return json.loads(request), files
        for file in files:
            os.close(file)
        _, status = os.waitpid(process, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


if __name__ == "__main__":
    for name in ("gaussip.estimator", "gaussip.node.runner", "gaussip.plots", "pyarrow.csv", "pyarrow.parquet"):
        importlib.import_module(name)
    from gaussip.cli import main

    gc.freeze()  # what is there stays the forked processes' too: they need not copy it when they end
    asked, (out, err) = serve(socket.socket(fileno=int(sys.argv[1])))
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv[1:] = asked["arguments"]
    main()
