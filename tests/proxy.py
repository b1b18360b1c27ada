"""A TCP proxy on loopback that delays, stalls, breaks and cuts connections."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import threading
import time


class Proxy:
    """Forwards connections to ``target``, each chunk after a delay; a share of chunks stalls as a lost packet does.

    TCP hides a lost packet behind a wait for its repetition, here of 0.2 s; a tenth of the losses break the link.
    """

    def __init__(self, delay, loss, seed):
        self._delay, self._loss, self._random = delay, loss, random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.target = None
        self._open = threading.Event()
        self._open.set()
        self._closing = False
        self._sockets = set()

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *problem):
        self._closing = True
        self._listener.close()
        self._open.set()
        self.break_connections()

    def cut(self):
        """Nothing goes through, and nobody is told."""
        self._open.clear()

    def mend(self):
        self._open.set()

    def break_connections(self):
        for one in list(self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        while not self._closing:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(caller,), daemon=True).start()

    def _connect(self, caller):
        self._open.wait()
        try:
            called = socket.create_connection(self.target)
        except OSError:
            caller.close()
            return
        self._sockets |= {caller, called}
        for source, sink in ((caller, called), (called, caller)):
            threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source, sink):
        try:
            while not self._closing:
                if not select.select([source], [], [], 0.5)[0]:
                    continue
                data = source.recv(65536)
                if not data:
                    break
                time.sleep(self._delay)
                if self._random.random() < self._loss:
                    time.sleep(0.2)
                    if self._random.random() < 0.1:
                        break
                self._open.wait()
                sink.sendall(data)
        except (OSError, ValueError):
            pass
        for one in (source, sink):
            self._sockets.discard(one)
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
