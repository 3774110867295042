"""A connection to a store that can be cut: after so many bytes, and for all that comes later, until it is mended.

Cut, connections end. Held, they stay and nothing arrives, as where a cable is out. Silenced, those that are open stay
and are acknowledged for ever, as by a proxy that has forgotten them; new ones are forwarded, or swallowed too.
"""

import contextlib
import socket
import threading

from tests.support.listener import Listener


class Link(Listener):
    """Forwards connections to a port of this machine, of an address of its own."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._left: int | None = None  # bytes that are still forwarded; None: all
        self._lock = threading.Lock()
        self._flows = threading.Event()
        self._flows.set()
        self._silenced: list[socket.socket] = []
        self._open: list[socket.socket] = []
        self._swallows = False
        super().__init__()
        self.port = self._listener.getsockname()[1]

    def cut(self, after: int) -> None:
        """Forward so many bytes more to the store, and nothing then."""
        with self._lock:
            self._left = after

    def hold(self) -> None:
        """Let nothing arrive, at either side, until it is mended; then all of it does."""
        self._flows.clear()

    def mend(self) -> None:
        with self._lock:
            self._left = None
            self._swallows = False
        self._flows.set()

    def silence(self, *, new: bool) -> None:
        """Swallow all that arrives on open connections, for good; ``new``: and on new ones, until it is mended."""
        with self._lock:
            self._silenced, self._swallows = list(self._open), new

    def serve(self, near: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self._to)) as far:
            with self._lock:
                self._open += [near, far]
                if self._swallows:
                    self._silenced += [near, far]
            back = threading.Thread(target=self._forward, args=(far, near, False), daemon=True)
            back.start()
            self._forward(near, far, True)
            far.shutdown(socket.SHUT_RDWR)
            back.join()

    def _forward(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                if source in self._silenced:
                    continue
                if counts:
                    data = self._allowed(data)
                    if data is None:
                        break
                target.sendall(data)
        if source not in self._silenced:
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)

    def _allowed(self, data: bytes) -> bytes | None:
        with self._lock:
            if self._left is None:
                return data
            allowed = data[: self._left]
            self._left -= len(allowed)
            return allowed or None
