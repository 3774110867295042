"""A time limit for a whole HTTP exchange: a server that sends a byte now and then keeps every single read in time."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any


class Deadline:
    """Cuts the connection of an :class:`httpx.Client` once the time of its exchange is up.

    A thread of its own watches the clock. Give :meth:`trace` to every request as its extension ``trace``. The client
    must use one connection at a time.

    Attributes:
        passed: Whether the last exchange was cut.
    """

    def __init__(self) -> None:
        self.passed = False
        self._socket: socket.socket | None = None
        self._until: float | None = None
        self._closed = False
        self._changed = threading.Condition()
        threading.Thread(target=self._watch, name="deadline", daemon=True).start()

    def trace(self, event: str, details: Mapping[str, Any]) -> None:
        """Note the socket of a new connection."""
        if event == "connection.connect_tcp.complete":
            connected = details["return_value"].get_extra_info("socket")
            with self._changed:
                self._forget()
                # Encryption takes the socket's descriptor away from it; a second one stays.
                self._socket = connected.dup()

    def set(self, seconds: float) -> None:
        """Let the exchange last so long from now on."""
        with self._changed:
            self.passed = False
            self._until = time.monotonic() + seconds
            self._changed.notify()

    def clear(self) -> None:
        """Note that the exchange is over."""
        with self._changed:
            self._until = None

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._forget()
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                left = None if self._until is None else self._until - time.monotonic()
                if left is None or left > 0:
                    self._changed.wait(left)
                    continue
                self.passed, self._until = True, None
                if self._socket is not None:
                    with contextlib.suppress(OSError):  # the other side has ended it already
                        self._socket.shutdown(socket.SHUT_RDWR)

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
